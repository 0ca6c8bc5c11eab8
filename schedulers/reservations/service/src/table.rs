//! All reservations and balances in memory, with what finds them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use estimand_reservations::Money;
use estimand_web::Scope;

use crate::change::Change;
use crate::choice::Choice;
use crate::credits::Credits;
use crate::reservation::{Reservation, State};
use crate::usage::Usages;

#[derive(Debug, Clone, Default)]
pub struct Table {
    reservations: BTreeMap<u64, Arc<Reservation>>,
    ids: HashMap<String, u64>,
    keys: HashMap<String, u64>,
    promises: HashMap<String, u64>,
    /// Those about which something is still to be done.
    open: BTreeSet<u64>,
    /// Those of them whose promise is asked for, that are being changed, whose task or promise the task service is to be
    /// told of, and whose start is to be published. So none of them is looked for among all that are open.
    pending: BTreeSet<u64>,
    changing: BTreeSet<u64>,
    untold: BTreeSet<u64>,
    unpublished: BTreeSet<u64>,
    /// The ends of the promises whose end was not heard of yet, in seconds since 1970.
    ends: BTreeSet<(u64, u64)>,
    pub credits: Credits,
    pub usages: Usages,
    /// The highest number that a reservation ever had.
    pub highest: u64,
    pub last_bid: u64,
    /// The predictor that was chosen last.
    pub choice: Choice,
}

impl Table {
    pub fn new(reservations: Vec<Reservation>, credits: Credits, highest: u64, last_bid: u64) -> Table {
        let mut table = Table { credits, highest, last_bid, ..Table::default() };
        reservations.into_iter().for_each(|reservation| table.insert(Arc::new(reservation)));
        table
    }

    pub fn len(&self) -> usize {
        self.reservations.len()
    }

    pub fn get(&self, number: u64) -> Option<&Arc<Reservation>> {
        self.reservations.get(&number)
    }

    /// The reservation of this id, if a caller sees it.
    pub fn find(&self, scope: &Scope, id: &str) -> Option<&Arc<Reservation>> {
        let found = self.get(*self.ids.get(id)?)?;
        scope.has_user(Some(&found.account)).then_some(found)
    }

    /// The reservations of the list that this one is the first of, or it alone.
    pub fn list_of(&self, first: &Arc<Reservation>) -> Vec<Arc<Reservation>> {
        let is_member =
            |one: &&Arc<Reservation>| one.number == first.number || one.progress.list == Some(first.number);
        self.reservations.range(first.number..).map(|(_, one)| one).take_while(is_member).cloned().collect()
    }

    /// Those of which a change is being made.
    pub fn changing(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.these(&self.changing)
    }

    /// Those whose task or promise the task service is to be told of.
    pub fn untold(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.these(&self.untold)
    }

    /// The live reservations whose start is to be published, or to be asked for.
    pub fn unpublished(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.these(&self.unpublished)
    }

    /// The reservations whose promise was over at an instant, but of whose end nothing was heard; the first to end come first.
    pub fn overdue(&self, at: u64) -> impl Iterator<Item = &Arc<Reservation>> {
        self.ends.range(..=(at, u64::MAX)).filter_map(|(_, number)| self.get(*number))
    }

    pub fn of_key(&self, key: &str) -> Option<&Arc<Reservation>> {
        self.get(*self.keys.get(key)?)
    }

    pub fn of_promise(&self, promise: &str) -> Option<&Arc<Reservation>> {
        self.get(*self.promises.get(promise)?)
    }

    /// The oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<Reservation>> {
        self.reservations.values()
    }

    /// Those before a number, the newest first.
    pub fn newest(&self, before: u64) -> impl Iterator<Item = &Arc<Reservation>> {
        self.reservations.range(..before).rev().map(|(_, reservation)| reservation)
    }

    pub fn open(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.these(&self.open)
    }

    fn these<'t>(&'t self, numbers: &'t BTreeSet<u64>) -> impl Iterator<Item = &'t Arc<Reservation>> {
        numbers.iter().filter_map(|number| self.get(*number))
    }

    /// Some promise is asked for, or some change is being made.
    pub fn has_orders(&self) -> bool {
        !self.pending.is_empty() || !self.changing.is_empty()
    }

    /// The credits held for the reservations of a user.
    pub fn held(&self, user: &str) -> Money {
        let own = self.open().filter(|one| one.account == user && !one.state().is_final());
        let extra =
            |one: &Reservation| one.progress.change.as_ref().map(|change| change.held).unwrap_or_default();
        own.flat_map(|one| [one.progress.offer.price, extra(one)]).sum()
    }

    /// Those whose promise is asked for, by the key of their order.
    pub fn orders(&self) -> BTreeMap<&str, Vec<&Arc<Reservation>>> {
        let mut orders: BTreeMap<&str, Vec<&Arc<Reservation>>> = BTreeMap::new();
        for reservation in self.these(&self.pending) {
            if let Some(order) = &reservation.progress.order {
                orders.entry(&order.key).or_default().push(reservation);
            }
        }
        orders
    }

    pub fn apply(&mut self, change: &Change) {
        change.deleted.iter().for_each(|number| self.remove(*number));
        change.reservations.iter().for_each(|reservation| self.insert(Arc::clone(reservation)));
        for entry in &change.entries {
            if !self.credits.apply(entry) {
                // It was checked when it was decided.
                tracing::error!(?entry, "an entry of the journal moves more than there is");
            }
        }
        self.choice = change.choice.unwrap_or(self.choice);
        self.last_bid = change.bids.last().map_or(self.last_bid, |bid| bid.number);
    }

    fn insert(&mut self, reservation: Arc<Reservation>) {
        let number = reservation.number;
        self.ids.insert(reservation.id.clone(), number);
        self.promises.insert(reservation.promise_id(), number);
        match &reservation.key {
            Some(key) => drop(self.keys.insert(key.clone(), number)),
            // One that is refused loses it.
            None => self.forget_key(number),
        }
        let is_in = [
            (&mut self.open, reservation.is_open()),
            (&mut self.pending, reservation.state() == State::Pending),
            (&mut self.changing, reservation.progress.change.is_some()),
            (&mut self.untold, reservation.is_untold()),
            (&mut self.unpublished, reservation.is_for_broker()),
        ];
        for (numbers, is_in) in is_in {
            if is_in {
                numbers.insert(number)
            } else {
                numbers.remove(&number)
            };
        }
        self.highest = self.highest.max(number);
        self.forget_end(number);
        if let Some(before) = self.reservations.get(&number) {
            self.usages.remove(before);
        }
        self.usages.add(&reservation);
        if reservation.awaits_end() {
            self.ends.insert((reservation.progress.offer.end, number));
        }
        self.reservations.insert(number, reservation);
    }

    fn forget_end(&mut self, number: u64) {
        if let Some(end) = self.get(number).map(|before| before.progress.offer.end) {
            self.ends.remove(&(end, number));
        }
    }

    fn forget_key(&mut self, number: u64) {
        if let Some(key) = self.get(number).and_then(|before| before.key.clone()) {
            self.keys.remove(&key);
        }
    }

    fn remove(&mut self, number: u64) {
        self.forget_key(number);
        self.forget_end(number);
        let Some(reservation) = self.reservations.remove(&number) else { return };
        self.usages.remove(&reservation);
        self.ids.remove(&reservation.id);
        self.promises.remove(&reservation.promise_id());
        for numbers in
            [&mut self.open, &mut self.pending, &mut self.changing, &mut self.untold, &mut self.unpublished]
        {
            numbers.remove(&number);
        }
    }
}
