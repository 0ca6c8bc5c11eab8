//! The liveness and the readiness of the service.
//!
//! Alive means that the process answers. Ready means that every named part of it has said so; a part starts
//! as not ready, so one that is forgotten cannot pass for ready. Once the service is going down it is never
//! ready again.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The readiness of one server. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// When all parts were ready at the same time for the first time.
    begun: Option<Instant>,
    withdrawn: bool,
    parts: Vec<(&'static str, Option<String>)>,
}

/// A part that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    pub part: &'static str,
    pub why: String,
}

/// One part's say in it.
#[derive(Debug, Clone)]
pub struct PartReady {
    readiness: Readiness,
    place: usize,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// Names a part that must be ready, and is not yet.
    pub fn part(&self, name: &'static str) -> PartReady {
        let place = self.with(|state| {
            state.parts.push((name, Some("starting".to_owned())));
            state.parts.len() - 1
        });
        PartReady { readiness: self.clone(), place }
    }

    /// Not ready from now on: the service is going down.
    pub fn withdraw(&self) {
        self.with(|state| state.withdrawn = true);
    }

    /// True if all parts had been ready once by then.
    pub fn had_begun(&self, by: Instant) -> bool {
        self.with(|state| state.parts.is_empty() || state.begun.is_some_and(|begun| begun <= by))
    }

    /// The parts that are not ready and why, by name; the server itself is one once it goes down.
    pub fn check(&self) -> Result<(), Vec<Unready>> {
        let mut missing = self.with(|state| {
            let stopping = state.withdrawn.then(|| Unready { part: "server", why: "going down".to_owned() });
            let parts = state.parts.iter();
            let parts = parts.filter_map(|(part, why)| Some(Unready { part, why: why.clone()? }));
            stopping.into_iter().chain(parts).collect::<Vec<_>>()
        });
        missing.sort_by_key(|unready| unready.part);
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PartReady {
    pub fn ready(&self) {
        self.set(None);
    }

    pub fn not_ready(&self, why: impl fmt::Display) {
        self.set(Some(why.to_string()));
    }

    fn set(&self, why: Option<String>) {
        self.readiness.with(|state| {
            state.parts[self.place].1 = why;
            if state.parts.iter().all(|(_, why)| why.is_none()) {
                state.begun.get_or_insert_with(Instant::now);
            }
        });
    }
}
