//! The loop of a run: take an event, ask the policy, write the changed parts.
//!
//! Timeouts are in [`patience`], progress and outcome in [`outcome`]. Policy, members and records use the same numbers
//! for nodes, and each report of a worker reaches the policy before the next is taken.

mod outcome;
mod patience;

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::assignment::{Assignment, ProgressReport};
use super::record::{NodeRecord, RunEvent, RunEventKind};
use super::{Error, Options, RunProgress, WorkerState};
use crate::dispatch::{Dispatcher, Event, Parts};
use crate::job::{Activity, Job};
use crate::job_plan::JobPlan;
use crate::plan::{Action, ItemId, Policy, Problem};

/// Pause after a failed write, in seconds.
const RETRY: f64 = 1.0;
/// The shortest time between two reports of progress, in seconds.
const PROGRESS_EVERY: f64 = 0.1;

struct Member {
    assignment: Assignment,
    state: WorkerState,
    /// Time of its last line, and time of the last look-up.
    quiet_since: f64,
    looked_at: f64,
    fps: f64,
}

pub(super) struct Driver<'a, D, F> {
    job: &'a Job,
    job_plan: &'a JobPlan,
    dispatch: &'a mut D,
    options: &'a Options,
    on_progress: F,
    policy: Box<dyn Policy>,
    ids: HashMap<String, ItemId>,
    /// By the policy's numbers, as are the records.
    members: Vec<Member>,
    records: Vec<NodeRecord>,
    numbers: HashMap<String, usize>,
    events: Vec<RunEvent>,
    notes: Vec<String>,
    began: DateTime<Utc>,
    started_at: f64,
    /// Time at which the work began.
    work_at: Option<f64>,
    finished_at: Option<f64>,
    /// Time since which no worker works, and since which writes fail.
    idle_since: f64,
    mute_since: Option<f64>,
    /// Parts are not written before this time.
    write_at: f64,
    last_trouble: String,
    /// Time of the last report of progress.
    reported_at: f64,
}

impl<'a, D: Dispatcher, F: FnMut(&RunProgress)> Driver<'a, D, F> {
    pub fn new(
        job: &'a Job,
        job_plan: &'a JobPlan,
        dispatch: &'a mut D,
        options: &'a Options,
        on_progress: F,
    ) -> Result<Self, Error> {
        let now = dispatch.now();
        let names = job_plan.holdings.items();
        let ids = names.iter().enumerate().map(|(id, name)| (name.clone(), id as ItemId)).collect();
        let records = outcome::records(job_plan);
        let numbers = records.iter().enumerate().map(|(i, record)| (record.name.clone(), i)).collect();
        let members = records.iter().map(|_| Member::new(now)).collect();
        Ok(Driver {
            job,
            job_plan,
            dispatch,
            options,
            on_progress,
            policy: job_plan.policy()?,
            ids,
            members,
            records,
            numbers,
            events: Vec::new(),
            notes: job_plan.notes.clone(),
            began: Utc::now(),
            started_at: now,
            work_at: None,
            finished_at: None,
            idle_since: now,
            mute_since: None,
            write_at: now,
            last_trouble: "nothing".to_owned(),
            reported_at: now,
        })
    }

    /// Until every item is done.
    pub async fn drive(&mut self) -> Result<(), Error> {
        if self.job_plan.problem.total() == 0 {
            let now = self.dispatch.now();
            (self.work_at, self.finished_at) = (Some(now), Some(now));
            return Ok(());
        }
        self.dispatch.start(self.job).await?;
        self.started_at = self.dispatch.now();
        self.idle_since = self.started_at;
        self.members.iter_mut().for_each(|member| member.quiet_since = self.started_at);
        while self.finished_at.is_none() {
            self.write().await?;
            let until = self.next_deadline();
            if let Some(event) = self.dispatch.next(until).await? {
                self.handle(event);
            }
            // Also if events keep coming.
            if self.dispatch.now() >= until {
                self.pass().await?;
            }
            self.begin_together();
            if self.dispatch.now() - self.reported_at >= PROGRESS_EVERY {
                self.report_progress();
            }
        }
        self.report_progress();
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Line { node, said_at, progress } => {
                let Some(number) = self.number(&node) else { return };
                let Some(report) = self.members[number].assignment.receive(&progress, said_at, &self.ids)
                else {
                    return;
                };
                self.receive(number, &report);
            }
            Event::Trouble { node, why } => {
                if let Some(number) = self.numbers.get(&node).copied() {
                    self.lose(number, &why);
                }
            }
        }
    }

    /// The policy's number of a node; an unknown node takes part from now on.
    fn number(&mut self, node: &str) -> Option<usize> {
        if let Some(number) = self.numbers.get(node) {
            return Some(*number);
        }
        let now = self.dispatch.now();
        let capability = typical(&self.job_plan.problem);
        let (number, actions) = self.policy.joined(node, capability);
        if number != self.members.len() {
            return None;
        }
        self.numbers.insert(node.to_owned(), number);
        self.members.push(Member::new(now));
        self.records.push(NodeRecord {
            name: node.to_owned(),
            capability,
            state: "unknown".to_owned(),
            ..NodeRecord::empty()
        });
        self.note_event(number, RunEventKind::Joined, "");
        self.act(actions);
        Some(number)
    }

    fn receive(&mut self, number: usize, report: &ProgressReport) {
        let now = self.dispatch.now();
        let since = self.since_begin(now);
        self.members[number].quiet_since = now;
        self.members[number].fps = report.fps;
        if let Some(problem) = &report.problem {
            self.last_trouble = format!("{}: {problem}", self.records[number].name);
        }
        let is_ready = report.activity != Some(Activity::Starting);
        // Items done before the work began belong to an earlier job of the name, and took no time.
        let seconds = if self.work_at.is_some() { report.seconds } else { 0.0 };
        if !report.done.is_empty() || seconds > 0.0 {
            self.records[number].add(since, seconds, report.done.len() as u64);
            let actions = self.policy.done(number, &report.done, seconds);
            self.act(actions);
        }
        match self.members[number].state {
            WorkerState::Starting if is_ready => self.ready(number),
            // It must first have seen that its old part is not its own any more.
            WorkerState::Lost if is_ready && report.is_current => {
                if self.work_at.is_some() {
                    let record = &self.records[number];
                    let (same, actions) = self.policy.joined(&record.name, record.capability);
                    debug_assert_eq!(same, number, "a known name is that node again");
                    self.act(actions);
                }
                self.note_event(number, RunEventKind::Back, "");
                self.ready(number);
            }
            WorkerState::Ready | WorkerState::Working => {
                let is_working = report.activity == Some(Activity::Working);
                self.members[number].state =
                    if is_working { WorkerState::Working } else { WorkerState::Ready };
            }
            _ => {}
        }
    }

    fn ready(&mut self, number: usize) {
        self.members[number].state = WorkerState::Ready;
        if self.work_at.is_some() {
            let actions = self.policy.started(number);
            self.act(actions);
        }
    }

    /// Begins the work when no node with a part is missing.
    fn begin_together(&mut self) {
        if self.work_at.is_some() {
            return;
        }
        let state = |number: usize| self.members[number].state;
        let of_plan = 0..self.job_plan.plan.parts.len();
        let is_awaited = |number: usize| self.job_plan.plan.parts[number].target > 0;
        let missing =
            of_plan.clone().any(|number| is_awaited(number) && state(number) == WorkerState::Starting);
        let ready: Vec<usize> =
            (0..self.members.len()).filter(|number| state(*number) == WorkerState::Ready).collect();
        if ready.is_empty() || (missing && self.options.together) {
            return;
        }
        self.work_at = Some(self.dispatch.now());
        self.began = Utc::now();
        for number in ready {
            let actions = self.policy.started(number);
            self.act(actions);
        }
        // Only now, so that their items are divided among all workers that are ready.
        for number in 0..self.members.len() {
            if self.members[number].state == WorkerState::Lost {
                let actions = self.policy.lost(number);
                self.act(actions);
            }
        }
    }

    fn lose(&mut self, number: usize, why: &str) {
        if self.members[number].state == WorkerState::Lost {
            return;
        }
        self.last_trouble = format!("{}: {why}", self.records[number].name);
        self.members[number].state = WorkerState::Lost;
        self.members[number].fps = 0.0;
        self.members[number].assignment.lose();
        self.note_event(number, RunEventKind::Lost, why);
        if self.work_at.is_some() {
            let actions = self.policy.lost(number);
            self.act(actions);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Give { node, items } => self.members[node].assignment.give(&items),
                Action::TakeBack { node, items } => self.members[node].assignment.take_back(&items),
                Action::Finished => self.finished_at = Some(self.dispatch.now()),
            }
        }
    }

    /// Writes the changed parts. Failed writes are repeated for a while.
    async fn write(&mut self) -> Result<(), Error> {
        let now = self.dispatch.now();
        if now < self.write_at {
            return Ok(());
        }
        let names = self.job_plan.holdings.items();
        let mut parts: Parts = Vec::new();
        let mut changed = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            if let Some(part) = member.assignment.part(names) {
                parts.push((self.records[number].name.clone(), part));
                changed.push(number);
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        match self.dispatch.write(&parts).await {
            Ok(()) => {
                self.mute_since = None;
                for number in changed {
                    self.members[number].assignment.mark_written(names);
                }
                Ok(())
            }
            Err(error) => {
                let since = *self.mute_since.get_or_insert(now);
                let now = self.dispatch.now();
                if now - since > self.options.last_patience {
                    return Err(error.into());
                }
                self.write_at = now + RETRY;
                Ok(())
            }
        }
    }

    fn note_event(&mut self, number: usize, kind: RunEventKind, why: &str) {
        let at = self.since_begin(self.dispatch.now());
        self.idle_since = self.dispatch.now();
        let node = self.records[number].name.clone();
        self.events.push(RunEvent { at, node, kind, why: why.to_owned() });
    }

    fn since_begin(&self, now: f64) -> f64 {
        self.work_at.map_or(0.0, |begin| now - begin)
    }
}

impl Member {
    fn new(now: f64) -> Self {
        Member {
            assignment: Assignment::default(),
            state: WorkerState::Starting,
            quiet_since: now,
            looked_at: now,
            fps: 0.0,
        }
    }
}

/// The assumed capability of an unknown node: the mean of all that are above 0.
fn typical(problem: &Problem) -> f64 {
    let able: Vec<f64> = problem.weights().iter().copied().filter(|weight| *weight > 0.0).collect();
    able.iter().sum::<f64>() / able.len().max(1) as f64
}
