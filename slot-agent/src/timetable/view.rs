//! A slot as others see it.

/// The name of a slot; the caller chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// The state of a slot. Instants are those of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No run is due; `None` if none ever will be, because the calendar has ended.
    Idle {
        next_in_us: Option<u64>,
    },
    /// A run is due and waits for its turn.
    Waiting {
        since_us: u64,
    },
    Running {
        since_us: u64,
    },
}

/// The state and the counts of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub state: State,
    /// Due times that were skipped, because the slot still ran or waited or because nobody looked at the clock.
    pub overruns: u64,
    pub runs: u64,
}
