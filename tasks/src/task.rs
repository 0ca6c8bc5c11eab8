//! A task as it is kept, and how a change of it looks.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::duration::Span;
use estimand_api::image::TaskImage;
use estimand_api::promise::PromiseEnd;
use estimand_api::task::{TaskAssignment, TaskVolume, TaskWork};
use estimand_api::task_document::{Input, TaskDocument};
use estimand_api::task_files::{TaskInput, TaskOutputs};
use estimand_api::task_progress::TaskProgress;
use estimand_api::task_stop::StopOrder;
use estimand_capacity::{Ledger, Tick};
use estimand_store::TaskLogRow;
use serde::{Deserialize, Serialize};

use crate::core::Millis;
use crate::core::cluster::CPU;
use crate::core::decision::Why;
use crate::core::promises::Promises;
use crate::core::queue::TaskNumber;
use crate::core::request::{Request, amounts};
use crate::core::retries::OnLoss;
use crate::core::state::{Actor, Event, Progress, Refused, Rules, State, Transition};
use crate::core::task::TaskView;
use crate::core::usage::Term;

/// By these a task of an array knows which one it is, and of how many.
const INDEX_VARIABLE: &str = "ESTIMAND_TASK_INDEX";
const COUNT_VARIABLE: &str = "ESTIMAND_TASK_COUNT";
const MEMORY: &str = "memory";
/// What a task takes beside the texts of its document, in memory twice over while it changes.
pub const TASK_BYTES: u64 = 2048;
const GPU: &str = "gpu";

/// Tasks of one submission, which differ by their index only.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Those of its tasks follow, in the order of their index. Nothing else has one of them.
    pub number: TaskNumber,
    pub id: String,
    /// The key of its submission, by which a repeated one is known.
    pub key: Option<String>,
    pub document: Arc<TaskDocument>,
    pub image: Option<Arc<TaskImage>>,
    /// How many tasks it had when it was submitted.
    pub size: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub number: TaskNumber,
    pub id: String,
    /// The key of its submission, by which a repeated one is known; that of an array has the array.
    pub key: Option<String>,
    /// The array that it is of; their document is the same.
    pub array: Option<Arc<Array>>,
    pub document: Arc<TaskDocument>,
    /// The published image that it was given when it was accepted, if its own is the name of one.
    pub image: Option<Arc<TaskImage>>,
    pub progress: Progress,
    /// Why it is where it is or was.
    pub why: Option<Arc<Why>>,
    pub log: LogEnd,
    /// How many transitions are stored.
    pub events: u64,
    /// Microseconds since 1970, as all instants here.
    pub submitted_at: i64,
    pub submitted_by: String,
    pub ended_at: Option<i64>,
}

/// How far the log of a task is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEnd {
    /// The number of the next line.
    pub next: u64,
    /// The number of the first line of the present attempt.
    pub first: u64,
    /// How many bytes are kept, of each line some at the least.
    pub bytes: u64,
    /// The line from which on the text is dropped, because as much is kept as may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_at: Option<u64>,
    #[serde(default, skip_serializing_if = "ProgressEnd::is_empty")]
    pub progress: ProgressEnd,
}

/// The place of the last progress in the log of a task. A service of the version before passes it over, and forgets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressEnd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Arc<TaskProgress>>,
    /// The first line that was to be progress and is none, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The number of reports that were stored.
    pub reports: u64,
    /// The number of lines that are known to be missing since the last report.
    pub missing: u64,
    /// The next line of standard output is the rest of one that was too long.
    pub continues: bool,
}

impl ProgressEnd {
    fn is_empty(&self) -> bool {
        *self == ProgressEnd::default()
    }
}

/// A task after a change, and what belongs to that change.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    pub after: Task,
    pub transitions: Vec<Transition>,
    /// Lines of its log to be stored.
    pub lines: Vec<Arc<TaskLogRow>>,
    /// The progress that is in them.
    pub reports: Vec<Arc<TaskProgress>>,
    /// The outputs of the attempt that has just ended, which are kept.
    pub outputs: Option<TaskOutputs>,
    /// It was just submitted.
    pub is_new: bool,
    /// The term of the promise on which it runs, if that is known.
    pub term: Option<Term>,
}

impl Edit {
    /// No change yet.
    pub fn of(task: &Task) -> Edit {
        Edit { is_new: false, ..Edit::new(task.clone()) }
    }

    /// A task that is new.
    pub fn new(after: Task) -> Edit {
        Edit {
            after,
            transitions: Vec::new(),
            lines: Vec::new(),
            reports: Vec::new(),
            outputs: None,
            is_new: true,
            term: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.transitions.is_empty() && self.lines.is_empty()
    }

    /// Applies an event; false if it changes nothing.
    pub fn apply(&mut self, now_us: i64, cause: Event, actor: Actor) -> Result<bool, Refused> {
        let rules = self.after.rules();
        let before = self.term.as_ref().map(|term| (term, self.after.progress.clone()));
        let Some(transition) = self.after.progress.apply(&rules, millis(now_us), cause, actor)? else {
            return Ok(false);
        };
        if let Some((term, before)) = before {
            let usage = before.usage.after(&before, &transition.cause, transition.at, term);
            self.after.progress.usage = usage;
        }
        if let Event::Place { .. } = transition.cause {
            let log = &mut self.after.log;
            log.first = log.next;
            (log.progress.missing, log.progress.continues) = (0, false);
        }
        if transition.to.is_final() {
            self.after.ended_at = Some(now_us);
        }
        self.after.events += 1;
        self.transitions.push(transition);
        Ok(true)
    }
}

impl Array {
    /// The number of its first task, and the one after its last.
    pub fn numbers(&self) -> Range<TaskNumber> {
        let first = self.number.0 + 1;
        TaskNumber(first)..TaskNumber(first + u64::from(self.size))
    }
}

impl Task {
    /// Its place in its array.
    pub fn index(&self) -> Option<u64> {
        let array = self.array.as_ref()?;
        Some(self.number.0 - array.numbers().start.0)
    }

    pub fn state(&self) -> State {
        self.progress.state
    }

    pub fn rules(&self) -> Rules {
        Rules { retries: self.document.retries, on_loss: self.document.on_loss }
    }

    /// About how many bytes of memory it takes with its progress, and its row; the document of an array is counted with that.
    pub fn bytes(&self) -> u64 {
        let progress = self.log.progress.last.as_ref().map_or(0, |progress| progress.weight());
        TASK_BYTES + progress + if self.array.is_none() { self.document.weight() } else { 0 }
    }

    /// The node on which something of it may be.
    pub fn placed_on(&self) -> Option<&str> {
        self.progress.placed_on()
    }

    /// Everything of it that its node is told; none if it belongs on none.
    pub fn listing(&self) -> Option<(&str, u32, Option<StopOrder>)> {
        let node = self.placed_on()?;
        Some((node, self.progress.attempt, self.stop_order()))
    }

    /// The order to end it, if it is to end.
    pub fn stop_order(&self) -> Option<StopOrder> {
        self.progress.is_stopping().then(|| self.progress.present_order())
    }

    /// The time for a checkpoint, if its document says so.
    pub fn checkpoint_grace(&self) -> Option<Duration> {
        self.document.checkpoint_grace.map(Span::as_std)
    }

    /// The assignment for its node, with the end of its promise.
    pub fn assignment(&self, end: Option<PromiseEnd>) -> TaskAssignment {
        let order = self.stop_order();
        let StopOrder { grace_ms, checkpoint } = order.unwrap_or_default();
        TaskAssignment {
            id: self.id.clone(),
            attempt: self.progress.attempt,
            user: self.document.user.clone(),
            leased: self.document.on_loss != OnLoss::Wait,
            lease_ms: self.progress.lease_ms.map(|lease| lease.0),
            stop: order.is_some(),
            checkpoint,
            grace_ms,
            end,
            work: self.work().into(),
        }
    }

    /// The length of its lease on a node in milliseconds, by default this; none: it has no lease.
    pub fn lease(&self, by_default: Duration) -> Option<Millis> {
        let lease = self.document.lease.map_or(by_default, Span::as_std);
        (self.document.on_loss != OnLoss::Wait).then_some(lease.into())
    }

    /// Its node is not heard of, and it is over when its lease is, if not before.
    pub fn ends_with_its_lease(&self) -> bool {
        self.progress.state == State::Lost && self.document.on_loss != OnLoss::Wait
    }

    /// The work for its node.
    fn work(&self) -> TaskWork {
        let mut work = work(&self.document);
        if let Some(image) = &self.image {
            work.image = Some(image.reference.clone());
            work.image_digest = Some(image.digest);
        }
        if let (Some(array), Some(index)) = (&self.array, self.index()) {
            work.environment.insert(INDEX_VARIABLE.to_owned(), index.to_string());
            work.environment.insert(COUNT_VARIABLE.to_owned(), array.size.to_string());
        }
        work
    }

    /// The term of the promise on which it runs, if that is known.
    pub fn term(&self, promises: &Promises) -> Option<Term> {
        let promise = promises.find(self.document.promise.as_deref()?)?;
        let nodes = promises.nodes().map_or(&[][..], |nodes| nodes);
        let TaskDocument { image, user, .. } = &*self.document;
        Some(promise.term(nodes, image.is_some(), user.is_some()))
    }

    /// The task as the plan sees it.
    pub fn view(&self) -> TaskView<'_> {
        let TaskDocument { resources, nodes, policy, secrets, inputs, image, user, .. } = &*self.document;
        TaskView {
            number: self.number,
            submitted_at: millis(self.submitted_at),
            priority: self.document.priority,
            promise: self.document.promise.as_deref(),
            amounts: Cow::Owned(amounts(resources)),
            nodes,
            policy: *policy,
            needs_bound_labels: !secrets.is_empty() || !inputs.is_empty(),
            has_image: image.is_some(),
            user: user.as_deref(),
            framework: None,
            progress: &self.progress,
        }
    }

    pub fn user(&self) -> Option<&str> {
        self.document.user.as_deref()
    }

    /// The request that it makes to a node, counted by itself.
    pub fn request(&self) -> Request {
        self.view().request(&mut Ledger::default())
    }
}

fn work(document: &TaskDocument) -> TaskWork {
    let amount = |name: &str| document.resources.get(name).copied();
    TaskWork {
        image: document.image.clone(),
        image_digest: None,
        command: document.command.as_ref().map(|command| command.argv()).unwrap_or_default(),
        directory: document.directory.clone(),
        volumes: document
            .volumes
            .iter()
            .map(|volume| TaskVolume {
                source: volume.source.clone(),
                target: volume.target.clone(),
                read_only: volume.read_only,
            })
            .collect(),
        environment: document.environment.clone(),
        secrets: document.secrets.iter().cloned().collect(),
        timeout_ms: document.timeout.map(|timeout| timeout.as_micros().div_ceil(1000)),
        cpu: amount(CPU),
        memory: amount(MEMORY),
        gpu: amount(GPU),
        inputs: document.inputs.iter().map(input).collect(),
        outputs: document.outputs.clone(),
        port: document.port,
    }
}

/// An input as its node is told it. Another user's file has its path below the folder of the file service, where its grant is for.
fn input(input: &Input) -> TaskInput {
    TaskInput { file: input.file.place(), place: input.place.clone() }
}

/// The core's milliseconds.
pub fn millis(micros: i64) -> Millis {
    Millis(u64::try_from(micros).unwrap_or(0) / 1000)
}

/// The tick of the ledger: a second since 1970.
pub fn tick(micros: i64) -> Tick {
    millis(micros).tick()
}
