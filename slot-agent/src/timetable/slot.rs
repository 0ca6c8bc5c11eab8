//! One slot of a timetable: what it is doing, its next due time, and its counts.
//!
//! A slot knows nothing of the others: whether it is its turn is for `turns` to say. Due times that pass while it
//! waits or runs are counted when it is next touched, not when they pass, so a slot that hangs costs nothing.

use super::cadence::{Cadence, DueTime, Phase, Plan};
use super::clock::{Now, Step};
use super::turns::{LONG_US, Lane, Place};
use super::view::{Key, State, View};

#[derive(Debug)]
pub(super) struct Slot {
    plan: Plan,
    stage: Stage,
    /// When it fell due if it waits, else when it last started.
    anchor_us: u64,
    /// When its last run ended.
    ended_us: u64,
    /// The next due time: of an idle slot the one that it will run for, else the first that is neither run for nor
    /// counted yet. None for a gap that has not begun, and for a calendar that has ended.
    next: Option<DueTime>,
    /// The next step when the run ends.
    then: NextStep,
    /// The number of its last start among all starts.
    last_start: u64,
    was_long: bool,
    overruns: u64,
    runs: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle { due_us: Option<u64> },
    Waiting,
    Running,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    GoOn,
    /// Run once more at once.
    RunSoon,
    /// It was removed, and put again since: what runs is the old one.
    BeginAnew,
    /// It was removed.
    Go,
}

/// Where a slot is listed, apart from its name.
pub(super) enum Listing {
    Timer(u64),
    Lane(Lane, Place),
    Nowhere,
}

impl Slot {
    /// A slot whose first run is due, or waits for a time of its calendar. Times that passed while there was no slot are
    /// not made up for.
    pub(super) fn new(plan: Plan, now: Now) -> Slot {
        let mut slot = Slot {
            plan,
            stage: Stage::Waiting,
            anchor_us: now.mono_us,
            ended_us: 0,
            next: None,
            then: NextStep::GoOn,
            last_start: 0,
            was_long: false,
            overruns: 0,
            runs: 0,
        };
        if slot.plan.waits_for_calendar() {
            slot.next = slot.plan.calendar_time(now.wall_us);
            slot.set_timer(now);
        } else {
            slot.become_due(now);
        }
        slot
    }

    pub(super) fn listing(&self, key: Key) -> Listing {
        match self.stage {
            Stage::Idle { due_us: Some(due) } => Listing::Timer(due),
            Stage::Waiting => {
                let lane = match self.plan.takes_turn {
                    false => Lane::Free,
                    true if self.was_long => Lane::Long,
                    true => Lane::Quick,
                };
                Listing::Lane(lane, Place { due_us: self.anchor_us, last_start: self.last_start, key })
            }
            Stage::Idle { due_us: None } | Stage::Running => Listing::Nowhere,
        }
    }

    pub(super) fn is_on_wall_clock(&self) -> bool {
        self.plan.is_on_wall_clock()
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle { .. })
    }

    /// When the run that goes on began.
    pub(super) fn running_since(&self) -> Option<u64> {
        (self.stage == Stage::Running).then_some(self.anchor_us)
    }

    /// Its due time has come.
    pub(super) fn fall_due(&mut self, now: Now) {
        let Stage::Idle { due_us: Some(due) } = self.stage else { return };
        self.stage = Stage::Waiting;
        self.anchor_us = due;
        self.next = match (&self.plan.cadence, self.next) {
            (Cadence::Every { .. }, _) => self.plan.grid_time(due, due, now),
            (Cadence::Cron(_), Some(DueTime::Wall(at))) => self.plan.calendar_time(at),
            _ => None,
        };
    }

    /// Is due now, whatever its due times are.
    fn become_due(&mut self, now: Now) {
        self.stage = Stage::Waiting;
        self.anchor_us = now.mono_us;
        self.next = match self.plan.cadence {
            Cadence::Every { .. } => self.plan.grid_time(now.mono_us, now.mono_us, now),
            Cadence::Gap { .. } => None,
            Cadence::Cron(_) => self.next.or_else(|| self.plan.calendar_time(now.wall_us)),
        };
    }

    /// Runs once as soon as it can.
    pub(super) fn run_soon(&mut self, now: Now) {
        match (self.stage, self.then) {
            (Stage::Idle { .. }, _) => self.become_due(now),
            (Stage::Running, NextStep::GoOn) => self.then = NextStep::RunSoon,
            _ => {}
        }
    }

    /// It is its turn.
    pub(super) fn begin(&mut self, now: Now, number: u64) {
        // A due time of this very instant comes while it still waits.
        self.count_before(Now {
            mono_us: now.mono_us.saturating_add(1),
            wall_us: now.wall_us.saturating_add(1),
        });
        self.runs += 1;
        self.last_start = number;
        self.stage = Stage::Running;
        self.anchor_us = now.mono_us;
        if self.plan.phase == Phase::Aligned
            && let (Some(DueTime::Wall(next)), Some(DueTime::Wall(far_enough))) =
                (self.next, self.plan.grid_time(now.mono_us, now.mono_us, now))
        {
            // It started late. A point of the grid so soon after is left out.
            self.next = Some(DueTime::Wall(next.max(far_enough)));
        }
        if !self.plan.takes_turn {
            self.go_idle(now);
        }
    }

    /// The run has ended; false if that was the end of the slot.
    pub(super) fn end(&mut self, now: Now) -> bool {
        self.count_before(now);
        self.was_long = now.mono_us.saturating_sub(self.anchor_us) >= LONG_US;
        match std::mem::replace(&mut self.then, NextStep::GoOn) {
            NextStep::GoOn => self.go_idle(now),
            NextStep::RunSoon => {
                self.ended_us = now.mono_us;
                self.become_due(now);
            }
            NextStep::BeginAnew => {
                *self = Slot { last_start: self.last_start, ..Slot::new(self.plan.clone(), now) }
            }
            NextStep::Go => return false,
        }
        true
    }

    fn go_idle(&mut self, now: Now) {
        self.ended_us = now.mono_us;
        if let Cadence::Gap { gap_us } = self.plan.cadence {
            self.next = Some(DueTime::Mono(now.mono_us.saturating_add(gap_us)));
        }
        self.set_timer(now);
    }

    fn set_timer(&mut self, now: Now) {
        let due = self.next.map(|time| time.due(now).max(now.mono_us));
        self.stage = Stage::Idle { due_us: due };
    }

    /// It is to end with the run that goes on; false if it can go at once.
    pub(super) fn remove(&mut self) -> bool {
        self.then = NextStep::Go;
        self.stage == Stage::Running
    }

    /// Takes another plan. `latest_wall_us` is what the wall clock has shown already.
    pub(super) fn change(&mut self, plan: Plan, now: Now, latest_wall_us: i64) {
        if matches!(self.then, NextStep::Go | NextStep::BeginAnew) {
            self.plan = plan;
            self.begin_anew();
            return;
        }
        if plan.keeps_pace_of(&self.plan) {
            self.plan = plan;
            return;
        }
        self.count_before(now);
        let had_calendar = matches!(self.plan.cadence, Cadence::Cron(_));
        self.plan = plan;
        self.next = match self.plan.cadence {
            Cadence::Every { .. } => self.plan.grid_time(self.anchor_us, now.mono_us, now),
            Cadence::Gap { gap_us } => {
                self.is_idle().then(|| DueTime::Mono(self.ended_us.saturating_add(gap_us)))
            }
            Cadence::Cron(_) if had_calendar => self.plan.calendar_time(latest_wall_us),
            Cadence::Cron(_) => self.plan.calendar_time(now.wall_us),
        };
        if self.is_idle() {
            self.set_timer(now);
        }
    }

    /// The run that goes on is no longer this slot's, and counts for nothing.
    fn begin_anew(&mut self) {
        self.then = NextStep::BeginAnew;
        self.next = None;
        self.overruns = 0;
        self.runs = 0;
    }

    /// The wall clock was set.
    pub(super) fn step(&mut self, step: Step, now: Now) {
        if self.then == NextStep::BeginAnew {
            return;
        }
        self.count_before(step.before);
        match self.plan.cadence {
            Cadence::Every { .. } => {
                // Due times that an idle slot was stepped over count as come; a slot that waits or runs has enough to
                // do.
                let from_wall_us =
                    if self.is_idle() { step.before.wall_us.min(now.wall_us) } else { now.wall_us };
                self.next = self.plan.grid_time(self.anchor_us, now.mono_at(from_wall_us), now);
            }
            Cadence::Cron(_) if step.is_new_truth => self.next = self.plan.calendar_time(now.wall_us),
            Cadence::Cron(_) | Cadence::Gap { .. } => {}
        }
        if self.is_idle() {
            self.set_timer(now);
        }
    }

    /// Counts the due times that passed before the instant while it waited or ran.
    fn count_before(&mut self, instant: Now) {
        let (count, next) = self.passed_before(instant);
        self.overruns = self.overruns.saturating_add(count);
        self.next = next;
    }

    fn passed_before(&self, instant: Now) -> (u64, Option<DueTime>) {
        match self.next {
            Some(next) if !self.is_idle() => self.plan.skip(next, instant),
            next => (0, next),
        }
    }

    pub(super) fn view(&self, now: Now) -> View {
        let state = match self.stage {
            Stage::Idle { due_us } => {
                State::Idle { next_in_us: due_us.map(|due| due.saturating_sub(now.mono_us)) }
            }
            Stage::Waiting => State::Waiting { since_us: self.anchor_us },
            Stage::Running => State::Running { since_us: self.anchor_us },
        };
        View { state, overruns: self.overruns.saturating_add(self.passed_before(now).0), runs: self.runs }
    }
}
