//! A timetable, written again without any cleverness: time goes by in steps of [`QUANTUM`], and at each of
//! them every slot is asked whether it has a due time right there. Nothing is computed ahead, and nothing is sorted
//! into queues.

use std::collections::BTreeMap;

pub const QUANTUM: u64 = 50_000;
const LONG: u64 = 1_000_000;
const CATCHES_UP: i64 = 600_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Staggered {
        interval: u64,
        offset: u64,
    },
    Aligned {
        interval: u64,
    },
    Gap {
        gap: u64,
    },
    /// Each multiple of the period on the wall clock.
    Calendar {
        period: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotActivity {
    Idle,
    Waiting,
    Running,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    RunSoon,
    Anew,
    Go,
}

#[derive(Debug, Clone)]
pub struct ModelSlot {
    pace: Pace,
    takes_turn: bool,
    pub doing: SlotActivity,
    /// When it fell due or last started.
    pub anchor: u64,
    ended: u64,
    /// Points of a staggered grid before this are none of its due times.
    from: u64,
    /// Up to here the times of its calendar are dealt with.
    through: i64,
    /// A due time of this instant that a run would make an overrun, unless the run ends right now.
    tick_now: bool,
    then: Then,
    last_start: u64,
    was_long: bool,
    in_long_turn: bool,
    pub overruns: u64,
    pub runs: u64,
}

pub struct Model {
    pub mono: u64,
    pub wall: i64,
    latest_wall: i64,
    turns: usize,
    long_turns: usize,
    starts: u64,
    pub slots: BTreeMap<u64, ModelSlot>,
}

fn half(interval: u64) -> u64 {
    interval.div_ceil(2)
}

fn is_multiple(wall: i64, interval: u64) -> bool {
    wall.rem_euclid(interval as i64) == 0
}

impl ModelSlot {
    fn has_tick(&self, mono: u64, wall: i64) -> bool {
        match self.pace {
            Pace::Staggered { interval, offset } => mono % interval == offset % interval && mono >= self.from,
            Pace::Aligned { interval } => is_multiple(wall, interval) && mono >= self.anchor + half(interval),
            Pace::Gap { gap } => self.doing == SlotActivity::Idle && mono >= self.ended + gap,
            Pace::Calendar { period } => is_multiple(wall, period) && wall > self.through,
        }
    }

    fn look(&mut self, mono: u64, wall: i64) {
        self.tick_now = false;
        if self.then != Then::Anew && self.has_tick(mono, wall) {
            match self.doing {
                SlotActivity::Idle => self.wait(mono),
                SlotActivity::Waiting | SlotActivity::Running => self.tick_now = true,
            }
        }
        self.through = self.through.max(wall);
    }

    fn wait(&mut self, mono: u64) {
        self.doing = SlotActivity::Waiting;
        self.anchor = mono;
    }

    fn due_out_of_turn(&mut self, mono: u64) {
        self.wait(mono);
        self.tick_now = false;
        if let Pace::Staggered { interval, .. } = self.pace {
            self.from = mono + half(interval);
        }
    }

    pub fn has_calendar(&self) -> bool {
        matches!(self.pace, Pace::Calendar { .. })
    }

    pub fn is_removed(&self) -> bool {
        self.then == Then::Go
    }

    fn let_tick_pass(&mut self) {
        self.overruns += u64::from(std::mem::take(&mut self.tick_now));
    }

    fn is_aged(&self, mono: u64) -> bool {
        mono - self.anchor >= LONG
    }
}

impl Model {
    pub fn new(turns: usize, long_turns: usize, mono: u64, wall: i64) -> Model {
        Model { mono, wall, latest_wall: wall, turns, long_turns, starts: 0, slots: BTreeMap::new() }
    }

    pub fn pass_quantum(&mut self) {
        self.mono += QUANTUM;
        self.wall += QUANTUM as i64;
        self.latest_wall = self.latest_wall.max(self.wall);
        for slot in self.slots.values_mut() {
            slot.let_tick_pass();
            slot.look(self.mono, self.wall);
        }
    }

    pub fn step(&mut self, by: i64) {
        let before = self.wall;
        self.wall += by;
        let (mono, wall) = (self.mono, self.wall);
        let is_new_truth = self.latest_wall - wall > CATCHES_UP;
        self.latest_wall = if is_new_truth { wall } else { self.latest_wall.max(wall) };
        for slot in self.slots.values_mut() {
            match slot.pace {
                Pace::Aligned { interval } => {
                    // Has the clock stepped over a multiple, at which the slot might have run again?
                    let passed = (before.min(wall)..=wall).step_by(QUANTUM as usize).any(|at| {
                        let since_then = (wall - at) as u64;
                        is_multiple(at, interval) && mono >= slot.anchor + half(interval) + since_then
                    });
                    slot.tick_now = false;
                    match slot.doing {
                        SlotActivity::Idle if passed => slot.wait(mono),
                        SlotActivity::Idle => {}
                        _ => slot.tick_now = slot.then != Then::Anew && slot.has_tick(mono, wall),
                    }
                }
                Pace::Calendar { period } => {
                    if std::mem::take(&mut slot.tick_now) {
                        slot.through = before - 1;
                    }
                    if is_new_truth {
                        slot.through = wall;
                    }
                    let mut at = slot.through + 1;
                    while at <= wall && slot.then != Then::Anew {
                        if is_multiple(at, period) {
                            slot.let_tick_pass();
                            match slot.doing {
                                SlotActivity::Idle => slot.wait(mono),
                                _ => slot.tick_now = true,
                            }
                        }
                        at += 1;
                        at += (period as i64 - at.rem_euclid(period as i64)) % period as i64;
                    }
                    let is_right_now = is_multiple(wall, period);
                    if !is_right_now {
                        slot.let_tick_pass();
                    }
                    slot.through = slot.through.max(wall);
                }
                Pace::Staggered { .. } | Pace::Gap { .. } => {}
            }
        }
    }

    pub fn put(&mut self, key: u64, pace: Pace, takes_turn: bool) {
        let (mono, wall, latest) = (self.mono, self.wall, self.latest_wall);
        let Some(slot) = self.slots.get_mut(&key) else {
            self.slots.insert(key, self.fresh(pace, takes_turn));
            return;
        };
        slot.takes_turn = takes_turn;
        if matches!(slot.then, Then::Go | Then::Anew) {
            (slot.then, slot.pace) = (Then::Anew, pace);
            (slot.overruns, slot.runs, slot.tick_now) = (0, 0, false);
            return;
        }
        if slot.pace == pace {
            return;
        }
        let had_calendar = slot.has_calendar();
        slot.pace = pace;
        slot.tick_now = false;
        match pace {
            Pace::Staggered { interval, .. } => slot.from = slot.anchor + half(interval),
            Pace::Calendar { .. } => slot.through = if had_calendar { latest } else { wall },
            Pace::Aligned { .. } | Pace::Gap { .. } => {}
        }
        slot.look(mono, wall);
    }

    fn fresh(&self, pace: Pace, takes_turn: bool) -> ModelSlot {
        let mut slot = ModelSlot {
            pace,
            takes_turn,
            doing: SlotActivity::Waiting,
            anchor: self.mono,
            ended: 0,
            from: 0,
            through: self.wall,
            tick_now: false,
            then: Then::GoOn,
            last_start: 0,
            was_long: false,
            in_long_turn: false,
            overruns: 0,
            runs: 0,
        };
        slot.due_out_of_turn(self.mono);
        slot
    }

    pub fn run_soon(&mut self, key: u64) {
        let mono = self.mono;
        match self.slots.get_mut(&key) {
            Some(slot) if slot.doing == SlotActivity::Idle => slot.due_out_of_turn(mono),
            Some(slot) if slot.doing == SlotActivity::Running && slot.then == Then::GoOn => {
                slot.then = Then::RunSoon;
            }
            _ => {}
        }
    }

    pub fn remove(&mut self, key: u64) {
        let is_running = self.slots.get(&key).is_some_and(|slot| slot.doing == SlotActivity::Running);
        match self.slots.get_mut(&key) {
            Some(slot) if is_running => slot.then = Then::Go,
            _ => drop(self.slots.remove(&key)),
        }
    }

    pub fn ended(&mut self, key: u64) {
        let mono = self.mono;
        let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.doing == SlotActivity::Running) else {
            return;
        };
        slot.was_long = slot.is_aged(mono);
        slot.ended = mono;
        slot.in_long_turn = false;
        match std::mem::replace(&mut slot.then, Then::GoOn) {
            Then::GoOn => {
                slot.doing = SlotActivity::Idle;
                if std::mem::take(&mut slot.tick_now) {
                    slot.wait(mono);
                }
            }
            Then::RunSoon => {
                let tick_now = slot.tick_now && slot.has_calendar();
                slot.due_out_of_turn(mono);
                slot.tick_now = tick_now;
            }
            Then::Anew => {
                let (last_start, pace, takes_turn) = (slot.last_start, slot.pace, slot.takes_turn);
                let fresh = ModelSlot { last_start, ..self.fresh(pace, takes_turn) };
                self.slots.insert(key, fresh);
            }
            Then::Go => drop(self.slots.remove(&key)),
        }
    }

    /// Those that are to start now: each with when it fell due.
    pub fn start(&mut self) -> Vec<(u64, u64)> {
        let mono = self.mono;
        let mut aged: Vec<(u64, u64)> = self
            .slots
            .iter()
            .filter(|(_, slot)| {
                slot.doing == SlotActivity::Running && !slot.in_long_turn && slot.is_aged(mono)
            })
            .map(|(key, slot)| (slot.anchor, *key))
            .collect();
        aged.sort_unstable();
        for (_, key) in aged {
            let has_room = self.held(true) < self.long_turns;
            self.slots.entry(key).and_modify(|slot| slot.in_long_turn = has_room);
        }
        let mut waiting: Vec<(u64, u64, u64)> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.doing == SlotActivity::Waiting)
            .map(|(key, slot)| (slot.anchor, slot.last_start, *key))
            .collect();
        waiting.sort_unstable();
        let mut started = Vec::new();
        for (due, _, key) in waiting {
            let slot = &self.slots[&key];
            let wants_long = slot.was_long && self.long_turns > 0;
            let most = if wants_long { self.long_turns } else { self.turns };
            if slot.takes_turn && self.held(wants_long) >= most {
                continue;
            }
            self.starts += 1;
            let starts = self.starts;
            self.slots.entry(key).and_modify(|slot| {
                slot.let_tick_pass();
                slot.runs += 1;
                slot.last_start = starts;
                slot.anchor = mono;
                slot.in_long_turn = wants_long && slot.takes_turn;
                slot.doing = if slot.takes_turn { SlotActivity::Running } else { SlotActivity::Idle };
                slot.ended = mono;
            });
            started.push((key, due));
        }
        started
    }

    pub fn held(&self, long: bool) -> usize {
        self.slots.values().filter(|s| s.doing == SlotActivity::Running && s.in_long_turn == long).count()
    }

    /// True if a slot waits although a turn is left.
    pub fn someone_waits_in_vain(&self) -> bool {
        self.slots.values().filter(|slot| slot.doing == SlotActivity::Waiting).any(|slot| {
            match slot.was_long && self.long_turns > 0 {
                _ if !slot.takes_turn => true,
                true => self.held(true) < self.long_turns,
                false => self.held(false) < self.turns,
            }
        })
    }
}
