//! One node's hands: what it has been given, what was written for it, and what its lines mean.
//!
//! Lines may be missed, and a line names only what was done since the one before. What is certain all the same follows
//! from counts: a worker goes through its part in order, so what is done of it is its beginning. The exception are
//! items that it had before and that were taken back: it may have done those already. Nothing is taken for done that
//! may not be, and all of a part is known to be done once its count says so.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::job::{Activity, Part, Progress};
use crate::plan::ItemId;

/// Of the names in a part: with quotes, commas and the rest they fit into a value.
const MAX_PART_BYTES: usize = 48 * 1024;

/// What a line means.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heard {
    /// What is newly known to be done, in order.
    pub done: Vec<ItemId>,
    /// How long it worked since the line before.
    pub seconds: f64,
    pub activity: Option<Activity>,
    /// Whether it goes by the newest part that it was written.
    pub is_current: bool,
    pub fps: f64,
    pub problem: Option<String>,
}

/// A part as it was written.
#[derive(Debug)]
struct Written {
    revision: u64,
    items: Vec<ItemId>,
    /// How many of them were to do then, and whether there were more.
    left: usize,
    is_cut: bool,
}

#[derive(Debug, Default)]
pub struct Hands {
    /// What it is to do and has not told of, in order.
    queue: Vec<ItemId>,
    told: HashSet<ItemId>,
    /// The same in the order in which it was heard of.
    did: Vec<ItemId>,
    /// What it had before and may have done.
    suspects: HashSet<ItemId>,
    /// The parts that it may go by, the newest last.
    parts: VecDeque<Written>,
    revision: u64,
    dirty: bool,
    /// What it said last, and when by its own clock.
    last_line: Option<(f64, Progress)>,
}

impl Hands {
    pub fn give(&mut self, items: &[ItemId]) {
        self.queue.extend(items);
        self.dirty = true;
    }

    pub fn take_back(&mut self, items: &[ItemId]) {
        let taken: HashSet<ItemId> = items.iter().copied().collect();
        let before = self.queue.len();
        self.queue.retain(|item| !taken.contains(item));
        self.dirty |= self.queue.len() < before;
        self.suspects.extend(taken);
    }

    /// It is to do nothing any more. What is still written for it is replaced when it is heard of again.
    pub fn lose(&mut self) {
        self.suspects.extend(self.queue.drain(..));
        self.dirty = true;
    }

    /// What it is to do and has not told of.
    pub fn left(&self) -> usize {
        self.queue.len()
    }

    /// How many items it has told of.
    pub fn told(&self) -> usize {
        self.told.len()
    }

    /// The part to write, if that is another one than before.
    pub fn part(&self, names: &[String]) -> Option<Part> {
        if !self.dirty && !self.is_running_short() {
            return None;
        }
        let (items, _) = self.compose(names);
        let images = items.iter().map(|item| names[*item as usize].clone()).collect();
        Some(Part { images, revision: self.revision + 1 })
    }

    /// The part was written.
    pub fn written(&mut self, names: &[String]) {
        let (items, left) = self.compose(names);
        self.revision += 1;
        let is_cut = left < self.queue.len();
        self.parts.push_back(Written { revision: self.revision, items, left, is_cut });
        self.dirty = false;
    }

    /// Half of what was left in a part that did not hold everything is done.
    fn is_running_short(&self) -> bool {
        self.parts.back().filter(|part| part.is_cut).is_some_and(|part| {
            let left = part.items.iter().filter(|item| !self.told.contains(item)).count();
            left <= part.left / 2
        })
    }

    /// As much of the queue as a value holds, and how much that is. Before it, if there is room, what is done: a worker
    /// need not name in its lines what it did of its part.
    fn compose(&self, names: &[String]) -> (Vec<ItemId>, usize) {
        let mut bytes = 0;
        let mut fits = |item: &&ItemId| {
            bytes += escaped_len(&names[**item as usize]) + 3;
            bytes <= MAX_PART_BYTES
        };
        let left: Vec<ItemId> = self.queue.iter().take_while(&mut fits).copied().collect();
        let count = left.len();
        let mut items: Vec<ItemId> = self.did.iter().rev().take_while(&mut fits).copied().collect();
        items.reverse();
        items.extend(left);
        (items, count)
    }

    /// Makes sense of a line; none if it is no news: an older one, or the same again.
    pub fn hear(&mut self, line: &Progress, said_at: f64, ids: &HashMap<String, ItemId>) -> Option<Heard> {
        let mut seconds = 0.0;
        if let Some((before, last)) = &self.last_line {
            if said_at < *before || (said_at == *before && line == last) {
                return None;
            }
            if last.activity == Activity::Working {
                seconds = said_at - before;
            }
        }
        self.last_line = Some((said_at, line.clone()));
        let mut done = Vec::new();
        for item in line.images.iter().chain(&line.extra).filter_map(|name| ids.get(name)) {
            if self.told.insert(*item) {
                done.push(*item);
            }
        }
        if let Some(revision) = line.revision {
            while self.parts.front().is_some_and(|part| part.revision < revision) {
                self.parts.pop_front();
            }
            for item in self.counted(line, revision) {
                self.told.insert(item);
                done.push(item);
            }
        }
        self.did.extend(&done);
        let told = &self.told;
        self.queue.retain(|item| !told.contains(item));
        let is_current = line.revision.unwrap_or(0) == self.revision && !self.dirty;
        let (activity, problem) = (Some(line.activity), line.problem.clone());
        Some(Heard { done, seconds, activity, is_current, fps: line.fps, problem })
    }

    /// What must be done of a part for its counts to be right, besides what was told.
    fn counted(&self, line: &Progress, revision: u64) -> Vec<ItemId> {
        let is_it = |part: &&Written| part.revision == revision && part.items.len() == line.of;
        let Some(part) = self.parts.front().filter(is_it) else { return Vec::new() };
        let untold: Vec<ItemId> =
            part.items.iter().copied().filter(|item| !self.told.contains(item)).collect();
        let left = line.of - line.done.min(line.of);
        let count = untold.len().saturating_sub(left);
        if count == untold.len() {
            return untold;
        }
        // Suspects may be all that is done ahead of their turn; whatever else is done, all before it is done, too.
        let suspects = untold.iter().filter(|item| self.suspects.contains(item)).count();
        let mut sure = count.saturating_sub(suspects);
        let is_done = |item: &ItemId| {
            let was_any_left = sure > 0;
            sure -= usize::from(was_any_left && !self.suspects.contains(item));
            was_any_left
        };
        untold.into_iter().take_while(is_done).collect()
    }
}

/// No shorter than it is in JSON between its quotes.
fn escaped_len(name: &str) -> usize {
    name.bytes().map(|byte| if matches!(byte, 0..0x20 | b'"' | b'\\') { 6 } else { 1 }).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct Bench {
        hands: Hands,
        names: Vec<String>,
        ids: HashMap<String, ItemId>,
        clock: f64,
    }

    impl Bench {
        fn new(items: usize) -> Self {
            let names: Vec<String> = (0..items).map(|i| format!("{i}.jpg")).collect();
            let ids = names.iter().enumerate().map(|(i, name)| (name.clone(), i as ItemId)).collect();
            Bench { hands: Hands::default(), names, ids, clock: 0.0 }
        }

        fn write(&mut self) -> Option<Part> {
            let part = self.hands.part(&self.names)?;
            self.hands.written(&self.names);
            Some(part)
        }

        fn hear(
            &mut self,
            revision: u64,
            done: usize,
            of: usize,
            images: &[&str],
            extra: &[&str],
        ) -> Vec<ItemId> {
            self.clock += 1.0;
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let activity = if done < of { Activity::Working } else { Activity::Waiting };
            let (images, extra) = (owned(images), owned(extra));
            let revision = Some(revision);
            let line = Progress { activity, revision, done, of, fps: 1.0, images, extra, problem: None };
            self.hands.hear(&line, self.clock, &self.ids).unwrap().done
        }
    }

    #[test]
    fn what_was_missed_follows_from_counts() {
        let mut bench = Bench::new(6);
        bench.hands.give(&[3, 1, 0, 5]);
        assert_eq!(bench.write().unwrap().images, ["3.jpg", "1.jpg", "0.jpg", "5.jpg"]);
        // The line that named 3 was missed.
        assert_eq!(bench.hear(1, 2, 4, &["1.jpg"], &[]), [1, 3]);
        assert_eq!(bench.hear(1, 4, 4, &[], &[]), [0, 5]);
        assert_eq!(bench.hands.left(), 0);
    }

    #[test]
    fn a_line_about_an_older_part_counts_for_that_one() {
        let mut bench = Bench::new(6);
        bench.hands.give(&[0, 1]);
        bench.write();
        // What an earlier scheduler wrote.
        assert_eq!(bench.hear(0, 2, 2, &[], &[]), [0; 0]);
        bench.hands.give(&[2, 3]);
        bench.write();
        assert_eq!(bench.hear(1, 1, 2, &[], &[]), [0]);
        assert_eq!(bench.hear(2, 3, 4, &[], &[]), [1, 2]);
        // Not one that is known.
        assert_eq!(bench.hear(9, 4, 4, &[], &[]), [0; 0]);
    }

    #[test]
    fn what_it_had_before_is_not_taken_for_undone_nor_for_done() {
        let mut bench = Bench::new(8);
        bench.hands.give(&[0, 1, 2]);
        bench.write();
        bench.hands.take_back(&[1]);
        bench.write();
        bench.hands.give(&[1]);
        bench.write();
        // It did one of 0, 2 and 1, and 1 may be the one.
        assert_eq!(bench.hear(3, 1, 3, &[], &[]), [0; 0]);
        assert_eq!(bench.hear(3, 2, 3, &[], &[]), [0]);
        assert_eq!(bench.hear(3, 3, 3, &[], &[]), [2, 1]);
        // Whatever comes after it in turn shows that it is done.
        bench.hands.give(&[3, 4, 5]);
        bench.write();
        bench.hands.lose();
        bench.write();
        bench.hands.give(&[4, 6, 7]);
        bench.write();
        assert_eq!(bench.hear(6, 4, 6, &[], &[]), [0; 0]);
        assert_eq!(bench.hear(6, 5, 6, &[], &[]), [4, 6]);
    }

    #[test]
    fn what_was_done_before_it_was_taken_away_is_heard_of() {
        let mut bench = Bench::new(4);
        bench.hands.give(&[0, 1, 2]);
        bench.write();
        bench.hands.take_back(&[0, 1]);
        bench.write();
        assert_eq!(bench.hear(2, 0, 1, &[], &["0.jpg"]), [0]);
        assert_eq!(bench.hear(2, 1, 1, &["2.jpg"], &["0.jpg"]), [2]);
    }

    #[test]
    fn an_older_line_is_no_news_and_only_work_takes_time() {
        let mut bench = Bench::new(4);
        bench.hands.give(&[0, 1]);
        bench.write();
        bench.hear(1, 1, 2, &[], &[]);
        let activity = Activity::Waiting;
        let line = Progress {
            activity,
            revision: Some(1),
            done: 2,
            of: 2,
            fps: 0.0,
            images: vec![],
            extra: vec![],
            problem: None,
        };
        assert_eq!(bench.hands.hear(&line, 0.5, &bench.ids), None);
        assert_eq!(bench.hands.hear(&line, 3.5, &bench.ids).unwrap().seconds, 2.5);
        assert_eq!(bench.hands.hear(&line, 3.5, &bench.ids), None, "only its state changed");
        assert_eq!(bench.hands.hear(&line, 9.5, &bench.ids).unwrap().seconds, 0.0);
    }

    #[test]
    fn a_part_that_is_too_large_comes_in_pieces() {
        let mut bench = Bench::new(0);
        bench.names = (0..1_000).map(|i| format!("{i:0100}")).collect();
        bench.ids = bench.names.iter().enumerate().map(|(i, name)| (name.clone(), i as ItemId)).collect();
        let all: Vec<ItemId> = (0..1_000).collect();
        bench.hands.give(&all);
        let (mut done, mut parts) = (0, 0);
        while let Some(part) = bench.write() {
            parts += 1;
            assert!(serde_json::to_string(&part).unwrap().len() < estimand_api::value::MAX_VALUE_BYTES);
            let (size, known) =
                (part.images.len(), part.images.partition_point(|name| *name < bench.names[done]));
            assert_eq!(part.images[known..], bench.names[done..done + size - known]);
            assert!(bench.hands.part(&bench.names).is_none());
            let is_last = done + size - known == 1_000;
            let count = if is_last { size } else { known + (size - known) / 2 + 1 };
            done += bench.hear(part.revision, count, size, &[], &[]).len();
        }
        assert!((3..10).contains(&parts), "{parts}");
        assert_eq!((done, bench.hands.left()), (1_000, 0));
    }
}
