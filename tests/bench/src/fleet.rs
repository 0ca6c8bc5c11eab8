//! Simulated agents: they speak to the manager and the data service as agents do, and run nothing.
//!
//! Each sends heartbeats as often as the manager says, asks for its desired state with a question that waits, and
//! writes a value for each slot that is new to it, in one batch. The state of its slots differs in each heartbeat, as
//! if all of them had run meanwhile. All agents live on one thread and share two clients, so a question that waits
//! holds a connection and heartbeats share some.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use estimand_api::access::Token;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Assignment, Delivery, DesiredState, Facts, Heartbeat};
use estimand_api::slot::{SlotActivity, Status};
use estimand_api::write::{Content, Order, Write};
use estimand_client::{Client, Credentials, DesiredQuery, Error, Options};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::cores::Cores;
use crate::plane::now_us;

/// How long a question may wait, as an agent asks it.
const WAIT: Duration = Duration::from_secs(10);
/// The number of agents that join in a second.
const JOINS_PER_SECOND: f64 = 1_000.0;
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for anything here.
const PATIENCE: Duration = Duration::from_secs(120);

/// A number of simulated agents.
pub struct Fleet {
    wanted: Option<watch::Sender<usize>>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
    shared: Arc<Shared>,
}

struct Shared {
    manager: Client,
    data: Client,
    /// Heartbeats that were answered, and questions.
    beats: AtomicU64,
    questions: AtomicU64,
    /// Agents that were heard of and follow a desired state.
    joined: AtomicUsize,
    /// When the values of each name were acknowledged.
    stored: Mutex<BTreeMap<DataName, Vec<Instant>>>,
    failures: AtomicU64,
    last_failure: Mutex<String>,
}

impl Fleet {
    /// Starts without agents.
    pub fn new(cores: Cores, manager: &str, data: &str) -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |address| {
            let total_timeout = WAIT + Duration::from_secs(20);
            let token = Some(Token::parse(estimand_testkit::TOKEN)?);
            let credentials = Credentials { token, ..Credentials::default() };
            let options = Options {
                total_timeout,
                read_timeout: total_timeout,
                attempts: 1,
                credentials,
                ..Options::default()
            };
            anyhow::Ok(Client::with_options(address, options)?)
        };
        let shared = Arc::new(Shared {
            manager: client(manager)?,
            data: client(data)?,
            beats: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            joined: AtomicUsize::new(0),
            stored: Mutex::default(),
            failures: AtomicU64::new(0),
            last_failure: Mutex::default(),
        });
        let (wanted, wants) = watch::channel(0);
        let theirs = Arc::clone(&shared);
        let run = move || cores.on_load_core(|| live(&theirs, wants));
        let thread = thread::Builder::new().name("fleet".to_owned()).spawn(run)?;
        Ok(Fleet { wanted: Some(wanted), thread: Some(thread), shared })
    }

    /// Waits until there are `count` agents and each has its desired state.
    pub fn grow_to(&self, count: usize) -> anyhow::Result<()> {
        if let Some(wanted) = &self.wanted {
            wanted.send_replace(count);
        }
        self.until("agents join", || (self.shared.joined.load(Ordering::Relaxed) >= count).then_some(()))
    }

    /// When each of so many values of a name was acknowledged.
    pub fn stored(&self, name: &DataName, count: usize) -> anyhow::Result<Vec<Instant>> {
        self.until("values are stored", || {
            let mut stored = lock(&self.shared.stored);
            let all = stored.get(name).is_some_and(|instants| instants.len() >= count);
            if all { stored.remove(name) } else { None }
        })
    }

    /// Heartbeats and questions that were answered so far.
    pub fn answered(&self) -> (u64, u64) {
        (self.shared.beats.load(Ordering::Relaxed), self.shared.questions.load(Ordering::Relaxed))
    }

    /// The number of requests that were not answered as they should be, and the reason of the last failure.
    pub fn failures(&self) -> (u64, String) {
        (self.shared.failures.load(Ordering::Relaxed), lock(&self.shared.last_failure).clone())
    }

    fn until<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(found) = probe() {
                return Ok(found);
            }
            if self.thread.as_ref().is_some_and(thread::JoinHandle::is_finished) {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let (failures, last) = self.failures();
        bail!("waited in vain until {what}; {failures} failures, the last: {last}")
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(Err(panic)) = self.thread.take().map(thread::JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Lets agents join at a steady pace; they end with the runtime, when the fleet is dropped.
fn live(shared: &Arc<Shared>, mut wants: watch::Receiver<usize>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let mut count = 0;
        while wants.changed().await.is_ok() {
            let wanted = *wants.borrow_and_update();
            while count < wanted {
                let node = NodeName::parse(&format!("node-{count:05}")).context("a node's name")?;
                tokio::spawn(Simulated::new(Arc::clone(shared), node).live());
                count += 1;
                sleep(Duration::from_secs_f64(1.0 / JOINS_PER_SECOND)).await;
            }
        }
        Ok(())
    })
}

/// One agent.
struct Simulated {
    shared: Arc<Shared>,
    node: NodeName,
    agent: String,
    follows: Mutex<Follows>,
    /// There is something to say at once.
    hurry: Notify,
}

/// The desired state as this agent follows it.
#[derive(Default)]
struct Follows {
    revision: u64,
    /// By name; all of them run all the time.
    slots: BTreeMap<DataName, Status>,
    delivered: u64,
}

impl Simulated {
    fn new(shared: Arc<Shared>, node: NodeName) -> Self {
        let agent = format!("agent-of-{node}");
        Simulated { shared, node, agent, follows: Mutex::default(), hurry: Notify::new() }
    }

    async fn live(self) {
        // The manager answers questions only of agents that it has heard of.
        let mut answer = self.beat(true).await;
        while answer.is_none() {
            sleep(PAUSE).await;
            answer = self.beat(true).await;
        }
        tokio::join!(self.say(answer.unwrap_or_default()), self.ask());
    }

    async fn say(&self, (mut interval, mut full): (Duration, bool)) {
        loop {
            tokio::select! {
                () = sleep(interval.mul_f64(1.0 - fastrand::f64() / 10.0)) => {}
                () = self.hurry.notified() => {}
            }
            match self.beat(full).await {
                Some(answer) => (interval, full) = answer,
                None => interval = PAUSE,
            }
        }
    }

    /// When the next one is due, and whether it should bring everything.
    async fn beat(&self, full: bool) -> Option<(Duration, bool)> {
        let beat = self.heartbeat(full);
        let answer = self.shared.manager.heartbeat(&self.node, &beat).await;
        let answer = self.shared.note(answer)?;
        self.shared.beats.fetch_add(1, Ordering::Relaxed);
        Some((Duration::from_millis(answer.interval_ms), answer.resend))
    }

    fn heartbeat(&self, full: bool) -> Heartbeat {
        let mut follows = lock(&self.follows);
        for status in follows.slots.values_mut() {
            status.runs += 1;
        }
        Heartbeat {
            agent: self.agent.clone(),
            boot: 1,
            labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
            facts: Facts {
                hostname: self.node.to_string(),
                cores: 8,
                memory: 32 << 30,
                arch: "x86_64".to_owned(),
                kernel: "6.1.0".to_owned(),
                version: "0.1.0".to_owned(),
                containment: "cgroup v2".to_owned(),
                allow: vec!["/opt/collectors".to_owned()],
                users_tasks: None,
            },
            delivery: Delivery { delivered: follows.delivered, ..Delivery::default() },
            applied: follows.revision,
            stopping: Vec::new(),
            full,
            statuses: follows.slots.values().cloned().collect(),
            clock_ahead_ms: Some(0),
            leaving: false,
        }
    }

    async fn ask(&self) {
        loop {
            let revision = lock(&self.follows).revision;
            let query = DesiredQuery { node: &self.node, agent: &self.agent, boot: 1, revision, wait: WAIT };
            let answer = self.shared.manager.desired(query).await;
            match self.shared.note(answer) {
                Some(desired) => {
                    self.shared.questions.fetch_add(1, Ordering::Relaxed);
                    if let Some(desired) = desired {
                        self.follow(&desired).await;
                    }
                }
                None => sleep(PAUSE).await,
            }
        }
    }

    /// Gives a value for each slot that is new, and reports the new state at once.
    async fn follow(&self, desired: &DesiredState) {
        let was_new = lock(&self.follows).revision == 0;
        let writes: Vec<Write> = desired.slots.iter().filter_map(|slot| self.take(slot)).collect();
        {
            let mut follows = lock(&self.follows);
            follows.revision = desired.revision;
            let names: Vec<&str> = desired
                .slots
                .iter()
                .filter_map(|slot| Some(slot.registration.data_name()?.as_str()))
                .collect();
            follows.slots.retain(|name, _| names.contains(&name.as_str()));
        }
        self.hurry.notify_one();
        if !writes.is_empty() {
            self.deliver(&writes).await;
            let now = Instant::now();
            lock(&self.follows).delivered += writes.len() as u64;
            let mut stored = lock(&self.shared.stored);
            for write in writes {
                stored.entry(write.data_name).or_default().push(now);
            }
        }
        if was_new {
            self.shared.joined.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends them until they are acknowledged.
    async fn deliver(&self, writes: &[Write]) {
        loop {
            let answer = self.shared.data.write_batch(writes).await;
            if self.shared.note(answer).is_some() {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// A first value for a slot, if that is new.
    fn take(&self, slot: &Assignment) -> Option<Write> {
        let registered = slot.registration.supported()?;
        let name = registered.registration.data_name.clone();
        let mut follows = lock(&self.follows);
        if follows.slots.contains_key(&name) {
            return None;
        }
        let now = now_us();
        let mut status = Status::new(name.clone(), registered.version);
        status.doing = SlotActivity::Idle;
        (status.last_duration_ms, status.last_exit) = (Some(1.234), Some("exit 0".to_owned()));
        (status.last_cpu_ms, status.last_memory) = (Some(0.567), Some(1 << 21));
        follows.slots.insert(name.clone(), status);
        let provenance = format!(r#"{{"dataName":"{name}","node":"{}","run":1,"exit":"exit 0"}}"#, self.node);
        Some(Write {
            data_name: name,
            node_name: self.node.clone(),
            content: Content::Value {
                text: "0.123456".into(),
                valid_for: Some(30_000_000),
                provenance: Some(provenance.into()),
            },
            collected_at: Some(now),
            order: Some(Order { epoch: slot.epoch, sequence: now.unsigned_abs() }),
        })
    }
}

impl Shared {
    fn note<T>(&self, answer: Result<T, Error>) -> Option<T> {
        answer
            .inspect_err(|error| {
                self.failures.fetch_add(1, Ordering::Relaxed);
                *lock(&self.last_failure) = error.to_string();
            })
            .ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
