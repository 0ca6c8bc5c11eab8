//! Registration with Eureka: a service is listed there while it is ready and goes on saying so.
//!
//! It registers when it is ready, renews its lease every few seconds, registers again where it is not known any more, and
//! leaves at its end. A server that is away is tried again; of several one is enough, since they tell each other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use estimand_runtime::{CallError, Calls, Next, Readiness, Rounds, Stop, SystemTrust, Tasks, Work};
use reqwest::{Method, StatusCode, Url};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::options::Eureka;

/// How often the lease is renewed, and for how long it is.
const RENEW_EVERY: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(30);
/// How long a server may take for an answer, and all of them together.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const WITHIN: Duration = Duration::from_secs(15);
/// How long leaving may take at the end.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether the service is ready.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why no server has the registration.
#[derive(Debug, thiserror::Error)]
pub enum EurekaError {
    #[error("Eureka at {server} does not answer: {source}")]
    NoAnswer { server: String, source: reqwest::Error },
    #[error("Eureka at {server} answered with status {status}")]
    Refused { server: String, status: StatusCode },
}

/// The servers and the instance of this process, checked before anything is started.
pub struct Registration {
    http: reqwest::Client,
    servers: Vec<Url>,
    app: String,
    advertise: Option<String>,
}

impl Registration {
    pub fn check(options: &Eureka) -> anyhow::Result<Self> {
        let server = |text: &String| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            // It may have a password, so it is not repeated.
            url.context(
                "--eureka: the address of a server is not valid; expected such as http://HOST:8761/eureka",
            )
        };
        let is_name = |app: &str| {
            !app.is_empty() && app.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        anyhow::ensure!(
            is_name(&options.app),
            "--eureka-app: `{}` is no name; expected letters, digits and -_.",
            options.app
        );
        Ok(Registration {
            http: reqwest::Client::builder()
                .tls_backend_preconfigured(SystemTrust::client_config()?)
                .no_proxy()
                .timeout(ANSWER_WITHIN)
                .build()
                .context("the HTTP client of Eureka")?,
            servers: options.servers.iter().map(server).collect::<anyhow::Result<_>>()?,
            app: options.app.clone(),
            advertise: options.advertise.clone(),
        })
    }

    /// Starts the loop, which leaves when the process is asked to stop.
    pub fn start(
        self,
        address: &str,
        tasks: &Tasks,
        readiness: &Readiness,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let address = self.advertise.as_deref().unwrap_or(address);
        let url = Url::parse(address).ok().filter(Url::has_host);
        let url = url.with_context(|| {
            format!("`{address}` is no address that others reach: say one with --advertise http://HOST:PORT")
        })?;
        let instance = Arc::new(Instance::new(self, &url));
        let calls = tasks.calls("eureka", WITHIN);
        let (drivers, readiness, stop) = (tasks.clone(), readiness.clone(), stop.clone());
        tasks.spawn("eureka", move |_| {
            let driver = drivers.driver("eureka", "registering with Eureka").every(RENEW_EVERY);
            let mut driver = driver.pauses(FIRST_PAUSE, LONGEST_PAUSE);
            let (instance, calls) = (Arc::clone(&instance), Arc::clone(&calls));
            let (readiness, stop) = (readiness.clone(), stop.clone());
            async move {
                let mut registrar = Registrar { instance, calls, readiness, is_registered: false };
                driver.run(&mut registrar, &Rounds::new(), stop.requested()).await;
                registrar.leave().await;
            }
        });
        Ok(())
    }
}

/// This process as Eureka lists it.
struct Instance {
    http: reqwest::Client,
    servers: Vec<Url>,
    app: String,
    id: String,
    body: String,
}

impl Instance {
    fn new(registration: Registration, address: &Url) -> Self {
        let Registration { http, servers, app, .. } = registration;
        let id = id(&app, address);
        let body = body(&app, &id, address).to_string();
        Instance { http, servers, app, id, body }
    }

    /// Sends a request to the first server that answers.
    async fn send(&self, method: &Method, of_instance: bool) -> Result<StatusCode, EurekaError> {
        let mut failed = None;
        for server in &self.servers {
            match self.send_to(server, method, of_instance).await {
                Ok(status) => return Ok(status),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| unreachable!("there is a server")))
    }

    async fn send_to(
        &self,
        server: &Url,
        method: &Method,
        of_instance: bool,
    ) -> Result<StatusCode, EurekaError> {
        let mut url = server.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["apps", &self.app]).extend(of_instance.then_some(&self.id));
        }
        let shown = server.host_str().unwrap_or_default().to_owned();
        let mut request = self.http.request(method.clone(), url);
        if *method == Method::POST {
            request = request.header("Content-Type", "application/json").body(self.body.clone());
        }
        let answer = request.send().await.map_err(|source| EurekaError::NoAnswer {
            server: shown.clone(),
            source: source.without_url(),
        })?;
        match answer.status() {
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(status),
            status => Err(EurekaError::Refused { server: shown, status }),
        }
    }
}

/// The name of the instance, of which there is one at an address.
fn id(app: &str, address: &Url) -> String {
    let port = address.port_or_known_default().unwrap_or_default();
    format!("{}:{}:{port}", address.host_str().unwrap_or_default(), app.to_lowercase())
}

/// The document that Eureka keeps. Numbers are written as its own clients write them.
fn body(app: &str, id: &str, address: &Url) -> Value {
    let (host, port) =
        (address.host_str().unwrap_or_default(), address.port_or_known_default().unwrap_or_default());
    let is_secure = address.scheme() == "https";
    let base = address.as_str().trim_end_matches('/');
    let port = |enabled: bool| json!({ "$": port, "@enabled": enabled.to_string() });
    json!({ "instance": {
        "instanceId": id,
        "app": app,
        "hostName": host,
        "ipAddr": host,
        "status": "UP",
        "port": port(!is_secure),
        "securePort": port(is_secure),
        "vipAddress": app.to_lowercase(),
        "secureVipAddress": app.to_lowercase(),
        "homePageUrl": format!("{base}/"),
        "statusPageUrl": format!("{base}/readyz"),
        "healthCheckUrl": format!("{base}/healthz"),
        "dataCenterInfo": {
            "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
            "name": "MyOwn",
        },
        "leaseInfo": { "renewalIntervalInSecs": RENEW_EVERY.as_secs(), "durationInSecs": LEASE.as_secs() },
        "metadata": { "version": env!("CARGO_PKG_VERSION") },
    } })
}

struct Registrar {
    instance: Arc<Instance>,
    calls: Arc<Calls>,
    readiness: Readiness,
    is_registered: bool,
}

impl Registrar {
    async fn renew(&mut self) -> Result<(), CallError<EurekaError>> {
        let instance = Arc::clone(&self.instance);
        let is_known = self.is_registered;
        let call = async {
            if is_known && instance.send(&Method::PUT, true).await? != StatusCode::NOT_FOUND {
                return Ok(());
            }
            match instance.send(&Method::POST, false).await? {
                StatusCode::NOT_FOUND => {
                    let server =
                        instance.servers.first().and_then(Url::host_str).unwrap_or_default().to_owned();
                    Err(EurekaError::Refused { server, status: StatusCode::NOT_FOUND })
                }
                _ => {
                    tracing::info!(instance = instance.id, app = instance.app, "registered with Eureka");
                    Ok(())
                }
            }
        };
        self.calls.call(call).await?;
        self.is_registered = true;
        Ok(())
    }

    /// At the end, so that nobody is sent here any more.
    async fn leave(&self) {
        if !self.is_registered {
            return;
        }
        match timeout(LEAVE_WITHIN, self.instance.send(&Method::DELETE, true)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "Eureka was not told the end; it will see it in {LEASE:?}");
            }
            Err(_) => tracing::warn!("Eureka was not told the end in time; it will see it in {LEASE:?}"),
        }
    }
}

impl Work for Registrar {
    type Error = CallError<EurekaError>;

    async fn round(&mut self) -> Result<Next, Self::Error> {
        if !self.is_registered && self.readiness.check().is_err() {
            return Ok(Next::At(Instant::now() + LOOK_EVERY));
        }
        self.renew().await?;
        Ok(Next::Period)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_known_by_its_address() {
        let body = |address: &str| {
            let url = Url::parse(address).unwrap();
            body("ESTIMAND", &id("ESTIMAND", &url), &url)["instance"].clone()
        };
        let plain = body("http://plane.example:7070");
        assert_eq!(plain["instanceId"], "plane.example:estimand:7070");
        assert_eq!((&plain["port"]["$"], &plain["port"]["@enabled"]), (&json!(7070), &json!("true")));
        assert_eq!(plain["healthCheckUrl"], "http://plane.example:7070/healthz");
        let secure = body("https://plane.example");
        assert_eq!(
            (&secure["securePort"]["$"], &secure["securePort"]["@enabled"]),
            (&json!(443), &json!("true"))
        );
        assert_eq!(secure["port"]["@enabled"], "false");
    }

    #[test]
    fn a_wrong_address_is_not_repeated() {
        // As `main` does; another test may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = |server: &str, app: &str| Eureka {
            servers: vec![server.to_owned()],
            app: app.to_owned(),
            advertise: None,
        };
        let wrong = |options: Eureka| format!("{:#}", Registration::check(&options).err().unwrap());
        let said = wrong(options("amqp://me:hidden@host", "A"));
        assert!(
            said.contains("expected such as http://HOST:8761/eureka") && !said.contains("hidden"),
            "{said}"
        );
        assert!(wrong(options("http://host:1/eureka", "a/b")).contains("`a/b` is no name"));
    }
}
