//! A simulated node: its processors are shared evenly by what runs on it.
//!
//! A task takes the processor time that it asked for; if all together ask for more than there is, each gets the same part
//! of its share. So the work done per unit of demand is one clock for all tasks of a node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use estimand_placement::Millis;
use estimand_placement::queue::TaskNumber;

#[derive(Debug, Default)]
pub(crate) struct SimulatedNode {
    /// Processor time in thousandths.
    cpu: u64,
    demand: u64,
    /// How far each task that is there since the beginning would be, in milliseconds.
    done: f64,
    since: Millis,
    /// The tasks, by how far that clock is when they are done. Not negative, so their bits are in their order.
    ends: BinaryHeap<Reverse<(u64, TaskNumber)>>,
    running: BTreeMap<TaskNumber, u64>,
    /// Tells an end that was foreseen before the last change.
    pub generation: u64,
    /// Thousandths of processors times milliseconds.
    pub busy: f64,
}

impl SimulatedNode {
    pub fn new(cpu: u64) -> SimulatedNode {
        SimulatedNode { cpu: cpu.max(1), ..SimulatedNode::default() }
    }

    fn rate(&self) -> f64 {
        if self.demand <= self.cpu { 1.0 } else { self.cpu as f64 / self.demand as f64 }
    }

    fn advance(&mut self, now: Millis) {
        let passed = (now - self.since).0 as f64;
        self.done += passed * self.rate();
        self.busy += passed * self.demand.min(self.cpu) as f64;
        self.since = now;
        self.generation += 1;
    }

    /// The pressure in thousandths that an agent would measure: what wants to run, by what can run at once.
    pub fn pressure(&self) -> u64 {
        self.demand * 1000 / self.cpu
    }

    pub fn start(&mut self, now: Millis, task: TaskNumber, demand: u64, work: Millis) {
        self.advance(now);
        self.demand += demand;
        self.running.insert(task, demand);
        self.ends.push(Reverse(((self.done + work.0 as f64).to_bits(), task)));
    }

    /// When the next task ends if nothing else happens.
    pub fn next_end(&self) -> Option<Millis> {
        let Reverse((end, _)) = self.ends.peek()?;
        let left = (f64::from_bits(*end) - self.done).max(0.0) / self.rate();
        Some(self.since + Millis(left.ceil() as u64))
    }

    /// Takes out a task that is done now.
    pub fn finish(&mut self, now: Millis) -> Option<TaskNumber> {
        self.advance(now);
        let Reverse((_, task)) = self.ends.pop()?;
        self.leave(task);
        Some(task)
    }

    fn leave(&mut self, task: TaskNumber) {
        self.demand -= self.running.remove(&task).unwrap_or(0);
        if self.running.is_empty() {
            // Nothing counts on that clock, and small numbers are exact.
            self.done = 0.0;
        }
    }

    /// Ends a task before it is done.
    pub fn stop(&mut self, now: Millis, task: TaskNumber) {
        self.advance(now);
        self.ends.retain(|Reverse((_, other))| *other != task);
        self.leave(task);
    }

    /// Ends everything at once.
    pub fn clear(&mut self, now: Millis) -> Vec<TaskNumber> {
        self.advance(now);
        self.ends.clear();
        (self.demand, self.done) = (0, 0.0);
        std::mem::take(&mut self.running).into_keys().collect()
    }
}
