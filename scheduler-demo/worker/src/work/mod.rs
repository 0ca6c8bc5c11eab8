//! One node's work on a job: classifies the images of its part until it is told to end.
//!
//! The part is a value that the scheduler writes and may change at any time; the worker follows the newest, in its
//! order, and leaves out images with a result of any earlier attempt. A result is durable before it is reported as
//! done. The classification itself is elsewhere.

use std::collections::{HashSet, VecDeque};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use chrono::{SecondsFormat, Utc};
use estimand_client as client;

use crate::classify::Classifier;
use crate::images::{Images, PlaceError, ReadError};
use crate::network::NetworkError;

pub mod listen;
pub mod part;
pub mod progress;
pub mod results;
pub mod settings;
pub mod throttle;

use listen::WorkerEvent;
use part::Part;
use progress::{Activity, Progress, Speed, fitting};
use results::{Outcome, Results, ResultsError};
use settings::{Settings, SettingsError};
use throttle::Throttle;

/// Results are made durable when there are so many,
const BATCH: usize = 8;
/// or when the last time is so long ago.
const LONGEST_BATCH: Duration = Duration::from_millis(500);
/// While the images' place doesn't answer, it is asked so often,
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// and for so long, before its silence is an image's answer.
const LONGEST_UNAVAILABLE: Duration = Duration::from_secs(120);
/// Lines follow each other no faster, unless there is something new to say besides a count.
const BETWEEN_LINES: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// Works as the environment says, until the end of standard input or a signal.
pub fn main() -> Result<(), WorkError> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    // Written at once, so that a replaced registration sees its new worker live and ends the old one, for which the
    // new one waits below.
    say(io::stdout().lock(), &starting_line(&settings.job))?;
    let images = Images::at(&settings.images)?;
    let results = Results::open(&settings.out, &settings.job, &settings.node)?;
    let mut classifier = Classifier::load(&settings.model)?;
    let events = listen::start(&settings)?;
    let classify = |image: &str| {
        let bytes = match images.read(image) {
            Err(away @ ReadError::Unavailable(_)) => return Err(Unavailable(away.to_string())),
            read => read.map_err(|error| error.to_string()),
        };
        let verdict = bytes.and_then(|bytes| classifier.classify(&bytes).map_err(|error| error.to_string()));
        Ok(Outcome::from(verdict))
    };
    Worker::new(&settings, results, classify, io::stdout().lock()).run(&events)
}

fn starting_line(job: &str) -> Progress<'_> {
    Progress {
        job,
        activity: Activity::Starting,
        revision: None,
        done: 0,
        of: 0,
        fps: 0.0,
        avg_fps: 0.0,
        images: Vec::new(),
        extra: Vec::new(),
        left_out: 0,
        problem: None,
    }
}

fn say(mut out: impl Write, progress: &Progress<'_>) -> io::Result<()> {
    let mut line = serde_json::to_vec(progress)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// The reason for a missing outcome: the place of the images does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

/// A worker: takes events, classifies images, writes lines.
pub struct Worker<'a, C, W> {
    settings: &'a Settings,
    results: Results,
    classify: C,
    out: W,
    part: Option<Part>,
    problem: Option<String>,
    /// Time since which the place of the images does not answer.
    unavailable_since: Option<Instant>,
    /// The open images of the part, in its order.
    queue: VecDeque<String>,
    /// Images done since the last line.
    fresh: Vec<String>,
    throttle: Throttle,
    speed: Speed,
    flushed: Instant,
    said: Instant,
    rest_until: Instant,
}

impl<'a, C: FnMut(&str) -> Result<Outcome, Unavailable>, W: Write> Worker<'a, C, W> {
    pub fn new(settings: &'a Settings, results: Results, classify: C, out: W) -> Self {
        let now = Instant::now();
        Worker {
            settings,
            results,
            classify,
            out,
            part: None,
            problem: None,
            unavailable_since: None,
            queue: VecDeque::new(),
            fresh: Vec::new(),
            throttle: Throttle::new(&settings.share_source),
            speed: Speed::new(now),
            flushed: now,
            said: now,
            rest_until: now,
        }
    }

    /// Works until the end event, or until the senders are gone.
    pub fn run(mut self, events: &Receiver<WorkerEvent>) -> Result<(), WorkError> {
        while self.hear(events)? {
            if let Some(image) = self.queue.pop_front() {
                self.work(image)?;
            }
        }
        // A failed write of the last line must not hide that the results are safe.
        self.results.flush()?;
        let _ = self.say();
        Ok(())
    }

    /// Takes pending events; waits while there is nothing to do, or for the throttle. False at the end.
    fn hear(&mut self, events: &Receiver<WorkerEvent>) -> Result<bool, WorkError> {
        loop {
            let heard = if self.queue.is_empty() {
                events.recv().ok()
            } else {
                match events.recv_timeout(self.rest_until.saturating_duration_since(Instant::now())) {
                    Ok(heard) => Some(heard),
                    Err(RecvTimeoutError::Timeout) => return Ok(true),
                    Err(RecvTimeoutError::Disconnected) => None,
                }
            };
            match heard {
                None | Some(WorkerEvent::End) => return Ok(false),
                Some(WorkerEvent::Part(part)) => self.take(Some(part))?,
                Some(WorkerEvent::NoPart) => self.take(None)?,
                Some(WorkerEvent::InvalidPart(problem)) => {
                    self.problem = Some(problem);
                    self.say()?;
                }
                Some(WorkerEvent::ReportRequested) => self.say()?,
            }
        }
    }

    fn take(&mut self, part: Option<Part>) -> Result<(), WorkError> {
        if part == self.part && self.problem.is_none() && part.is_some() {
            // Only the value's state changed.
            return Ok(());
        }
        let was_idle = self.queue.is_empty();
        let images = part.iter().flat_map(|part| &part.images);
        self.queue = images.filter(|image| !self.results.done().contains(*image)).cloned().collect();
        (self.part, self.problem) = (part, None);
        self.results.flush()?;
        match (was_idle, self.queue.is_empty()) {
            (true, false) => self.begin(),
            (false, true) => self.log(),
            _ => {}
        }
        self.say()
    }

    /// After a wait.
    fn begin(&mut self) {
        let now = Instant::now();
        self.speed = Speed::new(now);
        self.throttle.begin_anew();
        self.rest_until = now;
        self.flushed = now;
    }

    fn work(&mut self, image: String) -> Result<(), WorkError> {
        let outcome = match (self.classify)(&image) {
            Ok(outcome) => {
                if self.unavailable_since.take().is_some() {
                    self.problem = None;
                }
                outcome
            }
            Err(Unavailable(why)) => {
                let since = *self.unavailable_since.get_or_insert_with(Instant::now);
                if since.elapsed() < LONGEST_UNAVAILABLE {
                    return self.wait(image, why);
                }
                Outcome::Failed { error: why }
            }
        };
        self.results.add(&image, outcome, Utc::now())?;
        self.fresh.push(image);
        let now = Instant::now();
        self.speed.count(now);
        let pause = self.throttle.pause();
        let is_last = self.queue.is_empty();
        // Everything is reported before a long pause.
        let is_long = now + pause - self.flushed >= LONGEST_BATCH;
        if is_last || is_long || self.results.pending() >= BATCH {
            self.results.flush()?;
            self.flushed = now;
            if is_last {
                // Before the line that reports the end: its reader may end this worker.
                self.log();
            }
            if is_last || now - self.said >= BETWEEN_LINES {
                self.say()?;
            }
        }
        self.rest_until = now + pause;
        Ok(())
    }

    /// Postpones the image and reports the reason: a silent worker would be lost.
    fn wait(&mut self, image: String, why: String) -> Result<(), WorkError> {
        self.queue.push_front(image);
        self.problem = Some(why);
        self.rest_until = Instant::now() + ASK_AGAIN;
        self.say()
    }

    /// Writes a line of progress. All that it counts as done is durable.
    fn say(&mut self) -> Result<(), WorkError> {
        self.results.flush()?;
        let now = Instant::now();
        self.said = now;
        let is_working = !self.queue.is_empty();
        let empty = Part::default();
        let part = self.part.as_ref().unwrap_or(&empty);
        let of_part: HashSet<&str> = part.images.iter().map(String::as_str).collect();
        let (images, unnamed) = fitting(self.fresh.iter().map(String::as_str));
        let done = self.results.done().iter().map(String::as_str);
        let mut extra: Vec<&str> = done.filter(|image| !of_part.contains(image)).collect();
        extra.sort_unstable();
        let (extra, left_out) = fitting(extra.into_iter());
        let progress = Progress {
            job: &self.settings.job,
            activity: if is_working { Activity::Working } else { Activity::Waiting },
            revision: self.part.as_ref().map(|part| part.revision),
            done: part.images.len() - self.queue.len(),
            of: part.images.len(),
            fps: if is_working { self.speed.present(now) } else { 0.0 },
            avg_fps: self.speed.average(),
            images,
            extra,
            left_out: unnamed + left_out,
            problem: self.problem.as_deref(),
        };
        say(&mut self.out, &progress)?;
        self.fresh.clear();
        Ok(())
    }

    /// Appends how fast the work since the last wait was. Without this line an estimator knows less; the results are
    /// what they are, hence no error.
    fn log(&self) {
        let (Some(path), images) = (&self.settings.log, self.speed.images()) else { return };
        if images == 0 {
            return;
        }
        let line = format!(
            "{} job={} node={} images={images} seconds={:.3} avg_fps={:.2}\n",
            Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            self.settings.job,
            self.settings.node,
            self.speed.seconds(),
            self.speed.average(),
        );
        if let Err(error) = append(path, &line) {
            eprintln!("estimand-worker: {}: {error}", path.display());
        }
    }
}

/// In one piece, so that lines of several writers don't mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_image_waits_for_its_place_and_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let variable = |name: &str| match name {
            "ESTIMAND_PARAM_OUT" => folder.path().to_str().map(str::to_owned),
            name => Some(name.rsplit('_').next().unwrap_or(name).to_ascii_lowercase()),
        };
        let is_optional = |name: &str| name.ends_with("_THROTTLE") || name.ends_with("_LOG");
        let settings = Settings::read(|name| variable(name).filter(|_| !is_optional(name))).unwrap();
        let results = Results::open(&settings.out, &settings.job, &settings.node).unwrap();
        let (sender, events) = sync_channel(4);
        let mut asked = Vec::new();
        let classify = |image: &str| {
            asked.push(image.to_owned());
            match asked.len() {
                2 => Err(Unavailable("it is away".to_owned())),
                4 => {
                    sender.send(WorkerEvent::End).unwrap();
                    Ok(Outcome::Labelled { label: 1, score: 0.5 })
                }
                _ => Ok(Outcome::Labelled { label: 1, score: 0.5 }),
            }
        };
        let images = ["a", "b", "c"].map(str::to_owned).to_vec();
        sender.send(WorkerEvent::Part(Part { images, revision: 1 })).unwrap();
        let mut said = Vec::new();
        Worker::new(&settings, results, classify, &mut said).run(&events).unwrap();
        assert_eq!(asked, ["a", "b", "b", "c"]);
        let lines: Vec<Value> = said
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let away = lines.iter().find(|line| line["problem"] == "it is away").unwrap();
        assert_eq!((&away["activity"], &away["done"]), (&json!("working"), &json!(1)));
        let last = lines.last().unwrap();
        assert_eq!((&last["problem"], &last["done"], &last["of"]), (&Value::Null, &json!(3), &json!(3)));
    }
}
