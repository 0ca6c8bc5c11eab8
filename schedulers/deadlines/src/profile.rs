//! The profile of a pool: how many accelerators are free in each stretch of time.
//!
//! Stretches begin at marks, the last one has no end. Neighbours with as many free accelerators are one stretch.

/// A stretch of time with a number of accelerators: free ones in a profile, a job's width in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub from: u64,
    pub to: u64,
    pub width: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    marks: Vec<(u64, u32)>,
}

impl Profile {
    pub fn new(now: u64, free: u32) -> Profile {
        Profile { marks: vec![(now, free)] }
    }

    /// Forgets what was before.
    pub fn advance(&mut self, now: u64) {
        let first = self.marks.partition_point(|mark| mark.0 <= now).saturating_sub(1);
        self.marks.drain(..first);
        if let Some(mark) = self.marks.first_mut() {
            mark.0 = mark.0.max(now);
        }
    }

    /// The stretches until an instant, the last one first.
    pub fn back_from(&self, until: u64) -> impl Iterator<Item = Stretch> + Clone + '_ {
        let end = self.marks.partition_point(|mark| mark.0 < until);
        (0..end).rev().map(move |at| {
            let to = self.marks.get(at + 1).map_or(until, |next| next.0.min(until));
            Stretch { from: self.marks[at].0, to, width: self.marks[at].1 }
        })
    }

    /// Takes the accelerators of a plan. More than is free is as much as is free.
    pub fn take(&mut self, plan: &[Stretch]) {
        for stretch in plan {
            self.change(*stretch, |free| free.saturating_sub(stretch.width));
        }
    }

    /// Gives back what a plan took.
    pub fn give(&mut self, plan: &[Stretch]) {
        for stretch in plan {
            self.change(*stretch, |free| free + stretch.width);
        }
    }

    /// Adds so many free accelerators at all times.
    pub fn raise(&mut self, by: u32) {
        for mark in &mut self.marks {
            mark.1 += by;
        }
    }

    /// The profile with so many fewer free accelerators at all times, as far as there are any.
    pub fn without(&self, fewer: u32) -> Profile {
        Profile { marks: self.marks.iter().map(|mark| (mark.0, mark.1.saturating_sub(fewer))).collect() }
    }

    fn change(&mut self, stretch: Stretch, change: impl Fn(u32) -> u32) {
        let from = stretch.from.max(self.marks[0].0);
        if stretch.width == 0 || from >= stretch.to {
            return;
        }
        let first = self.cut(from);
        let end = self.cut(stretch.to);
        for mark in &mut self.marks[first..end] {
            mark.1 = change(mark.1);
        }
        for at in [end, first] {
            if at > 0 && at < self.marks.len() && self.marks[at].1 == self.marks[at - 1].1 {
                self.marks.remove(at);
            }
        }
    }

    fn cut(&mut self, at: u64) -> usize {
        match self.marks.binary_search_by_key(&at, |mark| mark.0) {
            Ok(found) => found,
            Err(next) => {
                let free = self.marks[next - 1].1;
                self.marks.insert(next, (at, free));
                next
            }
        }
    }
}
