//! The background loops: following the ledger, tidying up after reservations, and training the predictor that is chosen.

mod choice_reader;
mod follower;
mod tidier;
mod trainer;

use std::sync::Arc;
use std::time::Duration;

use estimand_client::{Client, PeerError, within};
use estimand_runtime::{Loop, Tasks};
use estimand_service::Writer;
use estimand_store::Reads;

use crate::requests::LookedUp;
use crate::reservation::Reservation;
use crate::shared::Shared;
use crate::writer::ReservationsState;

use follower::Follower;
use tidier::Tidier;
use trainer::Trainer;

/// After failures: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often each looks although nothing was announced.
const TIDY_EVERY: Duration = Duration::from_secs(5);
const FOLLOW_EVERY: Duration = Duration::from_millis(50);
const TRAIN_EVERY: Duration = Duration::from_secs(5);
/// How long the task service may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Asks the ledger for a promise whose end should have been heard of.
async fn look_up(
    client: &Client,
    writer: &Writer<ReservationsState>,
    reservation: &Reservation,
) -> Result<(), PeerError> {
    let record = match within(ANSWER_WITHIN, client.promise_of(&reservation.promise_id())).await {
        Ok(record) => Some(record),
        Err(PeerError::Client(error)) if error.status() == Some(404) => None,
        Err(error) => return Err(error),
    };
    let found = LookedUp { number: reservation.number, record };
    Ok(writer.submit(found).await?)
}

/// `bids` reads the bids that the predictor is trained on.
pub fn start(shared: &Arc<Shared>, writer: &Writer<ReservationsState>, bids: &Arc<Reads>, tasks: &Tasks) {
    let work = |name, activity, every| Loop { name, activity, every, pauses: PAUSES };
    let to = writer.clone();
    let follower = move |all| Follower::new(all, to.clone());
    let following = work("reservations-follower", "following the ledger", FOLLOW_EVERY);
    following.spawn(tasks, shared, |all| &all.following, follower);
    let to = writer.clone();
    let tidier = move |shared| Tidier { shared, writer: to.clone() };
    let tidying = work("reservations-tidier", "telling the task service", TIDY_EVERY);
    tidying.spawn(tasks, shared, |all| &all.tidying, tidier);
    let (to, bids, stop) = (writer.clone(), Arc::clone(bids), tasks.stop());
    let trainer = move |shared| {
        let (writer, bids, stop) = (to.clone(), Arc::clone(&bids), stop.clone());
        Trainer { shared, writer, bids, stop, last: None }
    };
    let training = work("reservations-trainer", "training the predictor of demand", TRAIN_EVERY);
    training.spawn(tasks, shared, |all| &all.training, trainer);
    let all = Arc::clone(shared);
    tasks.spawn_until_stop("reservations-choice", move || choice_reader::run(Arc::clone(&all)));
}
