//! Trains the predictor that is chosen, on the bids of the period before, away from requests: it has a thread of its own and
//! a deadline. What is trained replaces what was there at once; if training fails, what was there stays.

use std::sync::Arc;
use std::time::Duration;

use estimand_reservations::predict::Method;
use estimand_runtime::{Next, Stop, Work};
use estimand_service::{SubmitError, Writer};
use estimand_store::Reads;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::change::Rejection;
use crate::choice::Choice;
use crate::predictions::{Goods, Predictions};
use crate::requests::Choose;
use crate::shared::Shared;
use crate::storage::rows::{self, KEPT_BIDS, column};
use crate::writer::ReservationsState;

/// How long a training may take.
const TRAIN_WITHIN: Duration = Duration::from_secs(60);
/// A period has so many trainings.
const TIMES_A_PERIOD: u64 = 24;
/// How often it is trained at most, and how seldom at least.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(3_600);
/// After a training it rests so many times as long as that took, unless another predictor is chosen.
const REST_TIMES: u32 = 9;

pub struct Trainer {
    pub shared: Arc<Shared>,
    pub writer: Writer<ReservationsState>,
    pub bids: Arc<Reads>,
    pub stop: Stop,
    /// The training before.
    pub last: Option<Attempt>,
}

/// A training, however it ended.
pub struct Attempt {
    choice: Choice,
    goods: Arc<Goods>,
    at: Instant,
    took: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    #[error(transparent)]
    Writer(#[from] SubmitError<Rejection>),
    #[error("the bids cannot be read: {0}")]
    Store(#[from] estimand_store::Error),
    #[error("the training ended in the middle: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl Work for Trainer {
    type Error = TrainingError;

    async fn round(&mut self) -> Result<Next, TrainingError> {
        if !self.shared.table.is_loaded() {
            return Ok(Next::Period);
        }
        let choice = self.choose().await?;
        if choice.method == Method::Nothing {
            let known = self.shared.predictions.borrow().as_ref().map(|known| known.choice);
            if known != Some(choice) {
                self.show(Predictions::nothing(choice));
            }
            self.last = None;
            return Ok(Next::Period);
        }
        let goods = self.shared.goods.borrow().clone();
        if goods.is_empty() {
            return Ok(Next::Period);
        }
        if let Some(due) = self.due(&choice, &goods)
            && due > Instant::now()
        {
            return Ok(Next::At(due));
        }
        self.train(choice, goods).await?;
        Ok(Next::Period)
    }
}

impl Trainer {
    /// The choice in force, after a new one was stored.
    async fn choose(&self) -> Result<Choice, TrainingError> {
        let known = self.shared.table.look(|table| table.choice);
        let heard = *self.shared.heard_choice.borrow();
        match heard.filter(|heard| !heard.is_same(&known)) {
            None => Ok(known),
            Some(heard) => {
                let chosen = self.writer.submit(Choose(heard)).await?;
                tracing::info!(predictor = %chosen.method, period = chosen.period, "another predictor of demand is chosen");
                Ok(chosen)
            }
        }
    }

    /// When the next training is due; none: now, because it is the first one of this choice.
    fn due(&self, choice: &Choice, goods: &Arc<Goods>) -> Option<Instant> {
        let last = self.last.as_ref().filter(|last| last.choice == *choice)?;
        let period = Duration::from_secs(choice.period / TIMES_A_PERIOD).clamp(SOONEST, LATEST);
        let pause = if *last.goods == **goods { period } else { Duration::ZERO };
        Some(last.at + pause.max(last.took * REST_TIMES))
    }

    async fn train(&mut self, choice: Choice, goods: Arc<Goods>) -> Result<(), TrainingError> {
        let now = self.shared.clock.now_micros();
        let since = now.saturating_sub(column(choice.period.saturating_mul(1_000_000)));
        let limit = column(KEPT_BIDS);
        let bids = self.bids.run(None, move |connection| connection.bids(since, limit)).await?;
        let (begun, stop) = (Instant::now(), self.stop.clone());
        let (settings, sold) = (self.shared.settings.clone(), Arc::clone(&goods));
        let training = spawn_blocking(move || {
            let goes_on = || begun.elapsed() < TRAIN_WITHIN && !stop.is_requested();
            Predictions::train(choice, &rows::bids(bids), &sold, &settings, now, &goes_on)
        });
        let trained = training.await;
        let took = begun.elapsed();
        self.last = Some(Attempt { choice, goods, at: Instant::now(), took });
        let figures = &self.shared.figures;
        let trained = trained.inspect_err(|_| figures.trained(false, took))?;
        figures.trained(trained.is_some(), took);
        match trained {
            Some(predictions) => {
                let bids = predictions.training.map_or(0, |training| training.bids);
                tracing::debug!(predictor = %choice.method, bids, ?took, "the predictor of demand is trained");
                self.show(predictions);
            }
            None => {
                tracing::warn!(
                    predictor = %choice.method,
                    "the training took longer than {TRAIN_WITHIN:?} and was given up; what was trained before stays"
                );
                self.shared.predictions.send_if_modified(|known| {
                    let is_first = known.is_none();
                    if is_first {
                        *known = Some(Arc::new(Predictions::nothing(choice)));
                    }
                    is_first
                });
            }
        }
        Ok(())
    }

    fn show(&self, predictions: Predictions) {
        self.shared.predictions.send_replace(Some(Arc::new(predictions)));
    }
}
