//! Speakers: the nodes that may write values of other nodes, because they run something whose answer is for
//! many nodes.
//!
//! A node speaks only for itself. The manager knows which nodes were given a registration that says
//! `format: nodes`, and sends them here as one list, so that the next list makes up for a missed one. Nothing
//! is stored: until a list has come after a start, such writes are asked to come again. A node may be faster
//! with its first value than the manager with its list; so a write waits a little before it is rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::access::{forbidden, forbidden_field};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::schema::of;
use estimand_api::write::{MAX_BATCH_BYTES, Write};
use estimand_web::{Body, Failure, Principal};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::DataService;
use crate::http::named_items;

/// How long a write waits for the manager to say that it is allowed.
const WAIT: Duration = Duration::from_secs(2);

type SpeakersByName = BTreeMap<DataName, BTreeSet<NodeName>>;

/// The nodes that speak for others; none until the manager has said.
#[derive(Debug, Default)]
pub struct Speakers(watch::Sender<Option<SpeakersByName>>);

impl Speakers {
    /// Rejects a write of a node for another one, unless the node may.
    pub async fn check_one(&self, caller: &Principal, write: &Write) -> Result<(), Problem> {
        let refused = self.first_refused(caller, std::slice::from_ref(write)).await?;
        refused.map_or(Ok(()), |_| Err(refusal(caller, write, "nodeName".to_owned())))
    }

    /// The same of a batch.
    pub async fn check(&self, caller: &Principal, writes: &[Write]) -> Result<(), Problem> {
        let refused = self.first_refused(caller, writes).await?;
        refused.map_or(Ok(()), |at| Err(refusal(caller, &writes[at], format!("[{at}].nodeName"))))
    }

    /// The first write that the node may not do, after a wait for the manager to allow it.
    async fn first_refused(&self, caller: &Principal, writes: &[Write]) -> Result<Option<usize>, Problem> {
        let Some(own) = caller.node() else { return Ok(None) };
        let may = |told: &Option<SpeakersByName>, write: &Write| {
            write.node_name.as_str() == own || speaks(told, own, write)
        };
        let first = {
            let told = self.0.borrow();
            writes.iter().position(|write| !may(&told, write))
        };
        let Some(first) = first else { return Ok(None) };
        for (index, write) in writes.iter().enumerate().skip(first) {
            let mut told = self.0.subscribe();
            // The sender is borrowed here, so that it cannot be gone.
            if timeout(WAIT, told.wait_for(|told| may(told, write))).await.is_ok() {
                continue;
            }
            if self.0.borrow().is_none() {
                return Err(Problem::unavailable("nobody has said yet which nodes speak for others", 1));
            }
            return Ok(Some(index));
        }
        Ok(None)
    }
}

fn refusal(caller: &Principal, write: &Write, field: String) -> Problem {
    let (own, name) = (caller.node().unwrap_or_default(), &write.data_name);
    let error = FieldError::new(field, format!("is not {own}, which this comes from"));
    let expected = format!("{own}, or a registration of `{name}` that answers for many nodes and runs there");
    forbidden_field(error.given(&write.node_name).expected(expected))
}

fn speaks(told: &Option<SpeakersByName>, own: &str, write: &Write) -> bool {
    told.as_ref().is_some_and(|told| told.get(&write.data_name).is_some_and(|nodes| nodes.contains(own)))
}

/// A node deletes its own values and no others.
pub fn check_deletion(caller: &Principal, node: Option<&NodeName>) -> Result<(), Problem> {
    match (caller.node(), node) {
        (Some(own), None) => {
            Err(forbidden(format!("node {own} deletes values of its own; say dataNode={own}")))
        }
        (Some(own), Some(node)) if node.as_str() != own => {
            Err(forbidden(format!("node {own} deletes values of its own, not those of {node}")))
        }
        _ => Ok(()),
    }
}

/// Data name to the nodes that speak for others by it.
#[derive(Debug)]
enum SpeakersBody {}

estimand_api::described!(
    SpeakersBody,
    [DataName, NodeName],
    json!({
        "description": "Data name to the nodes that may write values of other nodes by it",
        "type": "object",
        "propertyNames": of::<DataName>(""),
        "additionalProperties": { "type": "array", "items": of::<NodeName>("") },
    })
);

/// Says which nodes may write values of other nodes, by data name; replaces what was said before.
#[utoipa::path(
    put,
    path = "/api/data/speakers",
    tag = "data",
    request_body(content = SpeakersBody, description = "All that do"),
    responses(
        (status = 200, description = "Taken"),
        (status = 400, description = "The body is not valid", body = Problem),
    )
)]
pub async fn set_speakers(
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let told: SpeakersByName = body.parse(|body| named_items::read(body, nodes)).await?;
    service.speakers().0.send_replace(Some(told));
    Ok(HttpResponse::Ok().finish())
}

fn nodes(name: &str, value: &Value) -> Result<BTreeSet<NodeName>, Vec<FieldError>> {
    let nodes = value.as_array().and_then(|nodes| {
        let parsed = nodes.iter().map(|node| NodeName::parse(node.as_str()?).ok());
        parsed.collect()
    });
    nodes.ok_or_else(|| vec![FieldError::new(name, "is not an array of node names").given(value)])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn writes(text: &str) -> Vec<Write> {
        Write::parse_batch(text.as_bytes()).unwrap()
    }

    fn node(name: &str) -> Principal {
        Principal::named(format!("agent of {name}")).bound_to(Some(name.into()))
    }

    const ONE: &str = r#"[{"dataName":"hdfs","nodeName":"n1","dataValue":1},{"dataName":"hdfs","nodeName":"n2","dataValue":2}]"#;

    #[tokio::test(start_paused = true)]
    async fn a_node_speaks_for_itself_and_for_others_only_where_it_was_said() {
        let speakers = Speakers::default();
        let both = writes(ONE);
        speakers.check(&Principal::named("operator"), &both).await.unwrap();
        speakers.check(&node("n1"), &both[..1]).await.unwrap();
        assert_eq!(speakers.check(&node("n1"), &both).await.unwrap_err().status, 503);
        speakers.0.send_replace(Some(SpeakersByName::new()));
        let refused = speakers.check(&node("n1"), &both).await.unwrap_err();
        assert_eq!((refused.status, refused.errors[0].field.as_str()), (403, "[1].nodeName"));
        let told = SpeakersByName::from([("hdfs".parse().unwrap(), BTreeSet::from(["n1".parse().unwrap()]))]);
        speakers.0.send_replace(Some(told));
        speakers.check(&node("n1"), &both).await.unwrap();
        assert_eq!(speakers.check(&node("n2"), &both).await.unwrap_err().status, 403);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_faster_than_the_manager_waits_for_it() {
        let speakers = Speakers::default();
        let both = writes(ONE);
        let later = async {
            tokio::time::sleep(WAIT / 2).await;
            let told =
                SpeakersByName::from([("hdfs".parse().unwrap(), BTreeSet::from(["n1".parse().unwrap()]))]);
            speakers.0.send_replace(Some(told));
        };
        let caller = node("n1");
        let (checked, ()) = tokio::join!(speakers.check(&caller, &both), later);
        checked.unwrap();
    }

    #[test]
    fn a_node_deletes_what_is_its_own() {
        let own: NodeName = "n1".parse().unwrap();
        let other: NodeName = "n2".parse().unwrap();
        check_deletion(&node("n1"), Some(&own)).unwrap();
        check_deletion(&Principal::named("operator"), None).unwrap();
        for wrong in [None, Some(&other)] {
            assert_eq!(check_deletion(&node("n1"), wrong).unwrap_err().status, 403);
        }
    }
}
