//! Time as the ledger counts it: whole ticks, and windows of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A slot of time. Its length is up to the ledger's owner.
pub type Tick = u64;

/// The end of a window whose end nobody knows yet.
pub const OPEN_END: Tick = Tick::MAX;

/// The ticks from `start` on and before `end`; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bounds")]
pub struct Window {
    start: Tick,
    end: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the window from {start} to {end} is empty: its end must be after its start")]
pub struct EmptyWindow {
    pub start: Tick,
    pub end: Tick,
}

#[derive(Deserialize)]
struct Bounds {
    start: Tick,
    end: Tick,
}

impl Window {
    pub fn new(start: Tick, end: Tick) -> Result<Window, EmptyWindow> {
        if start < end { Ok(Window { start, end }) } else { Err(EmptyWindow { start, end }) }
    }

    /// So many ticks; one that would pass the end of time has an open end.
    pub fn lasting(start: Tick, ticks: u64) -> Result<Window, EmptyWindow> {
        Window::new(start, start.saturating_add(ticks))
    }

    /// From `start` until somebody says that it is over.
    pub fn open(start: Tick) -> Result<Window, EmptyWindow> {
        Window::new(start, OPEN_END)
    }

    pub fn start(self) -> Tick {
        self.start
    }

    pub fn end(self) -> Tick {
        self.end
    }

    pub fn overlaps(self, other: Window) -> bool {
        self.start < other.end && other.start < self.end
    }

    pub fn has(self, at: Tick) -> bool {
        self.start <= at && at < self.end
    }

    /// The part of it that is not over at `now`.
    pub(crate) fn from(self, now: Tick) -> Option<Window> {
        Window::new(self.start.max(now), self.end).ok()
    }
}

impl TryFrom<Bounds> for Window {
    type Error = EmptyWindow;
    fn try_from(bounds: Bounds) -> Result<Window, EmptyWindow> {
        Window::new(bounds.start, bounds.end)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            OPEN_END => write!(f, "from {} on", self.start),
            end => write!(f, "from {} to {end}", self.start),
        }
    }
}
