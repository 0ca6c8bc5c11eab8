//! The options by which services are a part of a platform of others.

use clap::{Args, ValueHint};

use estimand_cli::arguments::parse;

use crate::options::{Eureka, Platform};

// The services of a platform that are spoken to.
#[derive(Debug, Default, Clone, Args)]
pub struct PlatformArgs {
    /// Publish what happens to tasks to this RabbitMQ, amqp://USER:PASSWORD@HOST[:PORT][/VHOST] or amqps://…; a URL with a
    /// password is better given in the environment or in a settings file, as arguments are seen by others
    #[arg(long, value_name = "URL", env = "ESTIMAND_PUBLISH", hide_env_values = true)]
    publish: Option<String>,
    /// Register with this Eureka server, such as http://HOST:8761/eureka; several with commas
    #[arg(long, value_name = "URLS", env = "ESTIMAND_EUREKA", hide_env_values = true)]
    eureka: Option<String>,
    /// The name of the application in Eureka
    #[arg(long, value_name = "NAME", default_value = "ESTIMAND")]
    eureka_app: String,
    /// This service as others reach it, for Eureka [default: the address that it listens on]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    advertise: Option<String>,
}

impl PlatformArgs {
    /// Above them in a command's help.
    pub const HEADING: &'static str = "Platform";

    pub fn options(self) -> Platform {
        let PlatformArgs { publish, eureka, eureka_app, advertise } = self;
        let eureka = eureka.filter(|servers| !servers.is_empty()).map(|servers| Eureka {
            servers: servers
                .split(',')
                .map(|server| server.trim().trim_end_matches('/').to_owned())
                .collect(),
            app: eureka_app.to_uppercase(),
            advertise,
        });
        Platform { publish: publish.filter(|url| !url.is_empty()), eureka }
    }
}
