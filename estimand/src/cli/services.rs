//! The options of every command that starts services.

use std::path::PathBuf;

use crate::telemetry;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};

use estimand_cli::credentials::data_dir_or_default;
use estimand_web::server::ListenAddress;
use estimand_web::{BasePath, Origin};

use super::tls::TlsArgs;
use crate::options::{Options, Platform};
use crate::services::ServiceOptions;

/// Permissions as `chmod` takes them: of user, group and others.
fn socket_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "expected octal digits such as 600, 660 or 666".to_owned())
}

#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// The address to listen on; port 0 takes any free port; unix:/PATH is a socket in the file system. A socket of systemd
    /// (LISTEN_FDS) comes first
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: ListenAddress,
    /// The permissions of the socket of unix:/PATH, in octal digits
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = socket_mode)]
    socket_mode: u32,
    /// The folder for data [default: estimand in $XDG_DATA_HOME, else in ~/.local/share, else in /var/lib]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// The database: sqlite://PATH, postgres://… or mysql://…; a URL with a password is better given in the
    /// environment, as arguments are seen by others [default: the file estimand.db in the data folder]
    #[arg(long, value_name = "URL", env = "ESTIMAND_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Take a PostgreSQL or MariaDB database over from a registry, data service or task service that runs on it, which
    /// then ends; without this only one that has ended is followed
    #[arg(long)]
    take_over: bool,
    /// How many threads answer requests [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Listen on an address that other machines can reach without TLS, and let everybody do everything
    #[arg(long)]
    insecure: bool,
    /// Ask for a token on this machine, too, for all but health and the files of the dashboard: needed where a proxy on
    /// this machine hands on what others ask
    #[arg(long, conflicts_with = "insecure")]
    require_token: bool,
    /// The path below which a proxy shows this service, e.g. /estimand [default: what the proxy says in
    /// X-Forwarded-Prefix, else none]
    #[arg(long, value_name = "PATH")]
    base: Option<BasePath>,
    /// Let pages of this origin, e.g. https://pages.example, read here and do what their token allows; may be repeated
    /// [default: none]
    #[arg(long = "allow-origin", id = "allow_origins", value_name = "ORIGIN")]
    allow_origins: Vec<Origin>,
    /// Read settings from this YAML file: each option here is a key there, and goes before it; read again on SIGHUP
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    /// How much is logged, e.g. debug or info,estimand::access=debug [default: $ESTIMAND_LOG, else info]
    #[arg(long, value_name = "FILTER", value_parser = telemetry::filter)]
    log: Option<String>,
    /// How the log looks, which goes to standard error
    #[arg(long, value_name = "FORMAT", default_value = "pretty", value_parser = log_format())]
    log_format: telemetry::Format,
}

impl ServiceArgs {
    pub fn data_dir(&self) -> PathBuf {
        data_dir_or_default(self.data_dir.clone())
    }

    pub fn options(self, services: Vec<Box<dyn ServiceOptions>>) -> Options {
        Options {
            data_dir: self.data_dir(),
            listen: self.listen,
            socket_mode: self.socket_mode,
            store: self.store,
            takes_over: self.take_over,
            workers: self.workers.map(usize::from),
            insecure: self.insecure,
            require_token: self.require_token,
            base: self.base,
            origins: self.allow_origins,
            tls: self.tls.files(),
            log: telemetry::Log { format: self.log_format, filter: self.log },
            platform: Platform::default(),
            services,
            is_up: false,
            agent: None,
        }
    }
}

pub fn log_format() -> impl clap::builder::TypedValueParser<Value = telemetry::Format> {
    PossibleValuesParser::new(["pretty", "json"]).try_map(|word| word.parse::<telemetry::Format>())
}
