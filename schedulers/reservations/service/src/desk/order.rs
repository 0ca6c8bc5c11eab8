//! One order: the reservations that are asked for together, until each is promised or refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseRequest, Room};
use estimand_client::Client;
use estimand_ordering::{Done, Order, OrderKey, Step};
use estimand_reservations::Money;
use futures_util::future::join_all;

use super::pricing::{Asked, price_all, with_values};
use super::{Desk, Reply, new_key};
use crate::document::Document;
use crate::prices::{Priced, Prices};
use crate::requests::{Answer, Answered, Opened};
use crate::reservation::{Offer, Reservation, State};
use crate::settings::Settings;

/// Reservations of an order of which all are promised or none, and whoever waits for them: one, or those of a list.
pub struct OrderGroup {
    members: Vec<Member>,
    reply: Option<Reply<Opened>>,
}

struct Member {
    reservation: Arc<Reservation>,
    /// Its price as it was found here; none after a restart.
    priced: Option<Priced>,
    /// Starts, in slots, at which the ledger found no place for so many units.
    without: BTreeSet<(u64, u64)>,
}

impl OrderGroup {
    pub fn new(reservations: Vec<Arc<Reservation>>, priced: Vec<Priced>, reply: Reply<Opened>) -> OrderGroup {
        let members = reservations.into_iter().zip(priced).map(|(reservation, priced)| Member {
            reservation,
            priced: Some(priced),
            without: BTreeSet::new(),
        });
        OrderGroup { members: members.collect(), reply: Some(reply) }
    }

    /// The groups of an order that nobody waits for.
    pub fn of_all(reservations: Vec<Arc<Reservation>>) -> Vec<OrderGroup> {
        let mut groups: Vec<OrderGroup> = Vec::new();
        for reservation in reservations {
            let list = reservation.progress.list;
            let is_with =
                |group: &&mut OrderGroup| list.is_some() && group.reservation().progress.list == list;
            let member = Member { reservation, priced: None, without: BTreeSet::new() };
            match groups.last_mut().filter(is_with) {
                Some(group) => group.members.push(member),
                None => groups.push(OrderGroup { members: vec![member], reply: None }),
            }
        }
        groups
    }

    /// The first one; there is no group without.
    fn reservation(&self) -> &Arc<Reservation> {
        &self.members[0].reservation
    }

    fn is_list(&self) -> bool {
        self.reservation().progress.list.is_some()
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.members.iter().map(|member| member.reservation.number)
    }

    /// All of them together.
    fn value(&self) -> Money {
        self.members.iter().map(|member| member.reservation.document.value.unwrap_or_default()).sum()
    }

    fn tell(&mut self, outcome: Result<Opened, Problem>) {
        if let Some(reply) = self.reply.take() {
            // Nobody may wait any more.
            let _ = reply.send(outcome);
        }
    }
}

fn members(groups: &[OrderGroup]) -> impl Iterator<Item = &Member> {
    groups.iter().flat_map(|group| &group.members)
}

impl Desk {
    /// Orders until each of these is promised or refused, or the outcome stays unknown.
    pub(super) async fn complete(&self, client: &Client, mut groups: Vec<OrderGroup>) {
        let Some(mut key) = key_of(&mut groups) else { return };
        let mut order = Order::new(key.clone(), parts(&groups));
        loop {
            match self.ask(client, &mut order).await {
                Some(Step::Done(done)) => return self.made(groups, &key, done),
                Some(Step::Plan(room)) => {
                    self.shared.figures.repeated.increment();
                    note_full(&mut groups, &room, &self.shared.settings);
                    self.shared.heard_of(room.revision);
                    groups = self.reprice(client, groups, &key).await;
                    let Some(next) = key_of(&mut groups) else { return };
                    order.plan(next.clone(), parts(&groups));
                    key = next;
                }
                Some(Step::Apart(problem)) => {
                    tracing::warn!(%problem, "an order is refused; each reservation is ordered alone");
                    return self.one_by_one(client, groups, &key).await;
                }
                Some(Step::Refuse(problem)) => return self.refuse(groups, &key, &problem).await,
                Some(Step::AskAgain(reason)) => {
                    let problem = unknown(&reason);
                    return groups.iter_mut().for_each(|group| group.tell(Err(problem.clone())));
                }
                None => return,
            }
        }
    }

    /// All are promised. They are stored as that in one step, an order that is sent again has all that it had, and meanwhile the
    /// next order is opened: the ledger and the prices have these already.
    fn made(&self, groups: Vec<OrderGroup>, order: &OrderKey, made: Done) {
        self.count_as_taken(&groups, order, made.revision);
        let mut records = made.promises;
        let units = members(&groups).map(|member| {
            let id = member.reservation.promise_id();
            let record = records.iter().position(|record| record.id == id).map(|at| records.swap_remove(at));
            record.map_or_else(Default::default, |record| (record.revision, record.units))
        });
        let answer = Answer::Promised(units.collect());
        let numbers = groups.iter().flat_map(OrderGroup::numbers).collect();
        let answered = Answered { numbers, order: order.key.clone(), answer };
        let (shared, writer) = (Arc::clone(&self.shared), self.writer.clone());
        let turn = self.answering.begin(&order.key);
        tokio::spawn(async move {
            let outcome = writer.submit(answered).await.map_err(Problem::from);
            drop(turn);
            let has_task = members(&groups).any(|member| member.reservation.document.task.is_some());
            tell_all(groups, outcome);
            if has_task {
                shared.tidying.ask();
            }
        });
    }

    /// Prices go on from the revision of the ledger with these promises, without reading it anew.
    fn count_as_taken(&self, groups: &[OrderGroup], order: &OrderKey, revision: u64) {
        let known = self.shared.prices.load_full();
        let next = known.filter(|prices| prices.revision == order.revision).and_then(|prices| {
            let mut next: Prices = (*prices).clone();
            let all = members(groups).all(|member| {
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

    /// Prices groups again. A group that cannot be had any more is refused, and left out.
    async fn reprice(&self, client: &Client, groups: Vec<OrderGroup>, before: &OrderKey) -> Vec<OrderGroup> {
        let mut prices = match self.read_prices(client).await {
            Ok(prices) => (*prices).clone(),
            Err(problem) => {
                // Stored as they are, they are ordered again soon.
                for mut group in groups {
                    group.tell(Err(unknown(&problem.detail)));
                }
                return Vec::new();
            }
        };
        let order = OrderKey { key: new_key(), revision: prices.revision };
        let answers: Vec<_> = groups
            .into_iter()
            .map(|mut group| match self.price_again(&mut prices, &mut group) {
                Ok(parts) => (group, Answer::Repriced { parts, order: order.clone() }, None),
                Err(problem) => (group, Answer::Refused { reason: problem.detail.clone() }, Some(problem)),
            })
            .collect();
        let answered = join_all(answers.into_iter().map(|(group, answer, problem)| async {
            let outcome = self.answer(group.numbers().collect(), before, answer).await;
            (group, outcome, problem)
        }));
        let mut left = Vec::new();
        for (mut group, outcome, problem) in answered.await {
            match (outcome, problem) {
                (_, Some(problem)) | (Err(problem), None) => group.tell(Err(problem)),
                (Ok(all), None) if all.iter().all(|one| one.state() == State::Pending) => {
                    for (member, reservation) in group.members.iter_mut().zip(all) {
                        member.reservation = reservation;
                    }
                    left.push(group);
                }
                (Ok(all), None) => {
                    let reason = all.into_iter().find_map(|one| one.progress.reason.clone());
                    group.tell(Err(Problem::conflict(reason.unwrap_or_default())));
                }
            }
        }
        left
    }

    fn price_again(
        &self,
        prices: &mut Prices,
        group: &mut OrderGroup,
    ) -> Result<Vec<(Arc<Document>, Offer)>, Problem> {
        let (value, is_list) = (group.value(), group.is_list());
        let documents: Vec<Arc<Document>> =
            group.members.iter().map(|member| Arc::clone(&member.reservation.document)).collect();
        let asked = documents.iter().zip(&group.members);
        let asked: Vec<Asked<'_>> = asked.map(|(document, member)| (&**document, &member.without)).collect();
        let priced = price_all(&self.shared, prices, &asked, is_list, Some(value))?;
        let valued = with_values(&documents, &priced, is_list.then_some(value));
        let offers: Vec<_> = priced.iter().map(|priced| priced.offer).collect();
        for (member, priced) in group.members.iter_mut().zip(priced) {
            member.priced = Some(priced);
        }
        Ok(valued.into_iter().zip(offers).collect())
    }

    /// Each group of an order is ordered by itself, so that one does not spoil the others.
    async fn one_by_one(&self, client: &Client, groups: Vec<OrderGroup>, before: &OrderKey) {
        for mut group in groups {
            let order = OrderKey { key: new_key(), revision: before.revision };
            let parts = group.members.iter().map(|member| {
                let Reservation { document, progress, .. } = &*member.reservation;
                (Arc::clone(document), progress.offer)
            });
            let answer = Answer::Repriced { parts: parts.collect(), order };
            match self.answer(group.numbers().collect(), before, answer).await {
                Ok(all) => {
                    for (member, reservation) in group.members.iter_mut().zip(all) {
                        member.reservation = reservation;
                    }
                    Box::pin(self.complete(client, vec![group])).await;
                }
                Err(problem) => group.tell(Err(problem)),
            }
        }
    }

    async fn refuse(&self, groups: Vec<OrderGroup>, order: &OrderKey, problem: &Problem) {
        for mut group in groups {
            let answer = Answer::Refused { reason: problem.detail.clone() };
            // If it is not stored, it is ordered again, and refused again.
            let _ = self.answer(group.numbers().collect(), order, answer).await;
            group.tell(Err(problem.clone()));
        }
    }

    /// Stores the answer for some of them.
    async fn answer(
        &self,
        numbers: Vec<u64>,
        order: &OrderKey,
        answer: Answer,
    ) -> Result<Vec<Arc<Reservation>>, Problem> {
        let answered = Answered { numbers, order: order.key.clone(), answer };
        Ok(self.writer.submit(answered).await?)
    }
}

/// Tells each group its reservations, which are in the order of the groups.
fn tell_all(groups: Vec<OrderGroup>, outcome: Result<Vec<Arc<Reservation>>, Problem>) {
    let mut promised = outcome.map(Vec::into_iter);
    for mut group in groups {
        let outcome = match &mut promised {
            Ok(promised) => Ok(Opened::New(promised.by_ref().take(group.members.len()).collect())),
            Err(problem) => Err(problem.clone()),
        };
        group.tell(outcome);
    }
}

/// The key under which groups, which are put in order, are asked for; none: there are none.
fn key_of(groups: &mut [OrderGroup]) -> Option<OrderKey> {
    groups.sort_by_key(|group| group.reservation().number);
    groups.first().and_then(|group| group.reservation().progress.order.clone())
}

/// The promises of each group.
fn parts(groups: &[OrderGroup]) -> Vec<Vec<PromiseRequest>> {
    let promises =
        |group: &OrderGroup| group.members.iter().map(|member| member.reservation.promise()).collect();
    groups.iter().map(promises).collect()
}

/// Notes the starts at which the ledger has no place for one of them.
fn note_full(groups: &mut [OrderGroup], room: &Room, settings: &Settings) {
    let place = room.promise.and_then(|place| usize::try_from(place).ok());
    let mut members = groups.iter_mut().flat_map(|group| &mut group.members);
    if let Some(member) = place.and_then(|place| members.nth(place))
        && let Some(priced) = &member.priced
    {
        member.without.extend(full_starts(priced, room, settings));
    }
}

/// The starts from the one that was ordered to the first that fits so many units.
pub(super) fn full_starts(
    priced: &Priced,
    room: &Room,
    settings: &Settings,
) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (start, width, most) = (priced.quote.start, priced.offer.width, settings.horizon);
    let end = room.first_fit.map_or(start + most, |first| settings.slot_from(first));
    (start..end.clamp(start + 1, start + most)).map(move |start| (width, start))
}

pub(super) fn unknown(detail: &str) -> Problem {
    let detail = format!(
        "the task service gave no answer ({detail}): whether it is reserved will be known soon; with the same \
         Idempotency-Key the same is asked again"
    );
    Problem::outcome_unknown(detail, 1)
}
