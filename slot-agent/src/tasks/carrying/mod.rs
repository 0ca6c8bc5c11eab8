//! Brings the inputs of the tasks here before they begin, and their outputs to the file service when they have ended.
//!
//! Tasks without files are not held up by any of it. One with inputs is not begun before they all lie in its folder
//! ([`fetching`]); the end of one with outputs is not told before they are stored ([`storing`]). All that is done is on
//! disk here or at the file service, so an agent that is started anew goes on with it, piece by piece.
//!
//! The agent has no right to files of its own. It asks the task service for grants, which are for this node, these files and
//! a short time, as long as the attempt is here.

mod fetching;
mod storing;
mod way;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use estimand_api::task::{TaskEnding, TaskWork};
use estimand_api::task_files::TaskOutputs;
use estimand_client::{self as client, Client, Credentials, Options};
use estimand_runtime::{BackOff, Driver, Next, Stop, Work};
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::Instant;

use super::folder::AttemptFolder;
use super::record::End;
use super::work_folder::Owner;
use super::{Attempt, LOOK_EVERY, LeaseLength, Tasks, lock};
use way::Way;

/// How many attempts have files on their way at the same time.
const MAX_TRANSFERS: usize = 8;
/// How much goes over at a time, and how long that may take.
const PIECE: u64 = 1 << 20;
const PIECE_WITHIN: Duration = Duration::from_secs(60);
/// Between attempts to go on with one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Outputs that could not be stored for so long after the end are left out.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3600);
/// The mark of an attempt all of whose inputs lie in its folder.
const INPUTS_ARE_HERE: &str = "inputs";

/// Gives a client of a service.
pub type ClientAt = Arc<dyn Fn(&str) -> Option<Client> + Send + Sync>;

/// The options of the clients by which files are fetched and stored.
pub fn client_options(credentials: &Credentials) -> Options {
    Options {
        connect_timeout: Duration::from_secs(2),
        read_timeout: PIECE_WITHIN,
        total_timeout: PIECE_WITHIN,
        attempts: 1,
        retry_within: Duration::ZERO,
        credentials: credentials.clone(),
        ..Options::default()
    }
}

impl Tasks {
    /// Carries files until it is told to stop. The clients are of the task service and of the file service.
    pub async fn carry(
        self: &Arc<Self>,
        task_service: ClientAt,
        file_service: ClientAt,
        mut driver: Driver,
        stop: &Stop,
    ) {
        let tasks = Arc::clone(self);
        let mut work = Carrying { tasks, task_service, file_service, transfers: HashMap::new() };
        driver.run(&mut work, &self.carrying, stop.requested()).await;
    }

    /// The files that are to be carried, by attempt. Blocking.
    fn errands(&self) -> BTreeMap<String, (Arc<Attempt>, Errand)> {
        let with_files = self.attempts().into_iter().filter(|attempt| attempt.has_files());
        with_files
            .filter_map(|attempt| {
                let errand = attempt.errand(self)?;
                Some((attempt.folder.name(), (attempt, errand)))
            })
            .collect()
    }

    /// True if the manager says under its present lease that this attempt is here: then it is nowhere else.
    fn is_assigned(&self, attempt: &Attempt) -> bool {
        let assigned = lock(&self.assigned);
        let Some(assigned) = &*assigned else { return false };
        let own = &attempt.accepted.assignment;
        let is_here = assigned.tasks.iter().any(|one| one.id == own.id && one.attempt == own.attempt);
        let is_held = |length| self.leases.of(length).holds().is_some_and(|began| assigned.asked_at >= began);
        is_here && LeaseLength::of(own).is_none_or(is_held)
    }
}

/// The thing to be done for an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Errand {
    Fetch,
    Store(End),
}

impl Attempt {
    pub fn has_files(&self) -> bool {
        self.work().is_some_and(TaskWork::has_files)
    }

    /// Something is fetched for it before it runs.
    pub fn is_prepared(&self) -> bool {
        self.work().is_some_and(|work| work.image.is_some() || !work.inputs.is_empty())
    }

    /// It is not to begin yet.
    pub fn awaits_inputs(&self) -> bool {
        self.work().is_some_and(|work| !work.inputs.is_empty()) && !self.folder.has(INPUTS_ARE_HERE)
    }

    /// Its end is not to be told yet.
    pub fn awaits_outputs(&self, end: &End) -> bool {
        let has_any = self.work().is_some_and(|work| !work.outputs.is_empty());
        has_any && end.ending.leaves_outputs() && self.folder.has("begun") && !self.folder.has("outputs.json")
    }

    fn errand(&self, tasks: &Tasks) -> Option<Errand> {
        let folder = &self.folder;
        if folder.has("gone") || self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        match folder.end().ok()? {
            Some(end) if self.awaits_outputs(&end) && tasks.is_assigned(self) => Some(Errand::Store(end)),
            Some(_) => None,
            None if is_wanted(folder) && self.awaits_inputs() => Some(Errand::Fetch),
            None => None,
        }
    }

    /// The owner of what lies in its folder.
    fn owner(&self) -> Owner {
        let is_container = self.work().is_some_and(|work| work.image.is_some());
        match self.identity() {
            Some(identity) => Owner::Other(identity.clone()),
            None if is_container => Owner::Anybody,
            None => Owner::Agent,
        }
    }
}

/// It is to begin once it can.
fn is_wanted(folder: &AttemptFolder) -> bool {
    !folder.has("stop") && !folder.has("gone") && !folder.has("begun")
}

#[derive(Debug, thiserror::Error)]
enum CarryError {
    #[error(transparent)]
    Service(#[from] client::Error),
    #[error("the address of a service is not known")]
    NoService,
    #[error("the disk: {0}")]
    Disk(#[from] io::Error),
    #[error("{0}")]
    NoRoom(String),
    #[error("`{0}` changes while it is read")]
    Changes(String),
    #[error("it is not known to be here any more")]
    NotHere,
    #[error("a look at its files failed: {0}")]
    Look(#[from] tokio::task::JoinError),
}

impl CarryError {
    /// The status of a problem that the service has with it.
    fn status(&self) -> Option<u16> {
        match self {
            CarryError::Service(error) => error.status(),
            _ => None,
        }
    }
}

struct Carrying {
    tasks: Arc<Tasks>,
    task_service: ClientAt,
    file_service: ClientAt,
    transfers: HashMap<String, Transfer>,
}

/// The files of an attempt, under way or waiting for another try.
struct Transfer {
    work: Option<(AbortHandle, oneshot::Receiver<Result<(), CarryError>>)>,
    pauses: BackOff,
    not_before: Instant,
    /// The failure that was logged last.
    complaint: String,
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some((work, _)) = &self.work {
            work.abort();
        }
    }
}

impl Work for Carrying {
    type Error = Infallible;

    async fn round(&mut self) -> Result<Next, Infallible> {
        for (name, transfer) in &mut self.transfers {
            transfer.settle(name);
        }
        let tasks = Arc::clone(&self.tasks);
        let errands = spawn_blocking(move || tasks.errands()).await.unwrap_or_default();
        self.transfers.retain(|name, transfer| errands.contains_key(name) || transfer.is_under_way());
        let mut running = self.transfers.values().filter(|transfer| transfer.is_under_way()).count();
        // One that begins or ends meanwhile is looked at without being heard of.
        let is_over = running == 0 && !self.tasks.has_files();
        for (name, (attempt, errand)) in errands {
            if running >= MAX_TRANSFERS {
                break;
            }
            let transfer = self.transfers.entry(name).or_insert_with(Transfer::new);
            if !transfer.is_under_way() && transfer.not_before <= Instant::now() {
                let (task_service, file_service) =
                    (Arc::clone(&self.task_service), Arc::clone(&self.file_service));
                let way = Way::new(Arc::clone(&self.tasks), attempt, task_service, file_service);
                let (tell, outcome) = oneshot::channel();
                transfer.work = Some((tokio::spawn(carry(way, errand, tell)).abort_handle(), outcome));
                running += 1;
            }
        }
        Ok(if is_over { Next::Period } else { Next::At(Instant::now() + LOOK_EVERY) })
    }
}

impl Transfer {
    fn new() -> Self {
        Transfer {
            work: None,
            pauses: BackOff::new(FIRST_PAUSE, LONGEST_PAUSE),
            not_before: Instant::now(),
            complaint: String::new(),
        }
    }

    fn is_under_way(&self) -> bool {
        self.work.is_some()
    }

    /// Takes the outcome of a try that is over.
    fn settle(&mut self, name: &str) {
        let Some((_, outcome)) = &mut self.work else { return };
        let complaint = match outcome.try_recv() {
            Err(TryRecvError::Empty) => return,
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(TryRecvError::Closed) => Some("it ended without an outcome".to_owned()),
        };
        self.work = None;
        let Some(complaint) = complaint else { return self.pauses.reset() };
        self.not_before = Instant::now() + self.pauses.pause();
        if complaint != self.complaint {
            tracing::warn!(task = name, error = complaint, "the files of a task are not there yet");
            self.complaint = complaint;
        }
    }
}

async fn carry(mut way: Way, errand: Errand, tell: oneshot::Sender<Result<(), CarryError>>) {
    let carried = match errand {
        Errand::Fetch => fetching::fetch(&mut way).await,
        Errand::Store(end) => storing::store(&mut way, &end).await,
    };
    // Nobody listens any more if this ends with its agent.
    let _ = tell.send(carried);
    way.tasks.carrying.ask();
}

impl Tasks {
    /// Ends an attempt whose inputs cannot be had.
    fn end_without_inputs(&self, attempt: &Attempt, ending: TaskEnding) -> io::Result<()> {
        self.settle(&attempt.folder, ending)
    }

    /// Says which outputs are stored. From then on its end may be told.
    fn note_outputs(&self, attempt: &Attempt, outputs: &TaskOutputs) -> io::Result<()> {
        attempt.folder.write_outputs(outputs)?;
        self.tell_now(&attempt.folder.name());
        Ok(())
    }
}
