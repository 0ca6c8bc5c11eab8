//! The room of a book: for placements that are committed together, and for promises that are asked for.

use std::collections::HashMap;

use estimand_api::promise::{PromiseRequest, Room};
use estimand_capacity::{LedgerError, NodeId, Shape, Tick, Trial, Window};

use super::book::{Book, Promised};
use super::promise::{Promise, amounts, class};
use super::request::with_place;
use super::task::TaskView;

/// The room for placements, each counted beside those before it. The book stays as it is.
pub struct BookRoom<'b> {
    book: &'b Book,
    now: Tick,
    taken: HashMap<NodeId, Taken<'b>>,
}

/// The part of a node that placements take: by loans, and by units of promises.
#[derive(Default)]
struct Taken<'b> {
    loans: Vec<Shape>,
    units: Vec<&'b Promised>,
}

impl<'b> BookRoom<'b> {
    pub fn new(book: &'b Book, now: Tick) -> Self {
        BookRoom { book, now, taken: HashMap::new() }
    }

    /// Takes the room of a task on a node; false if there is none.
    pub fn take(&mut self, task: &TaskView<'_>, node: &str) -> bool {
        let Some(node) = self.book.cluster.ledger.node(node) else { return false };
        match task.promise {
            Some(promise) => self.take_unit(promise, node),
            None => self.take_loan(task, node),
        }
    }

    fn take_loan(&mut self, task: &TaskView<'_>, node: NodeId) -> bool {
        let ledger = &self.book.cluster.ledger;
        let Some(shape) = ledger.known_shape(&with_place(&task.amounts)) else { return false };
        let taken = self.taken.entry(node).or_default();
        let has_room = ledger.can_lend_at(self.now, node, &shape, taken.loans.iter());
        if has_room {
            taken.loans.push(shape);
        }
        has_room
    }

    fn take_unit(&mut self, promise: &str, node: NodeId) -> bool {
        let Some(promised) = self.book.promised_as(promise) else { return false };
        let free = self.book.free_units(promised).filter(|(_, on)| *on == node).count();
        let taken = self.taken.entry(node).or_default();
        let of_promise = taken.units.iter().filter(|unit| unit.promise.id == promise).count();
        let shapes = taken.loans.iter().chain(taken.units.iter().map(|unit| &unit.shape));
        let has_room = promised.window.has(self.now)
            && of_promise < free
            && self.book.cluster.ledger.has_room_now(node, &promised.shape, shapes);
        if has_room {
            taken.units.push(promised);
        }
        has_room
    }
}

impl Book {
    /// The nodes of the units of promises that are asked for, if there is room for all; else where there would be.
    pub fn promise(&self, asked: &[(PromiseRequest, Window)]) -> Result<Vec<Vec<String>>, Room> {
        let mut trial = self.cluster.ledger.trial();
        let mut places = Vec::new();
        for (place, (asked, window)) in asked.iter().enumerate() {
            let room = |trial: &Trial<'_>| self.room(trial, asked, *window, Some(place as u64));
            let Some((shape, nodes)) = self.units(&trial, asked, *window) else { return Err(room(&trial)) };
            nodes.iter().for_each(|node| trial.claim(*node, &shape, *window));
            places.push(self.names(&nodes));
        }
        Ok(places)
    }

    /// The node of each unit, and a unit's shape.
    fn units(
        &self,
        trial: &Trial<'_>,
        asked: &PromiseRequest,
        window: Window,
    ) -> Option<(Shape, Vec<NodeId>)> {
        let shape = self.cluster.ledger.known_shape(&amounts(asked))?;
        let nodes = trial.place_units(class(asked), &shape, window, asked.width.max(1))?;
        Some((shape, nodes))
    }

    fn names(&self, nodes: &[NodeId]) -> Vec<String> {
        nodes.iter().filter_map(|node| self.cluster.ledger.name(*node)).map(str::to_owned).collect()
    }

    fn room(&self, trial: &Trial<'_>, asked: &PromiseRequest, window: Window, promise: Option<u64>) -> Room {
        let ledger = &self.cluster.ledger;
        let room = Room { promise, ..Room::default() };
        let Some(shape) = ledger.known_shape(&amounts(asked)) else { return room };
        let ticks = window.end() - window.start();
        Room {
            units: trial.room(class(asked), &shape, window),
            most_units: ledger.most_room(class(asked), &shape),
            first_fit: trial.first_fit(class(asked), &shape, asked.width.max(1), window.start(), ticks),
            ..room
        }
    }

    /// A live promise with another end, if there is room for that.
    pub fn resized(&self, promise: &Promise, until: Tick) -> Result<Promise, LedgerError> {
        if let Some(claim) = self.promised(promise.number).and_then(|promised| promised.claim) {
            self.cluster.ledger.check_resize(claim, until)?;
        }
        Ok(Promise { until, ..promise.clone() })
    }

    /// The nodes of a promise's units if it was asked for like this, once what it has is given back; else where there would be
    /// room.
    pub fn replaced(
        &self,
        promise: &Promise,
        asked: &PromiseRequest,
        window: Window,
    ) -> Result<Vec<String>, Room> {
        let mut trial = self.cluster.ledger.trial();
        if let Some(claim) = self.promised(promise.number).and_then(|promised| promised.claim) {
            let _ = trial.release(claim);
        }
        let units = self.units(&trial, asked, window).map(|(_, nodes)| self.names(&nodes));
        units.ok_or_else(|| self.room(&trial, asked, window, Some(0)))
    }
}
