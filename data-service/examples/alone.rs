//! The data service without anything around it, open to everybody: `alone serve --listen ADDRESS --data-dir FOLDER`.
//!
//! For counting what it does itself. It has one worker, so that it does the same in the same order each time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use estimand_data_service::{DataService, Options};
use estimand_runtime::{Metrics, Readiness, SystemClock, Tasks, stop};
use estimand_store::StoreUrl;
use estimand_web::{OpenAdmission, Server, ServerOptions, Site, Users, serve_parts};

/// A fold in the background would be counted with whatever runs meanwhile.
const NEVER: Duration = Duration::from_secs(24 * 3600);

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let (listen, folder) = arguments().ok_or("expected serve --listen ADDRESS --data-dir FOLDER")?;
    std::fs::create_dir_all(&folder)?;
    let store = StoreUrl::parse(&format!("sqlite://{}", folder.join("values.db").display()))?;
    let (_trigger, stop) = stop::pair();
    let (readiness, metrics, tasks) = (Readiness::new(), Metrics::new(), Tasks::new());
    let options = Options {
        store,
        fold_age: NEVER,
        clock: Arc::new(SystemClock),
        readiness: readiness.clone(),
        stop: stop.clone(),
        on_fatal: Box::new(|reason| eprintln!("{reason}")),
    };
    let (service, _writer) = DataService::start(options, &tasks)?;
    let routes = serve_parts(vec![Box::new(service)], &Users::default(), &metrics).ok_or("it has routes")?;
    let site = Site::new(routes, Arc::new(OpenAdmission), metrics, readiness);
    let server = Server::bind(&ServerOptions { workers: Some(1), ..ServerOptions::new(listen) }, site)?;
    println!("listening on http://{}", server.address());
    server.run_until(stop, &tasks).await?;
    Ok(())
}

fn arguments() -> Option<(SocketAddr, PathBuf)> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    match given.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", "--listen", address, "--data-dir", folder] => Some((address.parse().ok()?, folder.into())),
        _ => None,
    }
}
