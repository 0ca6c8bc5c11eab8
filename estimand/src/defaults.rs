//! The default registrations of a new cluster: the collectors that ship in the box.
//!
//! They are registered once, through the interface like anything else. A name that was ever registered is
//! left alone: a changed registration stays changed, and a deleted one stays deleted, over any number of
//! starts.

use std::time::Duration;

use estimand_api::names::DataName;
use estimand_client::{Client, Error};
use estimand_collectors::{self as collectors, CollectorKind};
use estimand_runtime::Stop;
use serde_json::{Map, Value, json};

const PAUSE: Duration = Duration::from_millis(500);

/// Registers them; goes on trying until the registry has answered for each.
pub async fn register(client: &Client, stop: &Stop) {
    for kind in collectors::ALL {
        let Some(body) = registration(kind) else { continue };
        while let Err(error) = register_one(client, kind.name, &body).await {
            if matches!(&error, Error::Problem(problem) if problem.status < 500) {
                tracing::error!(%error, name = kind.name, "a default collector is not registered");
                break;
            }
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
    tracing::info!("the default collectors are registered, but for those that somebody changed or deleted");
}

async fn register_one(client: &Client, name: &str, body: &Map<String, Value>) -> Result<(), Error> {
    let Ok(name) = DataName::parse(name) else { return Ok(()) };
    match client.registration_history(&name).await {
        Ok(_) => return Ok(()),
        // It was never registered.
        Err(Error::Problem(problem)) if problem.status == 404 => {}
        Err(error) => return Err(error),
    }
    match client.register_map(body.clone()).await {
        Ok(_) => Ok(()),
        // Another client was faster, or the name is bound.
        Err(Error::Problem(problem)) if problem.status == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// The default registration of a collector; none if it has none.
fn registration(kind: &CollectorKind) -> Option<Map<String, Value>> {
    let default = kind.default?;
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("dataName", json!(kind.name));
    put("mode", json!("builtin"));
    put("cmd", json!(kind.name));
    put("max-Time", json!(default.every));
    if default.once {
        put("format", json!("nodes"));
        put("replicas", json!(1));
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use estimand_api::registration::Registration;

    use super::*;

    #[test]
    fn every_default_is_a_registration_that_an_agent_would_run() {
        for kind in collectors::ALL {
            let Some(body) = registration(kind) else { continue };
            let submitted = Registration::from_map(body);
            let registration =
                submitted.unwrap_or_else(|error| panic!("{}: {error}", kind.name)).registration;
            assert_eq!(estimand_slot_agent::check(&registration), Ok(()), "{}", kind.name);
        }
    }
}
