//! The other services that the task service speaks to.

use anyhow::Context;
use estimand_client::{self as client, Client};
use estimand_tasks::FilePeer;

use crate::guard::Guard;
use crate::options::Parts;

/// The file service with the inputs and outputs of tasks, if there is one.
pub fn file_peer(parts: &Parts, own_address: &str, guard: &Guard) -> anyhow::Result<Option<FilePeer>> {
    let (service, address) = match parts {
        // It is where the task service is, under whatever address agents reach that.
        Parts::All { .. } => (own_address, None),
        Parts::Tasks { file_service: Some(service), file_server, .. } => {
            (service.as_str(), Some(file_server.clone().unwrap_or_else(|| service.clone())))
        }
        _ => return Ok(None),
    };
    let client = guard.client(service, client::Options::default());
    let client = client.context("the address of the file service")?;
    Ok(Some(FilePeer { client, address }))
}

/// A client of whichever manager leads.
pub fn any_manager(addresses: &[String], guard: &Guard) -> anyhow::Result<Client> {
    let clients: Result<Vec<Client>, client::Error> =
        addresses.iter().map(|address| guard.client(address, client::Options::default())).collect();
    let mut clients = clients.context("the address of a manager")?.into_iter();
    let first = clients.next().context("the task service needs a manager")?;
    Ok(first.with_others(clients.collect()))
}
