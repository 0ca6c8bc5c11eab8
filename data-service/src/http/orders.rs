//! Orders: who may give a write its place among those of a slot, and which epochs the manager gave.
//!
//! A write with an order keeps older ones away, so only a caller who may do what an agent does can give one. Which of
//! the stored ones count is the core's: see [`GivenEpochs`].

use std::sync::Arc;
use std::time::Instant;

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::access::forbidden_field;
use estimand_api::fields;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::schema::of;
use estimand_api::write::{MAX_BATCH_BYTES, Order, Write};
use estimand_web::{Body, Failure, Principal};
use serde_json::{Value, json};

use crate::DataService;
use crate::core::epochs::GivenEpochs;
use crate::http::named_items;

/// Rejects an order that is not believed of its sender.
pub fn check(caller: &Principal, writes: &[Write], field: impl Fn(usize) -> String) -> Result<(), Problem> {
    if caller.may_order() {
        return Ok(());
    }
    let ordered = writes.iter().enumerate().find_map(|(place, write)| Some((place, write.order?)));
    ordered.map_or(Ok(()), |(place, order)| Err(refusal(field(place), order)))
}

fn refusal(field: String, order: Order) -> Problem {
    let message = "is believed of a node's agent only, since it orders the writes of a slot";
    let error = FieldError::new(field, message).given(order.epoch);
    forbidden_field(
        error.expected("a write without `epoch` and `sequence`, or a token of the role node or operate"),
    )
}

/// Data name to the highest epoch that was given for it.
#[derive(Debug)]
enum EpochsBody {}

estimand_api::described!(
    EpochsBody,
    [DataName],
    json!({
        "description": "Data name to the highest epoch that was given for it",
        "type": "object",
        "propertyNames": of::<DataName>(""),
        "additionalProperties": { "type": "integer", "minimum": 0 },
    })
);

/// Says which epoch the writes of each name have at most; replaces what was said before.
///
/// A stored value whose epoch is higher, although it was there well before this was said, is replaced by the next write
/// of its slot whatever the order of that is.
#[utoipa::path(
    put,
    path = "/api/data/epochs",
    tag = "data",
    request_body(content = EpochsBody, description = "All names that are registered"),
    responses(
        (status = 200, description = "Taken"),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn set_epochs(
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let by_name = body.parse(|body| named_items::read(body, epoch)).await?;
    let revision = service.snapshot()?.revision;
    // Locked until it is published, so that of two messages the later one stays.
    service.messages(|messages| {
        let settled = messages.came(Instant::now(), revision);
        let epochs = GivenEpochs::new(by_name, settled);
        service.0.0.published.epochs.store(Some(Arc::new(epochs)));
    });
    Ok(HttpResponse::Ok().finish())
}

fn epoch(name: &str, value: &Value) -> Result<u64, Vec<FieldError>> {
    fields::whole(value, 0, i64::MAX as u64)
        .map_err(|wrong| vec![FieldError::new(name, wrong).given(value).expected("an epoch")])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_believed_of_agents_only() {
        let plain = r#"{"dataName":"a","nodeName":"n","dataValue":1}"#;
        let ordered = r#"{"dataName":"a","nodeName":"n","dataValue":1,"epoch":9,"sequence":9}"#;
        let writes = Write::parse_batch(format!("[{plain},{ordered}]").as_bytes()).unwrap();
        let field = |place| format!("[{place}].epoch");
        let anybody = Principal::named("writer");
        check(&anybody, &writes[..1], field).unwrap();
        let refused = check(&anybody, &writes, field).unwrap_err();
        assert_eq!((refused.status, refused.errors[0].field.as_str()), (403, "[1].epoch"));
        check(&anybody.as_agent(true), &writes, field).unwrap();
    }
}
