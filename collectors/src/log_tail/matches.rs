//! The lines that matched.

use std::collections::VecDeque;

use super::pattern::{Match, Pattern};
use super::place::Tail;

/// The matches so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matches {
    /// The newest last; one more than is asked for, because the last may be taken back.
    pub matches: VecDeque<Match>,
    pub count: u64,
    most: usize,
}

impl Matches {
    pub(super) fn new(lines: usize) -> Self {
        Matches { matches: VecDeque::new(), count: 0, most: lines + 1 }
    }

    /// The newest, newest first.
    pub(super) fn last(&self, lines: usize) -> impl Iterator<Item = &Match> {
        self.matches.iter().rev().take(lines)
    }

    pub(super) fn line(&mut self, pattern: &Pattern, line: &[u8], at: Option<&str>) -> bool {
        let Some(one) = pattern.on(line, at) else { return false };
        self.push(one);
        true
    }

    pub(super) fn push(&mut self, one: Match) {
        self.count += 1;
        self.matches.push_back(one);
        if self.matches.len() > self.most {
            self.matches.pop_front();
        }
    }

    /// Forgets what a line gave that was not whole after all.
    pub(super) fn take_back(&mut self, tail: Option<Tail>) {
        if tail.and_then(|tail| tail.taken).is_some_and(|taken| taken.matched) {
            self.matches.pop_back();
            self.count = self.count.saturating_sub(1);
        }
    }
}
