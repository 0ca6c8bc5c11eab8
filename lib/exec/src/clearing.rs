//! The processes that runs leave behind, and their end.
//!
//! With cgroups one look at the launcher's own children serves all runs that have ended; only if there are others than
//! main processes, the cgroups are looked into. Without, the process table is scanned: a few
//! times a second while anything runs, and always before a killed run is reported or a cell is closed. A scan
//! serves all runs that wait for one.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::ExceededLimit;
use super::gauge::Gauge;
use super::launcher::{Run, State};
use super::orphans::{self, Owner};
use super::protocol::Reply;
use super::sweeps::FIRST_PAUSE;
use super::usage::{self, MemoryLook};

const LAST_PAUSE: Duration = Duration::from_millis(50);

impl State {
    /// SIGUSR1 to the main process of a run. Others of it may not know the signal, and would end by it.
    pub(super) fn checkpoint(&self, id: u64) {
        if let Some(run) = self.runs.get(&id) {
            self.signal_main(run.pid, Signal::USR1);
        }
    }

    /// SIGTERM to all processes of a run.
    pub(super) fn terminate(&mut self, id: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.condemned = true;
            self.signal_all(id, Signal::TERM);
        }
    }

    /// SIGKILL to all processes of a run. Its end is reported when it has come.
    pub(super) fn kill(&mut self, id: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.condemned = true;
        run.look_again = Instant::now();
        let (pid, cell) = (run.pid, run.cell);
        match self.cells.get_mut(&cell) {
            Some(cell) if cell.has_groups() => cell.kill(),
            _ => {
                orphans::kill_found(|| self.owned_by(id));
            }
        }
        // It may not have joined its group yet.
        self.signal_main(pid, Signal::KILL);
    }

    /// A main process's number is its own until it is reaped, and then it is no longer among the mains.
    fn signal_main(&self, pid: i32, signal: Signal) {
        if self.mains.contains_key(&pid) {
            orphans::signal(pid, signal);
        }
    }

    fn signal_all(&mut self, id: u64, signal: Signal) {
        let Some(run) = self.runs.get(&id) else { return };
        let in_cell = self.cells.get(&run.cell).filter(|cell| cell.has_groups()).map(|cell| cell.members());
        let members = in_cell.unwrap_or_else(|| self.owned_by(id));
        self.signal_main(run.pid, signal);
        for pid in members.into_iter().filter(|pid| *pid != run.pid) {
            orphans::signal(pid, signal);
        }
    }

    /// Kills all processes of a cell and removes it; reports when nothing is left.
    pub(super) fn close_cell(&mut self, id: u64) {
        match self.cells.get_mut(&id) {
            Some(cell) => {
                cell.closing = true;
                if let Some(run) = cell.run {
                    self.kill(run);
                }
            }
            None => self.reply(&Reply::CellClosed { cell: id }),
        }
    }

    /// When [`State::go_on`] has something to do, unless something happens before.
    pub fn goes_on_at(&self) -> Option<Instant> {
        let runs = self.runs.values().filter(|run| run.outcome.is_some() || run.child.is_some());
        let runs = runs.map(|run| run.look_again);
        let now = Instant::now();
        let closing = self.cells.values().any(|cell| cell.closing).then_some(now + FIRST_PAUSE);
        let ending = self.is_ending().then_some(now + LAST_PAUSE);
        let sweep = (self.sweeps.dirty && self.watches()).then_some(self.sweeps.next.min(self.sweeps.pulse));
        let leases = self.runs.values().filter(|run| !run.condemned).filter_map(|run| run.until);
        let looks = self.runs.values().filter(|run| run.outcome.is_none());
        let looks = looks.flat_map(|run| {
            let gauge = run.gauge.as_ref().map(Gauge::next_look);
            run.memory.next_look().into_iter().chain(gauge)
        });
        runs.chain(leases).chain(looks).chain(closing).chain(ending).chain(sweep).min()
    }

    /// True if the process table has to be looked at from time to time: no cgroup bounds the processes of some run,
    /// or there are processes of no known run.
    fn watches(&self) -> bool {
        self.must_scan() || self.cells.values().any(|cell| cell.watched_processes.is_some())
    }

    fn must_scan(&self) -> bool {
        (self.runs.is_empty() && !self.childless) || self.cells.values().any(|cell| !cell.has_groups())
    }

    /// Goes on with the runs and cells that are being ended.
    pub fn go_on(&mut self, now: Instant) {
        self.confirm_due(now);
        self.look_at_memory(now);
        self.look_at_gauges(now);
        self.end_leases(now);
        let due: Vec<u64> = self
            .runs
            .iter()
            .filter(|(_, run)| run.outcome.is_some() && run.look_again <= now)
            .map(|(id, _)| *id)
            .collect();
        let (mut to_find, mut empty) = (HashSet::new(), Vec::new());
        let nothing_left = !due.is_empty() && self.has_only_mains();
        for id in due {
            let run = &self.runs[&id];
            let (cell, condemned) = (run.cell, run.condemned);
            match self.cells.get_mut(&cell) {
                Some(cell) if cell.has_groups() => {
                    if nothing_left || cell.is_empty() {
                        empty.push(id);
                    } else {
                        cell.kill();
                        self.look_again(id, now);
                    }
                }
                _ if condemned && !self.childless => {
                    to_find.insert(id);
                }
                _ => self.finish(id),
            }
        }
        self.finish_emptied(&empty, nothing_left, now);
        let clean = self.sweep_if_due(now, &to_find);
        self.close_cells(clean);
    }

    /// One look for what has left its cell serves all runs whose cells are empty.
    fn finish_emptied(&mut self, runs: &[u64], nothing_left: bool, now: Instant) {
        let clean = runs.is_empty() || nothing_left || !self.kill_strays();
        for id in runs {
            match clean {
                true => self.finish(*id),
                false => self.look_again(*id, now),
            }
        }
    }

    /// Ends the runs whose lease has not been renewed. The agent cannot while it is stopped.
    fn end_leases(&mut self, now: Instant) {
        let expired = |run: &Run| !run.condemned && run.until.is_some_and(|until| until <= now);
        let expired = self.runs.iter().filter(|(_, run)| expired(run)).map(|(id, _)| *id);
        for id in expired.collect::<Vec<_>>() {
            self.kill(id);
        }
    }

    fn confirm_due(&mut self, now: Instant) {
        let waiting = self.runs.iter().filter(|(_, run)| run.child.is_some() && run.look_again <= now);
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.confirm(id, false);
            self.look_again(id, now);
        }
    }

    fn look_at_memory(&mut self, now: Instant) {
        for run in self.runs.values_mut().filter(|run| run.outcome.is_none()) {
            if run.memory.next_look().is_some_and(|at| at <= now) {
                run.memory.look(run.pid, now);
            }
        }
    }

    /// Looks at the memory of all processes of the runs whose turn it is.
    fn look_at_gauges(&mut self, now: Instant) {
        let is_due = |run: &Run| {
            run.outcome.is_none() && run.gauge.as_ref().is_some_and(|gauge| gauge.next_look() <= now)
        };
        let due: Vec<u64> = self.runs.iter().filter(|(_, run)| is_due(run)).map(|(id, _)| *id).collect();
        for id in due {
            let begun = Instant::now();
            let look = self.memory_of(id);
            if let Some(gauge) = self.runs.get_mut(&id).and_then(|run| run.gauge.as_mut()) {
                gauge.take(look, begun, Instant::now());
            }
        }
    }

    fn memory_of(&self, id: u64) -> Option<MemoryLook> {
        let run = self.runs.get(&id)?;
        let cell = self.cells.get(&run.cell)?;
        // A child has the launcher's memory until its program is executed.
        if run.child.is_some() {
            return None;
        }
        cell.memory().or_else(|| {
            let pids = if cell.has_groups() { cell.members() } else { self.owned_by(id) };
            usage::memory_of(pids)
        })
    }

    fn look_again(&mut self, id: u64, now: Instant) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.look_again = now + run.pause;
            run.pause = (run.pause * 2).min(LAST_PAUSE);
        }
    }

    /// Returns true if every process is of a run, as far as is known now.
    fn sweep_if_due(&mut self, now: Instant, to_find: &HashSet<u64>) -> bool {
        if self.childless && self.runs.is_empty() {
            self.sweeps.dirty = false;
        }
        if !self.sweeps.dirty {
            return true;
        }
        if self.watches() {
            self.sweeps.feel_pulse(now);
        }
        let waiting = self.is_ending()
            || self.cells.values().any(|cell| cell.closing && cell.run.is_none() && !cell.has_groups());
        let on_time = self.watches() && self.sweeps.next <= now;
        if to_find.is_empty() && !on_time && !(waiting && self.sweeps.again <= now) {
            return false;
        }
        self.count_in_groups();
        if to_find.is_empty() && !waiting && !self.must_scan() {
            self.sweeps.done(now, self.runs.is_empty());
            return false;
        }
        let counts = self.sweep(to_find);
        let strays = counts.get(&Owner::Stray).copied().unwrap_or(0);
        for id in to_find {
            if strays == 0 && !counts.contains_key(&Owner::Run(*id)) {
                self.finish(*id);
            } else {
                self.look_again(*id, Instant::now() + now.elapsed());
            }
        }
        self.sweeps.done(now, strays == 0 && self.runs.is_empty());
        strays == 0
    }

    /// Kills the processes of these runs and of none, and every run that has too many. Returns the number of
    /// processes by owner.
    fn sweep(&mut self, kill: &HashSet<u64>) -> HashMap<Owner, u64> {
        let mut counts = HashMap::new();
        let mut first = true;
        orphans::kill_found(|| {
            let owned = self.owned();
            if std::mem::take(&mut first) {
                for (_, owner) in &owned {
                    *counts.entry(*owner).or_insert(0) += 1;
                }
            }
            let condemned = |owner: &Owner| match owner {
                Owner::Run(run) => kill.contains(run),
                Owner::Stray => true,
            };
            owned.iter().filter(|(_, owner)| condemned(owner)).map(|(pid, _)| *pid).collect()
        });
        for (id, count) in counts.iter().filter_map(|(owner, count)| match owner {
            Owner::Run(id) => Some((*id, *count)),
            Owner::Stray => None,
        }) {
            self.hold_to_processes(id, count);
        }
        counts
    }

    fn hold_to_processes(&mut self, id: u64, count: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let most = self.cells.get(&run.cell).and_then(|cell| cell.watched_processes);
        if run.exceeded.is_none() && most.is_some_and(|most| count > most) {
            run.exceeded = Some(ExceededLimit::Processes);
            self.kill(id);
        }
    }

    /// Counts the processes of runs in groups that do not count them.
    fn count_in_groups(&mut self) {
        let watched =
            self.cells.values().filter(|cell| cell.has_groups() && cell.watched_processes.is_some());
        let counts: Vec<(u64, u64)> =
            watched.filter_map(|cell| Some((cell.run?, cell.members().len() as u64))).collect();
        for (id, count) in counts {
            self.hold_to_processes(id, count);
        }
    }

    fn owned_by(&self, id: u64) -> Vec<i32> {
        self.owned().into_iter().filter(|(_, owner)| *owner == Owner::Run(id)).map(|(pid, _)| pid).collect()
    }

    /// All processes below the launcher, with their owners.
    fn owned(&self) -> Vec<(i32, Owner)> {
        let sessions = self.runs.iter().map(|(id, run)| (run.pid, *id)).collect();
        orphans::owners(&orphans::scan(), self.pid.as_raw_pid(), &self.mains, &sessions, |pid| {
            self.run_of(pid)
        })
    }

    fn close_cells(&mut self, clean: bool) {
        let closing: Vec<u64> = self
            .cells
            .iter_mut()
            .filter_map(|(id, cell)| {
                if !cell.closing || cell.run.is_some() {
                    return None;
                }
                if cell.has_groups() {
                    if !cell.is_empty() {
                        cell.kill();
                    }
                    return cell.remove().then_some(*id);
                }
                clean.then_some(*id)
            })
            .collect();
        for id in closing {
            self.cells.remove(&id);
            self.reply(&Reply::CellClosed { cell: id });
        }
    }
}
