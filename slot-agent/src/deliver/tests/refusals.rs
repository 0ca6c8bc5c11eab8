//! Writes that the data service rejects are reported and left out; everything else arrives.

use std::sync::{Arc, Mutex};

use estimand_api::problem::{FieldError, Problem};
use estimand_api::write::Write;

use super::service::{Reply, Service};
use super::{Running, options, until, writes};
use crate::deliver::{Outbox, Refusal, Setback, client_options};

/// Sends 1 to 50 of `good` with three of `bad` among them, to a service that treats these as told.
async fn deliver(script: impl FnMut(&[Write]) -> Reply + Send + 'static) -> (Service, Vec<Refusal>) {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(script).await;
    let outbox = Outbox::open(options(dir.path())).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    outbox.on_setback(move |setback| match setback {
        Setback::Refused(refusal) => tells.lock().unwrap().push(refusal),
        Setback::Older(name) => panic!("{name}"),
    });
    let mut batch = writes("good", 1..=50);
    for (place, sequence) in [(7, 1), (8, 2), (40, 3)] {
        batch.insert(place, super::write("bad", sequence, 0));
    }
    outbox.put(batch);
    let running = Running::of(outbox, &service.address, client_options(&Default::default()));
    let figures = running.delivered().await;
    running.stop().await;
    let told = told.lock().unwrap().clone();
    assert_eq!(figures.refused, told.len() as u64);
    assert_eq!(figures.delivered, 53 - figures.refused);
    assert_eq!((figures.dropped, figures.failing_since), (0, None));
    assert_eq!(service.history("good"), (1..=50).collect::<Vec<_>>());
    (service, told)
}

fn places(batch: &[Write]) -> Vec<usize> {
    (0..batch.len()).filter(|place| batch[*place].data_name.as_str() == "bad").collect()
}

#[track_caller]
fn check_told(told: &[Refusal], reason: &str) {
    assert_eq!(told.len(), 3);
    for refusal in told {
        assert_eq!((refusal.data_name.as_str(), refusal.node_name.as_str()), ("bad", "n1"));
        assert_eq!(refusal.reason, reason);
    }
}

#[tokio::test]
async fn items_that_are_named_are_left_out() {
    let (service, told) = deliver(|batch| {
        let error = |place| FieldError::new(format!("[{place}].validFor"), "is not more than 0");
        match places(batch) {
            bad if bad.is_empty() => Reply::Take,
            bad => Reply::Say(Problem::invalid(bad.into_iter().map(error).collect())),
        }
    })
    .await;
    check_told(&told, "validFor: is not more than 0");
    assert_eq!(service.requests(), [53, 50]);
}

#[tokio::test]
async fn all_values_of_a_bound_name_are_left_out_at_once() {
    let (service, told) = deliver(|batch| match places(batch).first() {
        None => Reply::Take,
        Some(place) => Reply::Say(Problem::conflict(format!("item [{place}]: `bad` is bound to `good`"))),
    })
    .await;
    check_told(&told, "`bad` is bound to `good`");
    assert_eq!(service.requests(), [53, 50]);
}

#[tokio::test]
async fn a_value_that_is_too_large_is_left_out() {
    let (service, told) = deliver(|batch| match places(batch).first() {
        None => Reply::Take,
        Some(place) => Reply::Say(Problem::too_large(format!("item [{place}]: dataValue has 70000 bytes"))),
    })
    .await;
    check_told(&told, "dataValue has 70000 bytes");
    assert_eq!(service.requests(), [53, 52, 51, 50]);
}

#[tokio::test]
async fn items_that_are_not_named_are_searched_for() {
    let (service, told) = deliver(|batch| match places(batch).is_empty() {
        true => Reply::Take,
        false => Reply::Say(Problem::invalid_field(FieldError::new("body", "is not a batch of writes"))),
    })
    .await;
    check_told(&told, "body: is not a batch of writes");
    assert!(service.requests().len() < 30, "{:?}", service.requests());
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_halved_until_it_is_not() {
    let (service, told) = deliver(|batch| match batch.len() {
        0..=20 => Reply::Take,
        _ => Reply::Say(Problem::too_large("the body has too many bytes")),
    })
    .await;
    assert!(told.is_empty());
    assert_eq!(service.history("bad"), [1, 2, 3]);
}

#[tokio::test]
async fn an_agent_that_is_not_let_in_keeps_everything() {
    for status in [401, 403, 404, 500] {
        let dir = tempfile::tempdir().unwrap();
        let refuse = move |_: &[Write]| Reply::Say(Problem::new(status, "x", "x", "not with this token"));
        let service = Service::start(refuse).await;
        let running = Running::start(options(dir.path()), &service.address);
        running.outbox.put(writes("a", 1..=9));
        until("some attempts", || (service.requests().len() >= 3).then_some(())).await;
        let figures = running.outbox.figures();
        assert_eq!((figures.waiting_items, figures.refused), (9, 0));
        assert_eq!(figures.last_error.unwrap(), format!("not with this token ({status})"));
        service.now(|_| Reply::Take);
        running.delivered().await;
        assert_eq!(service.history("a"), (1..=9).collect::<Vec<_>>());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_write_that_no_service_could_take_is_refused_here() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(options(dir.path())).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    outbox.on_setback(move |setback| match setback {
        Setback::Refused(refusal) => tells.lock().unwrap().push(refusal),
        Setback::Older(name) => panic!("{name}"),
    });
    outbox.put(vec![super::write("a", 1, 0), super::write("huge", 2, 600_000)]);
    let figures = outbox.figures();
    assert_eq!((figures.waiting_items, figures.refused), (1, 1));
    assert_eq!(told.lock().unwrap()[0].data_name.as_str(), "huge");
}
