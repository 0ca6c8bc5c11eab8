//! The outbox in memory, with its counts. Pure: no disk, no network.
//!
//! The order of everything that waits is: the parcel that is on its way, then the spool, then the queue. What
//! the queue and the parcel take together is bounded; past the bound the oldest of the queue are given up.

use std::collections::VecDeque;

use estimand_api::instant::WRITABLE;
use estimand_api::write::{Content, Write};
use tokio::time::Instant;

use super::parcel::Parcel;
use super::spool;

/// A write that waits in memory.
#[derive(Debug)]
pub struct QueuedWrite {
    pub write: Write,
    /// How many bytes it takes, in memory or as JSON: never fewer.
    pub bytes: usize,
    pub since: Instant,
}

/// The counts since the start, and the present failures.
#[derive(Debug, Default)]
pub struct Counts {
    pub delivered: u64,
    pub refused: u64,
    pub dropped: u64,
    /// When deliveries began to fail, in microseconds since 1970.
    pub failing_since: Option<i64>,
    pub last_error: Option<String>,
    pub spool_error: Option<String>,
    /// True once the log has said that something is being dropped.
    pub drop_said: bool,
}

/// How soon writes leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// With the next batch, which goes out as soon as the one before it is answered.
    AtOnce,
    /// A moment later, if another batch has just left.
    WithOthers,
}

#[derive(Debug)]
pub struct State {
    pub max_bytes: usize,
    queue: VecDeque<QueuedWrite>,
    queue_bytes: usize,
    /// Something in the queue is not to wait for company.
    urgent: bool,
    pub parcel: Option<Parcel>,
    /// The content of the spool, as of the last time that it was touched.
    pub spool: spool::Content,
    /// How many are just being written to the spool.
    pub moving: usize,
    pub counts: Counts,
}

impl QueuedWrite {
    pub fn new(write: Write) -> Self {
        let bytes = weigh(&write);
        QueuedWrite { write, bytes, since: Instant::now() }
    }
}

impl State {
    pub fn new(max_bytes: usize, spool: spool::Content) -> Self {
        State {
            max_bytes,
            queue: VecDeque::new(),
            queue_bytes: 0,
            urgent: false,
            parcel: None,
            spool,
            moving: 0,
            counts: Counts::default(),
        }
    }

    pub fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    pub fn queue_is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Adds what is newest, then keeps the bound.
    pub fn push(&mut self, held: impl IntoIterator<Item = QueuedWrite>, urgency: Urgency) {
        self.urgent |= urgency == Urgency::AtOnce;
        for held in held {
            self.queue_bytes += held.bytes;
            self.queue.push_back(held);
        }
        self.keep_bound();
    }

    /// Gives back what was taken by [`take`](Self::take), then keeps the bound.
    pub fn put_back(&mut self, taken: Vec<QueuedWrite>) {
        for held in taken.into_iter().rev() {
            self.queue_bytes += held.bytes;
            self.queue.push_front(held);
        }
        self.keep_bound();
    }

    /// Takes the oldest, at least one if there is one.
    pub fn take(&mut self, max_items: usize, max_bytes: usize) -> Vec<QueuedWrite> {
        let mut bytes = 0;
        let fits = |held: &&QueuedWrite| {
            bytes += held.bytes;
            bytes <= max_bytes
        };
        let count = self.queue.iter().take(max_items).take_while(fits).count();
        let count = count.max(1).min(self.queue.len());
        let taken: Vec<QueuedWrite> = self.queue.drain(..count).collect();
        self.queue_bytes -= taken.iter().map(|held| held.bytes).sum::<usize>();
        self.urgent &= !self.queue.is_empty();
        // The memory that a large outage has needed is not kept for ever.
        if self.queue.is_empty() && self.queue.capacity() > 4_096 {
            self.queue = VecDeque::new();
        }
        taken
    }

    /// Since when the oldest waits of what would be lost with this process.
    pub fn exposed_since(&self) -> Option<Instant> {
        let parcel = self.parcel.as_ref().filter(|parcel| parcel.in_memory_alone());
        parcel.map(|parcel| parcel.since).or_else(|| self.queue.front().map(|held| held.since))
    }

    /// How many are not delivered yet.
    pub fn waiting(&self) -> usize {
        let (left, spooled) = self.parcel.as_ref().map_or((0, 0), |parcel| (parcel.len(), parcel.spooled));
        self.queue.len() + self.moving + self.spool.items.saturating_sub(spooled) + left
    }

    /// When the oldest that waits was collected, in microseconds since 1970.
    pub fn oldest(&self) -> Option<i64> {
        let parcel = self.parcel.as_ref().and_then(|parcel| parcel.oldest()?.collected_at);
        parcel.or(self.spool.oldest).or_else(|| self.queue.front()?.write.collected_at)
    }

    /// Moves the instants of all writes that are in memory alone.
    pub fn move_collected(&mut self, by: i64) {
        let parcel = self.parcel.as_mut().filter(|parcel| parcel.in_memory_alone());
        let sent = parcel.into_iter().flat_map(Parcel::writes_mut);
        let writes = sent.chain(self.queue.iter_mut().map(|held| &mut held.write));
        for at in writes.filter_map(|write| write.collected_at.as_mut()) {
            *at = at.saturating_add(by).clamp(WRITABLE.start, WRITABLE.end - 1);
        }
    }

    pub fn count_dropped(&mut self, dropped: usize, why: &str) {
        if dropped == 0 {
            return;
        }
        self.counts.dropped += dropped as u64;
        if !std::mem::replace(&mut self.counts.drop_said, true) {
            tracing::error!(dropped, why, "values are given up; more of this outage are only counted");
        }
    }

    fn keep_bound(&mut self) {
        let parcel = self.parcel.as_ref().map_or(0, |parcel| parcel.bytes);
        let mut dropped = 0;
        while self.queue_bytes + parcel > self.max_bytes
            && let Some(held) = self.queue.pop_front()
        {
            self.queue_bytes -= held.bytes;
            dropped += 1;
        }
        self.count_dropped(dropped, "the memory for what waits is full and the disk does not take it");
    }
}

/// At least as much as the write takes as JSON.
fn weigh(write: &Write) -> usize {
    let content = match &write.content {
        Content::Value { text, provenance, .. } => {
            text.len() + provenance.as_ref().map_or(0, |text| text.len())
        }
        Content::Failed => 0,
    };
    // The fields' names and everything of a fixed size.
    content + write.data_name.as_str().len() + write.node_name.as_str().len() + 224
}
