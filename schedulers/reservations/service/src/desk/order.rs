//! One order: the reservations that are asked for together, until each is promised or refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseBatch, PromisesMade, Room};
use estimand_client::{Client, Error};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::{Desk, new_key};
use crate::http::problems;
use crate::prices::{Priced, Prices};
use crate::refusals;
use crate::requests::{Answer, Answered, Opened};
use crate::reservation::{Order, Reservation, State};
use crate::settings::Settings;

/// How often an order is priced again before its reservations are refused: each time somebody else was faster.
const MAX_ROUNDS: usize = 64;

/// A reservation of an order, and whoever waits for it.
pub struct Member {
    pub reservation: Arc<Reservation>,
    /// Its price as it was found here; none after a restart.
    priced: Option<Priced>,
    /// Starts, in slots, at which the ledger found no place for it.
    without: BTreeSet<u64>,
    reply: Option<oneshot::Sender<Result<Opened, Problem>>>,
}

impl Member {
    pub fn of(
        reservation: Arc<Reservation>,
        reply: Option<oneshot::Sender<Result<Opened, Problem>>>,
    ) -> Member {
        Member { reservation, priced: None, without: BTreeSet::new(), reply }
    }

    pub fn at(self, priced: Priced) -> Member {
        Member { priced: Some(priced), ..self }
    }

    fn tell(&mut self, outcome: Result<Opened, Problem>) {
        if let Some(reply) = self.reply.take() {
            // Nobody may wait any more.
            let _ = reply.send(outcome);
        }
    }
}

/// The ledger's answer.
enum Word {
    Made(PromisesMade),
    /// It has moved on, or has no place for one of them.
    Again(Box<Room>),
    /// It never promises these.
    No(Problem),
    /// It may have promised them or not.
    Unknown(Problem),
}

impl Desk {
    /// Orders until each of these is promised or refused, or the outcome stays unknown.
    pub(super) async fn complete(&self, client: &Client, mut members: Vec<Member>) {
        for _ in 0..MAX_ROUNDS {
            members.sort_by_key(|member| member.reservation.number);
            let Some(order) = members.first().and_then(|member| member.reservation.progress.order.clone())
            else {
                return;
            };
            members = match self.ask(client, &order, &members).await {
                Word::Made(made) => return self.made(members, &order, made).await,
                Word::Again(room) => {
                    self.shared.figures.repeated.increment();
                    note_full(&mut members, &room, &self.shared.settings);
                    self.shared.heard_of(room.revision);
                    self.reprice(client, members, &order).await
                }
                Word::No(problem) if members.len() > 1 => {
                    tracing::warn!(%problem, "an order is refused; each reservation is ordered alone");
                    return self.one_by_one(client, members, &order).await;
                }
                Word::No(problem) => return self.refuse(members, &order, &problem).await,
                Word::Unknown(problem) => {
                    members.iter_mut().for_each(|member| member.tell(Err(problem.clone())));
                    return;
                }
            };
            if members.is_empty() {
                return;
            }
        }
        let order = members.first().and_then(|member| member.reservation.progress.order.clone());
        if let Some(order) = order {
            let problem = Problem::unavailable("others were faster each time; ask again", 1);
            self.refuse(members, &order, &problem).await;
        }
    }

    async fn ask(&self, client: &Client, order: &Order, members: &[Member]) -> Word {
        let batch = PromiseBatch {
            if_revision: Some(order.revision),
            all_or_none: members.iter().map(|member| member.reservation.promise()).collect(),
        };
        match client.promise(&batch, &order.key).await {
            Ok(made) => Word::Made(made),
            Err(Error::Problem(problem)) => match (problem.status, &problem.room) {
                (409, Some(room)) => Word::Again(room.clone()),
                // Its start has come meanwhile.
                (400, _) if self.has_begun(members) => Word::Again(Box::default()),
                (400..=499, _) => Word::No(*problem),
                _ => Word::Unknown(unknown(&problem.detail)),
            },
            Err(error) => Word::Unknown(unknown(&error.to_string())),
        }
    }

    fn has_begun(&self, members: &[Member]) -> bool {
        let now = self.shared.now();
        members.iter().any(|member| member.reservation.progress.offer.start < now)
    }

    /// All are promised.
    async fn made(&self, members: Vec<Member>, order: &Order, made: PromisesMade) {
        self.count_as_taken(&members, order, made.revision);
        let mut records = made.promises;
        let answered = join_all(members.into_iter().map(|member| {
            let id = member.reservation.promise_id();
            let record = records.iter().position(|record| record.id == id).map(|at| records.swap_remove(at));
            let (revision, nodes) =
                record.map_or_else(Default::default, |record| (record.revision, record.units));
            self.answer(member, order, Answer::Promised { revision, nodes })
        }));
        for (mut member, outcome) in answered.await {
            let has_task = member.reservation.document.task.is_some();
            member.tell(outcome.map(Opened::New));
            if has_task {
                self.shared.tidying.ask();
            }
        }
    }

    /// Prices go on from the revision of the ledger with these promises, without reading it anew.
    fn count_as_taken(&self, members: &[Member], order: &Order, revision: u64) {
        let known = self.shared.prices.load_full();
        let next = known.filter(|prices| prices.revision == order.revision).and_then(|prices| {
            let mut next: Prices = (*prices).clone();
            let all = members.iter().all(|member| {
                let document = &member.reservation.document;
                member.priced.as_ref().is_some_and(|priced| next.take(document, priced))
            });
            next.revision = revision;
            all.then_some(next)
        });
        match next {
            Some(next) => self.shared.prices.store(Some(Arc::new(next))),
            // The next reading of the ledger has them.
            None => self.shared.heard_of(revision),
        }
    }

    /// Prices all of them again. Those that cannot be had any more are refused, and left out.
    async fn reprice(&self, client: &Client, members: Vec<Member>, before: &Order) -> Vec<Member> {
        let mut prices = match self.read_prices(client).await {
            Ok(prices) => (*prices).clone(),
            Err(problem) => {
                // Stored as they are, they are ordered again soon.
                for mut member in members {
                    member.tell(Err(unknown(&problem.detail)));
                }
                return Vec::new();
            }
        };
        let order = Order { key: new_key(), revision: prices.revision };
        let now = self.shared.now();
        let answers: Vec<_> = members
            .into_iter()
            .map(|mut member| match self.price_again(&mut prices, &mut member, now) {
                Ok(priced) => {
                    let answer = Answer::Repriced { offer: priced.offer, order: order.clone() };
                    member.priced = Some(priced);
                    (member, answer, None)
                }
                Err(problem) => (member, Answer::Refused { reason: problem.detail.clone() }, Some(problem)),
            })
            .collect();
        let answered =
            join_all(answers.into_iter().map(|(member, answer, problem)| async {
                (self.answer(member, before, answer).await, problem)
            }));
        let mut left = Vec::new();
        for ((mut member, outcome), problem) in answered.await {
            match (outcome, problem) {
                (_, Some(problem)) | (Err(problem), None) => member.tell(Err(problem)),
                (Ok(reservation), None) if reservation.state() == State::Pending => {
                    left.push(Member { reservation, ..member });
                }
                (Ok(reservation), None) => {
                    let reason = reservation.progress.reason.clone().unwrap_or_default();
                    member.tell(Err(Problem::conflict(reason)));
                }
            }
        }
        left
    }

    fn price_again(&self, prices: &mut Prices, member: &mut Member, now: u64) -> Result<Priced, Problem> {
        let document = &member.reservation.document;
        let priced = prices
            .offer(document, now, &member.without)
            .map_err(|why| refusals::no_price(&why, document, &self.shared.settings))?;
        let value = document.value.unwrap_or_default();
        if value < priced.offer.price {
            return Err(refusals::too_dear(&priced.offer, value));
        }
        prices.take(document, &priced);
        Ok(priced)
    }

    /// Each of an order's reservations is ordered by itself, so that one does not spoil the others.
    async fn one_by_one(&self, client: &Client, members: Vec<Member>, before: &Order) {
        for member in members {
            let order = Order { key: new_key(), revision: before.revision };
            let offer = member.reservation.progress.offer;
            let (mut member, outcome) = self.answer(member, before, Answer::Repriced { offer, order }).await;
            match outcome {
                Ok(reservation) => {
                    member.reservation = reservation;
                    Box::pin(self.complete(client, vec![member])).await;
                }
                Err(problem) => member.tell(Err(problem)),
            }
        }
    }

    async fn refuse(&self, members: Vec<Member>, order: &Order, problem: &Problem) {
        for member in members {
            let answer = Answer::Refused { reason: problem.detail.clone() };
            let (mut member, _) = self.answer(member, order, answer).await;
            member.tell(Err(problem.clone()));
        }
    }

    /// Stores the answer for one of them.
    async fn answer(
        &self,
        member: Member,
        order: &Order,
        answer: Answer,
    ) -> (Member, Result<Arc<Reservation>, Problem>) {
        let answered = Answered { number: member.reservation.number, order: order.key.clone(), answer };
        let outcome = self.writer.submit(answered).await.map_err(problems::of_write);
        (member, outcome)
    }
}

/// Notes the starts at which the ledger has no place for one of them: from the one that was ordered to the first that fits.
fn note_full(members: &mut [Member], room: &Room, settings: &Settings) {
    let place = room.promise.and_then(|place| usize::try_from(place).ok());
    if let Some(member) = place.and_then(|place| members.get_mut(place))
        && let Some(priced) = &member.priced
    {
        let start = priced.quote.start;
        let end = room.first_fit.map_or(start + settings.horizon, |first| settings.slot_from(first));
        member.without.extend(start..end.clamp(start + 1, start + settings.horizon));
    }
}

fn unknown(detail: &str) -> Problem {
    let detail = format!(
        "the task service gave no answer ({detail}): whether it is reserved will be known soon; with the same \
         Idempotency-Key the same is asked again"
    );
    Problem::outcome_unknown(detail, 1)
}
