//! Serves routes in a test: a service, or a stand-in for one, on a port and a runtime of its own.
//!
//! `testkit` knows no crate of the workspace; this one knows the web server, so that the tests of each service need not
//! start it their own way. Whatever goes wrong is a panic.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use estimand_client::{Client, Options};
use estimand_runtime::stop::{self, StopTrigger};
use estimand_runtime::{Metrics, Readiness, Stop, Tasks};
use estimand_testkit::http::Http;
use estimand_testkit::wait;
use estimand_web::server::ServerError;
use estimand_web::{OpenAdmission, Routes, Server, ServerOptions, Site};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Something that serves.
pub struct Serving {
    pub address: SocketAddr,
    pub http: Http,
    trigger: StopTrigger,
    ended: Option<JoinHandle<Result<(), ServerError>>>,
    runtime: Option<Runtime>,
}

impl Serving {
    /// Serves what `make` makes, and lets anybody do anything.
    pub fn start(listen: SocketAddr, make: impl FnOnce(&Tasks, &Readiness, Stop) -> Routes) -> Self {
        let runtime = Runtime::new().expect("a runtime can be made");
        let entered = runtime.enter();
        let (trigger, stop) = stop::pair();
        let (tasks, readiness) = (Tasks::new(), Readiness::new());
        let routes = make(&tasks, &readiness, stop.clone());
        let site = Site::new(routes, Arc::new(OpenAdmission), Metrics::new(), readiness);
        let options = ServerOptions { workers: Some(2), ..ServerOptions::new(listen) };
        let server = Server::bind(&options, site).expect("the port can be listened on");
        let address = server.address().tcp().expect("it is one of the network");
        let ended = Some(tokio::spawn(async move { server.run_until(stop, &tasks).await }));
        drop(entered);
        let http = Http::new(&format!("http://{address}"));
        Serving { address, http, trigger, ended, runtime: Some(runtime) }
    }

    /// Waits until all parts of it are ready.
    #[track_caller]
    pub fn wait_ready(&self) {
        wait::until_ok(PATIENCE, "the service to be ready", || {
            let ready = self.http.get("/readyz");
            if ready.status == 200 { Ok(()) } else { Err(ready) }
        });
    }

    /// Ends it in order.
    #[track_caller]
    pub fn stop(&mut self) {
        let (Some(ended), Some(runtime)) = (self.ended.take(), &self.runtime) else { return };
        self.trigger.request();
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, ended).await });
        ended.expect("it ends in time").expect("it does not panic").expect("it ends without an error");
    }

    /// Everything ends where it is, without a word to anybody.
    pub fn crash(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client that asks once and is told soon.
pub fn client(address: SocketAddr) -> Client {
    client_with(address, Options { attempts: 1, ..Options::default() })
}

pub fn client_with(address: SocketAddr, options: Options) -> Client {
    // The second test of a process finds the provider there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::with_options(&format!("http://{address}"), options).expect("a client can be made")
}
