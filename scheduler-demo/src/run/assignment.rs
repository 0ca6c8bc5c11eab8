//! The assignment of one node: its items, the parts written for it, and the meaning of its lines.
//!
//! Lines may be missed, and a line names only images done since the line before. The counts make up for that: a worker
//! does its part in order, so the done items are the first ones. Items that were taken back and given again are an
//! exception: it may have done them already. An item counts as done only when that is certain; a part is done when its
//! count says so.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::job::{Activity, Part, Progress};
use crate::plan::ItemId;

/// Of the names in a part: with quotes, commas and the rest they fit into a value.
const MAX_PART_BYTES: usize = 48 * 1024;

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgressReport {
    /// Items newly known to be done, in order.
    pub done: Vec<ItemId>,
    /// Time that it worked since the line before.
    pub seconds: f64,
    pub activity: Option<Activity>,
    /// True if it follows the newest part that was written for it.
    pub is_current: bool,
    pub fps: f64,
    pub problem: Option<String>,
}

/// A part as it was written.
#[derive(Debug)]
struct WrittenPart {
    revision: u64,
    items: Vec<ItemId>,
    /// The number of them that were not done then; true if the queue had more.
    left: usize,
    is_cut: bool,
}

#[derive(Debug, Default)]
pub struct Assignment {
    /// Items that it has not reported, in order.
    queue: Vec<ItemId>,
    reported: HashSet<ItemId>,
    /// The same in the order of its reports.
    did: Vec<ItemId>,
    /// Items that it had before and may have done.
    possibly_done: HashSet<ItemId>,
    /// The parts that it may follow, the newest last.
    parts: VecDeque<WrittenPart>,
    revision: u64,
    dirty: bool,
    /// Its last line, and the time of it by its own clock.
    last_line: Option<(f64, Progress)>,
}

impl Assignment {
    pub fn give(&mut self, items: &[ItemId]) {
        self.queue.extend(items);
        self.dirty = true;
    }

    pub fn take_back(&mut self, items: &[ItemId]) {
        let taken: HashSet<ItemId> = items.iter().copied().collect();
        let before = self.queue.len();
        self.queue.retain(|item| !taken.contains(item));
        self.dirty |= self.queue.len() < before;
        self.possibly_done.extend(taken);
    }

    /// Takes all its items away. The part that is still written for it is replaced when it reports again.
    pub fn lose(&mut self) {
        self.possibly_done.extend(self.queue.drain(..));
        self.dirty = true;
    }

    /// The number of items that it has not reported.
    pub fn left(&self) -> usize {
        self.queue.len()
    }

    /// The number of items that it has reported.
    pub fn reported(&self) -> usize {
        self.reported.len()
    }

    /// The part to write, if it has changed.
    pub fn part(&self, names: &[String]) -> Option<Part> {
        if !self.dirty && !self.is_running_short() {
            return None;
        }
        let (items, _) = self.compose(names);
        let images = items.iter().map(|item| names[*item as usize].clone()).collect();
        Some(Part { images, revision: self.revision + 1 })
    }

    /// Records that the part was written.
    pub fn mark_written(&mut self, names: &[String]) {
        let (items, left) = self.compose(names);
        self.revision += 1;
        let is_cut = left < self.queue.len();
        self.parts.push_back(WrittenPart { revision: self.revision, items, left, is_cut });
        self.dirty = false;
    }

    /// True if half of the open items of a shortened part are done.
    fn is_running_short(&self) -> bool {
        self.parts.back().filter(|part| part.is_cut).is_some_and(|part| {
            let left = part.items.iter().filter(|item| !self.reported.contains(item)).count();
            left <= part.left / 2
        })
    }

    /// As many items of the queue as a value holds, and their number. Done items come before them if there is room: a worker
    /// need not name those of its part in its lines.
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

    /// Interprets a line; none if it is older than the last one, or the same again.
    pub fn receive(
        &mut self,
        line: &Progress,
        said_at: f64,
        ids: &HashMap<String, ItemId>,
    ) -> Option<ProgressReport> {
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
            if self.reported.insert(*item) {
                done.push(*item);
            }
        }
        if let Some(revision) = line.revision {
            while self.parts.front().is_some_and(|part| part.revision < revision) {
                self.parts.pop_front();
            }
            for item in self.counted(line, revision) {
                self.reported.insert(item);
                done.push(item);
            }
        }
        self.did.extend(&done);
        let reported = &self.reported;
        self.queue.retain(|item| !reported.contains(item));
        let is_current = line.revision.unwrap_or(0) == self.revision && !self.dirty;
        let (activity, problem) = (Some(line.activity), line.problem.clone());
        Some(ProgressReport { done, seconds, activity, is_current, fps: line.fps, problem })
    }

    /// The items of a part that must be done for its counts to be right, besides those that were named.
    fn counted(&self, line: &Progress, revision: u64) -> Vec<ItemId> {
        let is_it = |part: &&WrittenPart| part.revision == revision && part.items.len() == line.of;
        let Some(part) = self.parts.front().filter(is_it) else { return Vec::new() };
        let unreported: Vec<ItemId> =
            part.items.iter().copied().filter(|item| !self.reported.contains(item)).collect();
        let left = line.of - line.done.min(line.of);
        let count = unreported.len().saturating_sub(left);
        if count == unreported.len() {
            return unreported;
        }
        // Suspects may be all that is done ahead of their turn; whatever else is done, all before it is done, too.
        let possibly_done = unreported.iter().filter(|item| self.possibly_done.contains(item)).count();
        let mut sure = count.saturating_sub(possibly_done);
        let is_done = |item: &ItemId| {
            let was_any_left = sure > 0;
            sure -= usize::from(was_any_left && !self.possibly_done.contains(item));
            was_any_left
        };
        unreported.into_iter().take_while(is_done).collect()
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

    struct AssignmentTest {
        assignment: Assignment,
        names: Vec<String>,
        ids: HashMap<String, ItemId>,
        clock: f64,
    }

    impl AssignmentTest {
        fn new(items: usize) -> Self {
            let names: Vec<String> = (0..items).map(|i| format!("{i}.jpg")).collect();
            let ids = names.iter().enumerate().map(|(i, name)| (name.clone(), i as ItemId)).collect();
            AssignmentTest { assignment: Assignment::default(), names, ids, clock: 0.0 }
        }

        fn write(&mut self) -> Option<Part> {
            let part = self.assignment.part(&self.names)?;
            self.assignment.mark_written(&self.names);
            Some(part)
        }

        fn receive(
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
            self.assignment.receive(&line, self.clock, &self.ids).unwrap().done
        }
    }

    #[test]
    fn missed_items_follow_from_counts() {
        let mut test = AssignmentTest::new(6);
        test.assignment.give(&[3, 1, 0, 5]);
        assert_eq!(test.write().unwrap().images, ["3.jpg", "1.jpg", "0.jpg", "5.jpg"]);
        // The line that named 3 was missed.
        assert_eq!(test.receive(1, 2, 4, &["1.jpg"], &[]), [1, 3]);
        assert_eq!(test.receive(1, 4, 4, &[], &[]), [0, 5]);
        assert_eq!(test.assignment.left(), 0);
    }

    #[test]
    fn a_line_about_an_older_part_counts_for_that_one() {
        let mut test = AssignmentTest::new(6);
        test.assignment.give(&[0, 1]);
        test.write();
        // A part of an earlier scheduler.
        assert_eq!(test.receive(0, 2, 2, &[], &[]), [0; 0]);
        test.assignment.give(&[2, 3]);
        test.write();
        assert_eq!(test.receive(1, 1, 2, &[], &[]), [0]);
        assert_eq!(test.receive(2, 3, 4, &[], &[]), [1, 2]);
        // Not one that is known.
        assert_eq!(test.receive(9, 4, 4, &[], &[]), [0; 0]);
    }

    #[test]
    fn an_item_given_again_is_done_when_the_counts_say_so() {
        let mut test = AssignmentTest::new(8);
        test.assignment.give(&[0, 1, 2]);
        test.write();
        test.assignment.take_back(&[1]);
        test.write();
        test.assignment.give(&[1]);
        test.write();
        // It did one of 0, 2 and 1, and 1 may be the one.
        assert_eq!(test.receive(3, 1, 3, &[], &[]), [0; 0]);
        assert_eq!(test.receive(3, 2, 3, &[], &[]), [0]);
        assert_eq!(test.receive(3, 3, 3, &[], &[]), [2, 1]);
        // A later item of the order shows that it is done.
        test.assignment.give(&[3, 4, 5]);
        test.write();
        test.assignment.lose();
        test.write();
        test.assignment.give(&[4, 6, 7]);
        test.write();
        assert_eq!(test.receive(6, 4, 6, &[], &[]), [0; 0]);
        assert_eq!(test.receive(6, 5, 6, &[], &[]), [4, 6]);
    }

    #[test]
    fn items_done_before_they_were_taken_away_are_reported() {
        let mut test = AssignmentTest::new(4);
        test.assignment.give(&[0, 1, 2]);
        test.write();
        test.assignment.take_back(&[0, 1]);
        test.write();
        assert_eq!(test.receive(2, 0, 1, &[], &["0.jpg"]), [0]);
        assert_eq!(test.receive(2, 1, 1, &["2.jpg"], &["0.jpg"]), [2]);
    }

    #[test]
    fn an_older_line_is_ignored_and_only_work_takes_time() {
        let mut test = AssignmentTest::new(4);
        test.assignment.give(&[0, 1]);
        test.write();
        test.receive(1, 1, 2, &[], &[]);
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
        assert_eq!(test.assignment.receive(&line, 0.5, &test.ids), None);
        assert_eq!(test.assignment.receive(&line, 3.5, &test.ids).unwrap().seconds, 2.5);
        assert_eq!(test.assignment.receive(&line, 3.5, &test.ids), None, "only its state changed");
        assert_eq!(test.assignment.receive(&line, 9.5, &test.ids).unwrap().seconds, 0.0);
    }

    #[test]
    fn a_large_part_is_written_in_pieces() {
        let mut test = AssignmentTest::new(0);
        test.names = (0..1_000).map(|i| format!("{i:0100}")).collect();
        test.ids = test.names.iter().enumerate().map(|(i, name)| (name.clone(), i as ItemId)).collect();
        let all: Vec<ItemId> = (0..1_000).collect();
        test.assignment.give(&all);
        let (mut done, mut parts) = (0, 0);
        while let Some(part) = test.write() {
            parts += 1;
            assert!(serde_json::to_string(&part).unwrap().len() < estimand_api::value::MAX_VALUE_BYTES);
            let (size, known) =
                (part.images.len(), part.images.partition_point(|name| *name < test.names[done]));
            assert_eq!(part.images[known..], test.names[done..done + size - known]);
            assert!(test.assignment.part(&test.names).is_none());
            let is_last = done + size - known == 1_000;
            let count = if is_last { size } else { known + (size - known) / 2 + 1 };
            done += test.receive(part.revision, count, size, &[], &[]).len();
        }
        assert!((3..10).contains(&parts), "{parts}");
        assert_eq!((done, test.assignment.left()), (1_000, 0));
    }
}
