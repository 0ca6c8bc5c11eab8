//! Brings the stages and logs of the attempts on this node to the task service.
//!
//! Everything on disk is told, in the order in which it was written, and again until it is taken: the service knows by the
//! numbers of attempts and lines what it has already. An end is told with the last of its log or after it, and when its
//! outputs are stored. While the service does not take them, ends are brought to the disk, so
//! that a power cut does not undo them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use estimand_api::task::{TaskNews, TaskReport, TaskStage};
use estimand_api::task_log::{OpenLine, OpenLines, TaskLog};
use estimand_client::{self as client, Client};
use estimand_runtime::{Driver, Next, Stop, Work};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::log::{LogReader, Position, read_open};
use super::record::End;
use super::{Attempt, LOOK_EVERY, Mark, Progress, Tasks, lock};

/// About the most of what is told at a time,
const MAX_NEWS: usize = 768 << 10;
/// and of one attempt, so that a flood of one does not hold up the others.
const MAX_OF_ONE: usize = 256 << 10;
/// A report takes about this much.
const REPORT: usize = 200;
/// How often unfinished lines are told although they are as before: the service keeps them in memory only.
const OPEN_AGAIN: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Tasks {
    /// Tells the task service, which `client` gives.
    pub async fn tell(
        self: &Arc<Self>,
        client: impl Fn(&str) -> Option<Client> + Send + Sync,
        driver: Driver,
        stop: &Stop,
    ) {
        let mut driver = driver.pauses(FIRST_PAUSE, LONGEST_PAUSE);
        let mut work = Telling { tasks: Arc::clone(self), tellers: Some(Tellers::default()), client };
        driver.run(&mut work, &self.telling, stop.requested()).await;
    }
}

struct Telling<C> {
    tasks: Arc<Tasks>,
    /// None while a round has them.
    tellers: Option<Tellers>,
    client: C,
}

#[derive(Debug, thiserror::Error)]
enum TellError {
    #[error(transparent)]
    Service(#[from] client::Error),
    #[error("what is to be told cannot be read: {0}")]
    Disk(#[from] io::Error),
    #[error("a look at what is to be told failed: {0}")]
    Look(#[from] tokio::task::JoinError),
}

/// How far each attempt was told.
#[derive(Default)]
struct Tellers {
    by_name: HashMap<String, Teller>,
    /// With which attempt a look at all begins, so that each has its turn.
    turn: usize,
    /// The attempts that have to be looked at.
    pending: BTreeSet<String>,
    /// When all of them were looked at last.
    looked_at: Option<Instant>,
}

struct Teller {
    attempt: Arc<Attempt>,
    reader: LogReader,
    told: ToldStage,
    /// The unfinished lines that were told, and when.
    told_open: Option<(Vec<OpenLine>, Instant)>,
    /// Its end is on disk, in case that the machine is started anew before it is told.
    is_synced: bool,
}

/// The last stage that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ToldStage {
    Nothing,
    Accepted,
    Preparing,
    Running,
    Ended,
}

/// News, and what is told with them.
#[derive(Default)]
struct Batch {
    news: TaskNews,
    bytes: usize,
    parts: Vec<Part>,
    is_all: bool,
}

/// The part of one attempt in a batch: how far it is told with it.
struct Part {
    name: String,
    end: Position,
    told: ToldStage,
    /// The unfinished lines, if they are told with it.
    open: Option<Vec<OpenLine>>,
}

impl<C: Fn(&str) -> Option<Client> + Send + Sync> Work for Telling<C> {
    type Error = TellError;

    async fn round(&mut self) -> Result<Next, TellError> {
        let later = Next::At(Instant::now() + LOOK_EVERY);
        let server = self.tasks.task_server.borrow().clone();
        let Some(client) = server.and_then(|server| (self.client)(&server)) else { return Ok(Next::Period) };
        let (tasks, mut tellers) = (Arc::clone(&self.tasks), self.tellers.take().unwrap_or_default());
        let gathered = spawn_blocking(move || {
            let batch = tellers.gather(&tasks);
            (tellers, batch)
        });
        let (tellers, batch) = gathered.await?;
        let tellers = self.tellers.insert(tellers);
        let batch = batch?;
        if !batch.parts.is_empty() {
            let told = client.report_tasks(&batch.news).await;
            if told.is_err() {
                tellers.looked_at = None;
                self.sync().await?;
            }
            told?;
            let Some(tellers) = &mut self.tellers else { return Ok(later) };
            tellers.taken(batch.parts)?;
        }
        let Some(tellers) = &self.tellers else { return Ok(later) };
        Ok(match (batch.is_all, tellers.by_name.values().all(|teller| teller.told == ToldStage::Ended)) {
            (false, _) => Next::At(Instant::now()),
            // Nothing of them changes any more.
            (true, true) => Next::Period,
            (true, false) => later,
        })
    }
}

impl<C> Telling<C> {
    /// Brings ends that are not told yet to the disk.
    async fn sync(&mut self) -> Result<(), TellError> {
        let mut tellers = self.tellers.take().unwrap_or_default();
        let sync = spawn_blocking(move || {
            let synced = tellers.sync();
            (tellers, synced)
        });
        let (tellers, synced) = sync.await?;
        self.tellers = Some(tellers);
        Ok(synced?)
    }
}

impl Tellers {
    /// Blocking.
    fn sync(&mut self) -> io::Result<()> {
        let untold = self.by_name.values_mut();
        for teller in untold.filter(|teller| teller.told != ToldStage::Ended && !teller.is_synced) {
            let folder = &teller.attempt.folder;
            if folder.end()?.is_some() {
                folder.sync()?;
                teller.is_synced = true;
            }
        }
        Ok(())
    }

    /// The next news. Blocking.
    fn gather(&mut self, tasks: &Tasks) -> io::Result<Batch> {
        self.pending.append(&mut lock(&tasks.to_tell));
        if self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            return self.gather_all(tasks);
        }
        let mut batch = Batch { is_all: true, ..Batch::default() };
        while let Some(name) = self.pending.pop_first() {
            let attempt = lock(&tasks.attempts).get(&name).cloned();
            let Some(attempt) = attempt else {
                self.by_name.remove(&name);
                continue;
            };
            let teller = self.by_name.entry(name.clone()).or_insert_with(|| Teller::new(attempt));
            teller.add_to(&mut batch, tasks.now_micros())?;
            if batch.bytes >= MAX_NEWS {
                // All are looked at next, each in its turn.
                self.looked_at = None;
                batch.is_all = false;
                break;
            }
        }
        if !batch.is_all {
            self.looked_at = None;
        }
        Ok(batch)
    }

    fn gather_all(&mut self, tasks: &Tasks) -> io::Result<Batch> {
        let attempts = lock(&tasks.attempts).clone();
        self.by_name.retain(|name, _| attempts.contains_key(name));
        for (name, attempt) in &attempts {
            self.by_name.entry(name.clone()).or_insert_with(|| Teller::new(Arc::clone(attempt)));
        }
        let names: Vec<&String> = attempts.keys().collect();
        self.turn = if names.is_empty() { 0 } else { self.turn % names.len() };
        let mut batch = Batch { is_all: true, ..Batch::default() };
        for (place, name) in names.iter().cycle().skip(self.turn).take(names.len()).enumerate() {
            if batch.bytes >= MAX_NEWS {
                batch.is_all = false;
                self.turn += place;
                break;
            }
            if let Some(teller) = self.by_name.get(*name) {
                teller.add_to(&mut batch, tasks.now_micros())?;
            }
        }
        self.looked_at = batch.is_all.then(Instant::now);
        self.pending.clear();
        Ok(batch)
    }

    /// The service has stored them. Blocking, though not for long.
    fn taken(&mut self, parts: Vec<Part>) -> io::Result<()> {
        for Part { name, end, told, open } in parts {
            let Some(teller) = self.by_name.get_mut(&name) else { continue };
            let folder = &teller.attempt.folder;
            if teller.reader.next() < end.next {
                let written = folder.write_delivered(end.next);
                // Also on a full disk, in which it is what makes room.
                teller.reader.commit(end)?;
                written.or_else(|_| folder.write_delivered(end.next))?;
            }
            teller.told = told;
            if let Some(open) = open {
                teller.told_open = Some((open, Instant::now())).filter(|(open, _)| !open.is_empty());
            }
        }
        Ok(())
    }
}

impl Teller {
    fn new(attempt: Arc<Attempt>) -> Self {
        let folder = &attempt.folder;
        let assignment = &attempt.accepted.assignment;
        let reader = LogReader::new(
            folder.path().to_owned(),
            assignment.id.clone(),
            assignment.attempt,
            folder.delivered(),
        );
        Teller { attempt, reader, told: ToldStage::Nothing, told_open: None, is_synced: false }
    }

    fn add_to(&self, batch: &mut Batch, now: i64) -> io::Result<()> {
        let folder = &self.attempt.folder;
        // The service wants no more of what is gone.
        let is_over = self.attempt.is_over.load(Ordering::Relaxed);
        if self.told == ToldStage::Ended || is_over || self.attempt.is_marked(Mark::Gone) {
            return Ok(());
        }
        // Before the log: it is whole once there is an end.
        let Progress { begun, running, end } = self.attempt.progress()?;
        let piece = match begun {
            true => match self.reader.read(MAX_OF_ONE.min(MAX_NEWS - batch.bytes)) {
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                piece => piece?,
            },
            // Then it has said nothing.
            false => self.reader.nothing(),
        };
        // Nor before its outputs are stored.
        let end = end.filter(|end| piece.is_all && !self.attempt.awaits_outputs(end));
        let outputs = if end.is_some() { folder.outputs()? } else { None };
        let stages = self.stages(running, end);
        let told = stages.last().map_or(self.told, |(told, _, _)| *told);
        // The service forgets them with the end, and they are behind the lines that wait.
        let is_open = begun && piece.is_all && told != ToldStage::Ended;
        let open = if is_open { self.open_news(&piece.logs)? } else { None };
        if stages.is_empty() && piece.logs.is_empty() && open.is_none() {
            return Ok(());
        }
        batch.is_all &= piece.is_all;
        let files = outputs.as_ref().map_or(0, |outputs| outputs.files.len() + outputs.left_out.len());
        let shown = open.iter().flatten().map(|line| line.text.len()).sum::<usize>();
        batch.bytes += piece.bytes + (stages.len() + files) * REPORT + shown;
        batch.news.logs.extend(piece.logs);
        let assignment = &self.attempt.accepted.assignment;
        batch.news.reports.extend(stages.into_iter().map(|(told, at, stage)| TaskReport {
            id: assignment.id.clone(),
            attempt: assignment.attempt,
            at,
            ago: u64::try_from(now.saturating_sub(at)).ok(),
            stage,
            outputs: outputs.clone().filter(|_| told == ToldStage::Ended),
        }));
        batch.news.open.extend(open.iter().map(|lines| OpenLines {
            id: assignment.id.clone(),
            attempt: assignment.attempt,
            lines: lines.clone(),
        }));
        batch.parts.push(Part { name: folder.name(), end: piece.end, told, open });
        Ok(())
    }

    /// The unfinished lines, if they are to be told. One that ends in this log is none any more.
    fn open_news(&self, logs: &[TaskLog]) -> io::Result<Option<Vec<OpenLine>>> {
        let Some(mut open) = read_open(self.attempt.folder.path())? else { return Ok(None) };
        open.retain(|open| {
            let mut lines = logs.iter().flat_map(|log| &log.lines);
            !lines.any(|line| line.stream == open.stream && line.at > open.at)
        });
        let is_news = match &self.told_open {
            Some((told, at)) => *told != open || at.elapsed() >= OPEN_AGAIN,
            None => !open.is_empty(),
        };
        Ok(is_news.then_some(open))
    }

    /// The stages that are reached and not told yet, in order.
    fn stages(&self, running: Option<i64>, end: Option<End>) -> Vec<(ToldStage, i64, TaskStage)> {
        let folder = &self.attempt.folder;
        let accepted = Some((ToldStage::Accepted, self.attempt.accepted.at, TaskStage::Accepted));
        let preparing = self.attempt.is_prepared().then(|| folder.instant("preparing")).flatten();
        let preparing = preparing.map(|at| (ToldStage::Preparing, at, TaskStage::Preparing));
        let running = running.map(|at| (ToldStage::Running, at, TaskStage::Running));
        let ended = end.map(|End { at, ending, program, used }| {
            (ToldStage::Ended, at, TaskStage::Ended { ending, program, used })
        });
        [accepted, preparing, running, ended]
            .into_iter()
            .flatten()
            .filter(|(stage, _, _)| *stage > self.told)
            .collect()
    }
}
