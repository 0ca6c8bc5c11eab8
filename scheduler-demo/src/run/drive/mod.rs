//! The loop: an event, what the policy says to it, the parts that are other ones then.
//!
//! Who is waited for how long is [`patience`]'s, what comes of a run [`outcome`]'s business. Policy, members and lanes
//! go by the same numbers, and every word of a worker reaches the policy before the next is heard.

mod outcome;
mod patience;

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::hands::{Hands, Heard};
use super::record::{Happening, Lane, What};
use super::{Error, Now, Options, Standing};
use crate::dispatch::{Dispatch, Event, Parts};
use crate::job::{Activity, Job};
use crate::plan::{Action, ItemId, Policy, Problem};
use crate::planned::Planned;

/// After the plane did not answer.
const RETRY: f64 = 1.0;
/// Whoever looks on sees no more than this, in seconds.
const TELL_EVERY: f64 = 0.1;

struct Member {
    hands: Hands,
    standing: Standing,
    /// Since when nothing was heard of it, and when it was last looked at.
    quiet_since: f64,
    looked_at: f64,
    fps: f64,
}

pub(super) struct Driver<'a, D, F> {
    job: &'a Job,
    planned: &'a Planned,
    dispatch: &'a mut D,
    options: &'a Options,
    look: F,
    policy: Box<dyn Policy>,
    ids: HashMap<String, ItemId>,
    /// By the policy's numbers, as are the lanes.
    members: Vec<Member>,
    lanes: Vec<Lane>,
    numbers: HashMap<String, usize>,
    happenings: Vec<Happening>,
    notes: Vec<String>,
    began: DateTime<Utc>,
    started_at: f64,
    /// When the work began.
    work_at: Option<f64>,
    finished_at: Option<f64>,
    /// Since when nobody works, and since when nothing can be written.
    idle_since: f64,
    mute_since: Option<f64>,
    /// Parts are not written before that.
    write_at: f64,
    last_trouble: String,
    /// When whoever looks on was last told.
    told_at: f64,
}

impl<'a, D: Dispatch, F: FnMut(&Now)> Driver<'a, D, F> {
    pub fn new(
        job: &'a Job,
        planned: &'a Planned,
        dispatch: &'a mut D,
        options: &'a Options,
        look: F,
    ) -> Result<Self, Error> {
        let now = dispatch.now();
        let names = planned.holdings.items();
        let ids = names.iter().enumerate().map(|(id, name)| (name.clone(), id as ItemId)).collect();
        let lanes = outcome::lanes(planned);
        let numbers = lanes.iter().enumerate().map(|(i, lane)| (lane.name.clone(), i)).collect();
        let members = lanes.iter().map(|_| Member::new(now)).collect();
        Ok(Driver {
            job,
            planned,
            dispatch,
            options,
            look,
            policy: planned.policy()?,
            ids,
            members,
            lanes,
            numbers,
            happenings: Vec::new(),
            notes: planned.notes.clone(),
            began: Utc::now(),
            started_at: now,
            work_at: None,
            finished_at: None,
            idle_since: now,
            mute_since: None,
            write_at: now,
            last_trouble: "nothing".to_owned(),
            told_at: now,
        })
    }

    /// Until every item is done.
    pub async fn drive(&mut self) -> Result<(), Error> {
        if self.planned.problem.total() == 0 {
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
                self.happen(event);
            }
            // However much others have to say.
            if self.dispatch.now() >= until {
                self.pass().await?;
            }
            self.begin_together();
            if self.dispatch.now() - self.told_at >= TELL_EVERY {
                self.tell();
            }
        }
        self.tell();
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Line { node, said_at, progress } => {
                let Some(number) = self.number(&node) else { return };
                let Some(heard) = self.members[number].hands.hear(&progress, said_at, &self.ids) else {
                    return;
                };
                self.heard(number, &heard);
            }
            Event::Trouble { node, why } => {
                if let Some(number) = self.numbers.get(&node).copied() {
                    self.lose(number, &why);
                }
            }
        }
    }

    /// The policy's number of a node; one that nothing is known of takes part from now on.
    fn number(&mut self, node: &str) -> Option<usize> {
        if let Some(number) = self.numbers.get(node) {
            return Some(*number);
        }
        let now = self.dispatch.now();
        let capability = typical(&self.planned.problem);
        let (number, actions) = self.policy.joined(node, capability);
        if number != self.members.len() {
            return None;
        }
        self.numbers.insert(node.to_owned(), number);
        self.members.push(Member::new(now));
        self.lanes.push(Lane {
            name: node.to_owned(),
            capability,
            state: "unknown".to_owned(),
            ..Lane::empty()
        });
        self.note_happening(number, What::Joined, "");
        self.act(actions);
        Some(number)
    }

    fn heard(&mut self, number: usize, heard: &Heard) {
        let now = self.dispatch.now();
        let since = self.since_begin(now);
        self.members[number].quiet_since = now;
        self.members[number].fps = heard.fps;
        if let Some(problem) = &heard.problem {
            self.last_trouble = format!("{}: {problem}", self.lanes[number].name);
        }
        let is_ready = heard.activity != Some(Activity::Starting);
        // What is done before the work begins was done by an earlier job of the name: that took no time.
        let seconds = if self.work_at.is_some() { heard.seconds } else { 0.0 };
        if !heard.done.is_empty() || seconds > 0.0 {
            self.lanes[number].add(since, seconds, heard.done.len() as u64);
            let actions = self.policy.done(number, &heard.done, seconds);
            self.act(actions);
        }
        match self.members[number].standing {
            Standing::Starting if is_ready => self.ready(number),
            // It has to know first that what it had is not its own any more.
            Standing::Lost if is_ready && heard.is_current => {
                if self.work_at.is_some() {
                    let lane = &self.lanes[number];
                    let (same, actions) = self.policy.joined(&lane.name, lane.capability);
                    debug_assert_eq!(same, number, "a known name is that node again");
                    self.act(actions);
                }
                self.note_happening(number, What::Back, "");
                self.ready(number);
            }
            Standing::Ready | Standing::Working => {
                let is_working = heard.activity == Some(Activity::Working);
                self.members[number].standing = if is_working { Standing::Working } else { Standing::Ready };
            }
            _ => {}
        }
    }

    fn ready(&mut self, number: usize) {
        self.members[number].standing = Standing::Ready;
        if self.work_at.is_some() {
            let actions = self.policy.started(number);
            self.act(actions);
        }
    }

    /// Begins the work when nobody is missing who has a part in it.
    fn begin_together(&mut self) {
        if self.work_at.is_some() {
            return;
        }
        let standing = |number: usize| self.members[number].standing;
        let of_plan = 0..self.planned.plan.parts.len();
        let is_awaited = |number: usize| self.planned.plan.parts[number].target > 0;
        let missing =
            of_plan.clone().any(|number| is_awaited(number) && standing(number) == Standing::Starting);
        let ready: Vec<usize> =
            (0..self.members.len()).filter(|number| standing(*number) == Standing::Ready).collect();
        if ready.is_empty() || (missing && self.options.together) {
            return;
        }
        self.work_at = Some(self.dispatch.now());
        self.began = Utc::now();
        for number in ready {
            let actions = self.policy.started(number);
            self.act(actions);
        }
        // Only now, so that what they were to do is divided among all that are there.
        for number in 0..self.members.len() {
            if self.members[number].standing == Standing::Lost {
                let actions = self.policy.lost(number);
                self.act(actions);
            }
        }
    }

    fn lose(&mut self, number: usize, why: &str) {
        if self.members[number].standing == Standing::Lost {
            return;
        }
        self.last_trouble = format!("{}: {why}", self.lanes[number].name);
        self.members[number].standing = Standing::Lost;
        self.members[number].fps = 0.0;
        self.members[number].hands.lose();
        self.note_happening(number, What::Lost, why);
        if self.work_at.is_some() {
            let actions = self.policy.lost(number);
            self.act(actions);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Give { node, items } => self.members[node].hands.give(&items),
                Action::TakeBack { node, items } => self.members[node].hands.take_back(&items),
                Action::Finished => self.finished_at = Some(self.dispatch.now()),
            }
        }
    }

    /// Writes the parts that have changed. A plane that does not answer is asked again, for a while.
    async fn write(&mut self) -> Result<(), Error> {
        let now = self.dispatch.now();
        if now < self.write_at {
            return Ok(());
        }
        let names = self.planned.holdings.items();
        let mut parts: Parts = Vec::new();
        let mut changed = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            if let Some(part) = member.hands.part(names) {
                parts.push((self.lanes[number].name.clone(), part));
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
                    self.members[number].hands.written(names);
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

    fn note_happening(&mut self, number: usize, what: What, why: &str) {
        let at = self.since_begin(self.dispatch.now());
        self.idle_since = self.dispatch.now();
        let node = self.lanes[number].name.clone();
        self.happenings.push(Happening { at, node, what, why: why.to_owned() });
    }

    fn since_begin(&self, now: f64) -> f64 {
        self.work_at.map_or(0.0, |begin| now - begin)
    }
}

impl Member {
    fn new(now: f64) -> Self {
        Member {
            hands: Hands::default(),
            standing: Standing::Starting,
            quiet_since: now,
            looked_at: now,
            fps: 0.0,
        }
    }
}

/// What is assumed of a node that nothing is known of: the mean of those that can do anything.
fn typical(problem: &Problem) -> f64 {
    let able: Vec<f64> = problem.weights().iter().copied().filter(|weight| *weight > 0.0).collect();
    able.iter().sum::<f64>() / able.len().max(1) as f64
}
