//! `doctor`: what is wrong with this set-up, and the remedy.
//!
//! Each thing is asked for once and within bounds; the judgement of the answers is pure. Where no service answers, this
//! machine is looked at.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::names::DataName;
use estimand_client::{Client, Credentials, Error, Health, Options, Query, TaskQuery, is_here};
use estimand_pki::Certificate;
use serde_json::json;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::Session;
use crate::arguments::doctor::DoctorArgs;
use crate::output::failure::{Exit, Failure};
use finding::{Finding, Level, count};
use process::ServiceProcess;
use services::{ServiceSeen, Standing};

mod cluster;
mod finding;
mod local;
mod process;
mod services;
mod store;

pub use process::SERVICES;

/// For one request; nothing is asked for twice.
const WITHIN: Duration = Duration::from_secs(5);
/// For the connection that tells a machine that is away from a service that is.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Of so many waiting tasks the reasons are looked at.
const MAX_TASKS: u32 = 20;

pub async fn doctor(session: &mut Session, args: &DoctorArgs) -> Result<(), Failure> {
    let processes = process::services();
    let (seen, mut findings) = services(session, &processes).await?;
    let answers = seen.iter().any(|seen| seen.health.is_ok());
    findings.extend(own_certificate(session));
    if answers {
        findings.extend(stores(session, &processes).await?);
        findings.extend(of_cluster(session, &seen).await?);
    }
    if session.out.json {
        session.out.pretty(&json!({
            "failures": count(&findings, Level::Failure),
            "warnings": count(&findings, Level::Warning),
            "findings": findings,
        }))?;
    } else {
        finding::print(&mut session.out, &findings)?;
    }
    let worst = findings.iter().map(|finding| finding.level).max();
    match worst {
        _ if !answers => Err(Failure::Said(Exit::Unreachable)),
        Some(Level::Failure) => Err(Failure::Said(Exit::Failed)),
        Some(Level::Warning) if args.strict => Err(Failure::Said(Exit::Failed)),
        _ => Ok(()),
    }
}

fn bounded() -> Options {
    Options { read_timeout: WITHIN, total_timeout: WITHIN, attempts: 1, ..Options::default() }
}

/// The client of each service, for itself.
fn each(session: &Session) -> Result<Vec<Client>, Error> {
    let client = |(address, credentials): &(String, Credentials)| {
        Client::with_options(address, Options { credentials: credentials.clone(), ..bounded() })
    };
    session.services.iter().map(client).collect()
}

/// The health that a service tells whatever is shown to it: a wrong token is refused even for that.
async fn health(session: &Session, client: &Client, place: usize) -> Result<Health, Error> {
    let health = client.health().await;
    match (&health, session.services.get(place)) {
        (Err(error), Some((address, credentials))) if error.status() == Some(401) => {
            let credentials = Credentials { token: None, ..credentials.clone() };
            Client::with_options(address, Options { credentials, ..bounded() })?.health().await
        }
        _ => health,
    }
}

async fn services(
    session: &Session,
    processes: &[ServiceProcess],
) -> Result<(Vec<ServiceSeen>, Vec<Finding>), Failure> {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for (place, client) in each(session)?.into_iter().enumerate() {
        let asked = Utc::now();
        let health = health(session, &client, place).await;
        let mut seen = ask(&client, asked, health, processes).await;
        seen.is_open = port_here(&client).is_some() && is_open(session, place).await;
        findings.extend(services::of_service(&seen, Utc::now()));
        if matches!(seen.health, Err(Error::Unreachable { .. })) {
            findings.extend(why_silent(&client, processes).await);
        }
        all.push(seen);
    }
    if let Some(address) = session.client.withholds_token() {
        let found = format!("the token is not sent to {address}, where others could read it on the way");
        findings.push(Finding::warning("tls", found).remedy("serve with `--tls DIR`, and use https"));
    }
    Ok((all, findings))
}

async fn ask(
    client: &Client,
    asked: DateTime<Utc>,
    health: Result<Health, Error>,
    processes: &[ServiceProcess],
) -> ServiceSeen {
    let answered = Utc::now();
    let figures = client.figures().await;
    let process = port_here(client).and_then(|port| process::listening_at(port, processes));
    ServiceSeen {
        address: client.shown_address(),
        health,
        asked,
        answered,
        figures,
        open_files_limit: process.and_then(ServiceProcess::open_files_limit),
        is_open: false,
    }
}

/// True if a service answers whoever shows nothing.
async fn is_open(session: &Session, place: usize) -> bool {
    let Some((address, credentials)) = session.services.get(place) else { return false };
    let credentials = Credentials { trust: credentials.trust.clone(), ..Credentials::default() };
    match Client::with_options(address, Options { credentials, ..bounded() }) {
        Ok(nobody) => nobody.may_read().await,
        Err(_) => false,
    }
}

/// The port, if it is one of this machine.
fn port_here(client: &Client) -> Option<u16> {
    let address = client.address();
    let is_at_port = client.socket().is_none() && is_here(address);
    is_at_port.then(|| address.port_or_known_default()).flatten()
}

async fn why_silent(client: &Client, processes: &[ServiceProcess]) -> Vec<Finding> {
    if let Some(socket) = client.socket() {
        return vec![local::silent_socket(socket)];
    }
    if let Some(port) = port_here(client) {
        return local::why_silent(port, processes);
    }
    let address = client.address();
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = address.port_or_known_default().unwrap_or_default();
    let found = timeout(CONNECT_WITHIN, lookup_host((host.as_str(), port))).await;
    let Ok(Ok(mut found)) = found else {
        let finding = Finding::failure("address", format!("the name `{host}` leads to no machine"));
        return vec![finding.remedy("--server or ESTIMAND_SERVER names another")];
    };
    let Some(at) = found.next() else { return Vec::new() };
    let finding = match timeout(CONNECT_WITHIN, TcpStream::connect(at)).await {
        Ok(Ok(_)) => Finding::failure("port", format!("{at} takes connections, and answers no request")),
        Ok(Err(error)) => Finding::failure("port", format!("{at} takes no connection: {error}"))
            .remedy(format!("`estimand doctor` on {host} says more; is it --listen {at} there?")),
        Err(_) => Finding::failure("address", format!("{at} does not answer: machine or network is away"))
            .remedy("a firewall, a route, or another address"),
    };
    vec![finding]
}

/// The expiry of the certificate that is shown.
fn own_certificate(session: &Session) -> Vec<Finding> {
    let files = session.services.iter().filter_map(|(_, credentials)| credentials.identity.as_ref());
    let files: BTreeSet<_> = files.map(|files| &files.certificate).collect();
    let finding = |file: &std::path::PathBuf| {
        let shown = file.display();
        let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
        let read = read.and_then(|pem| Certificate::first_in(&pem).map_err(|error| error.to_string()));
        match read {
            Err(error) => Finding::failure("tls", format!("the own certificate {shown}: {error}")),
            Ok(own) => {
                services::expiry("tls", &format!("the own certificate {shown}"), own.not_after, Utc::now())
                    .map(|finding| finding.remedy("estimand pki issue --help"))
                    .unwrap_or_else(|| Finding::ok("tls", format!("the own certificate {shown} is valid")))
            }
        }
    };
    files.into_iter().map(finding).collect()
}

async fn stores(session: &Session, processes: &[ServiceProcess]) -> Result<Vec<Finding>, Failure> {
    let mut all = Vec::new();
    for client in each(session)? {
        let process = port_here(&client).and_then(|port| process::listening_at(port, processes));
        all.push(match process {
            Some(process) => store::of_process(process).await,
            None => {
                let found = format!("what {} stores in cannot be seen from here", client.shown_address());
                Finding::not_checked("store", found).remedy("estimand doctor, on that machine")
            }
        });
    }
    Ok(all)
}

/// Findings about what the services know.
async fn of_cluster(session: &Session, seen: &[ServiceSeen]) -> Result<Vec<Finding>, Failure> {
    let client = session.client_with(&bounded())?;
    let waiting = TaskQuery { states: "QUEUED".to_owned(), limit: Some(MAX_TASKS), ..TaskQuery::default() };
    let (tokens, nodes, instances, registrations, bindings, tasks) = tokio::join!(
        client.tokens(),
        client.nodes(),
        client.instances(None, None),
        client.registrations(),
        client.bindings(),
        client.tasks(&waiting),
    );
    let now = Utc::now();
    let shown = session.services.iter().any(|(_, one)| one.token.is_some() || one.identity.is_some());
    let standing = tokens.map_or_else(Standing::Refused, Standing::Operator);
    let mut all = services::of_token(&standing, shown, now);
    match &nodes {
        Ok(nodes) => {
            all.extend(cluster::of_nodes(nodes, now));
            all.extend(cluster::of_clocks(nodes));
            let versions = seen.iter().filter_map(ServiceSeen::version).collect();
            all.extend(cluster::of_versions(nodes, &versions));
            all.extend(cluster::of_users(nodes));
            all.extend(cluster::of_delivery(nodes));
        }
        Err(error) => all.push(Finding::not_checked("nodes", error.to_string())),
    }
    match &instances {
        Ok(instances) => {
            all.extend(cluster::of_instances(instances));
            all.extend(cluster::of_containment(nodes.as_deref().unwrap_or_default(), instances));
        }
        Err(error) => all.push(Finding::not_checked("registrations", error.to_string())),
    }
    all.extend(match (registrations, bindings) {
        (Ok(registrations), Ok(bindings)) => {
            let unproduced = cluster::unproduced(&registrations, &bindings);
            let names: Vec<DataName> = unproduced.keys().cloned().collect();
            cluster::of_names(&unproduced, &written(&client, names).await?)
        }
        (Err(error), _) | (_, Err(error)) => vec![Finding::not_checked("names", error.to_string())],
    });
    all.extend(match tasks {
        Ok(page) => cluster::of_tasks(&page.tasks),
        Err(error) => vec![Finding::not_checked("tasks", error.to_string())],
    });
    Ok(all)
}

/// Those of the names that have values.
async fn written(client: &Client, names: Vec<DataName>) -> Result<BTreeSet<DataName>, Failure> {
    if names.is_empty() {
        return Ok(BTreeSet::new());
    }
    let (values, _) = client.values(&Query { names, ..Query::default() }).await?;
    Ok(values.into_iter().map(|value| value.data_name).collect())
}
