//! Work in the background, supervised: every task has a name, an owner and a way to be told to stop.
//!
//! A task that panics is logged and started again after a pause that grows up to a cap. A task that returns
//! has done its work. A one-shot task is not started again; its panic is kept for the owner to see. Nothing
//! is detached: `stop_all` asks all tasks to end, waits for them under a deadline, and names those that did not.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::back_off::BackOff;
use crate::background::{self, Driver, LoopFigures};
use crate::calls::{self, Calls};
use crate::metrics::{Exposition, Kind};
use crate::panic_text;
use crate::stop::{self, Stop, StopTrigger};

/// The first pause before a task is started again; it doubles with each panic in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A task that ran this long before it panicked is taken to have worked: the pause starts small again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The tasks of one owner. Clones are the same tasks.
#[derive(Debug, Clone)]
pub struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    trigger: StopTrigger,
    running: Mutex<Vec<NamedTask>>,
    panics: Mutex<Vec<Panics>>,
    loops: Mutex<Vec<Arc<LoopFigures>>>,
    calls: Mutex<Vec<Arc<Calls>>>,
}

#[derive(Debug)]
struct NamedTask {
    name: &'static str,
    handle: JoinHandle<()>,
}

/// How often a task panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panics {
    pub task: &'static str,
    pub count: u64,
    /// The message of the last panic.
    pub last: String,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    pub fn new() -> Self {
        let (trigger, _) = stop::pair();
        Tasks(Arc::new(Inner {
            trigger,
            running: Mutex::default(),
            panics: Mutex::default(),
            loops: Mutex::default(),
            calls: Mutex::default(),
        }))
    }

    /// Starts a task on the current runtime; it is started again if it panics.
    pub fn spawn<F, Fut>(&self, name: &'static str, mut work: F)
    where
        F: FnMut(Stop) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (tasks, stop) = (self.clone(), self.0.trigger.listener());
        self.keep(name, async move {
            let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
            loop {
                let started = Instant::now();
                // The call itself may panic as well as the future it gives.
                let run = AssertUnwindSafe(async { work(stop.clone()).await }).catch_unwind();
                let Err(panic) = run.await else { return };
                if started.elapsed() >= HEALTHY_AFTER {
                    pauses.reset();
                }
                let wait = pauses.pause();
                tasks.record(name, &*panic, wait);
                tokio::select! {
                    () = stop.requested() => return,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        });
    }

    /// Starts a task that goes on until the stop, and ends then in the middle of what it does.
    pub fn spawn_until_stop<F, Fut>(&self, name: &'static str, mut work: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.spawn(name, move |stop| {
            let work = work();
            async move {
                tokio::select! {
                    () = stop.requested() => {}
                    () = work => {}
                }
            }
        });
    }

    /// A driver of background work, whose figures are written with these tasks'. A name that is used again goes on with
    /// the same figures.
    pub fn driver(&self, name: &'static str, activity: &'static str) -> Driver {
        let mut loops = lock(&self.0.loops);
        let figures = match loops.iter().find(|figures| figures.name == name) {
            Some(known) => Arc::clone(known),
            None => {
                let new = Arc::new(LoopFigures::new(name));
                loops.push(Arc::clone(&new));
                new
            }
        };
        Driver::new(activity, figures)
    }

    /// Calls to a service of others, each of which may take so long; their figures are written with these tasks'.
    pub fn calls(&self, service: &'static str, within: Duration) -> Arc<Calls> {
        let calls = Arc::new(Calls::new(service, within));
        lock(&self.0.calls).push(Arc::clone(&calls));
        calls
    }

    /// Hears when these tasks are asked to stop.
    pub fn stop(&self) -> Stop {
        self.0.trigger.listener()
    }

    /// The tasks that have panicked so far.
    pub fn panics(&self) -> Vec<Panics> {
        lock(&self.0.panics).clone()
    }

    /// Asks all tasks to stop and waits; the error names those that had to be cut off.
    pub async fn stop_all(&self, deadline: Duration) -> Result<(), UnfinishedTasks> {
        self.0.trigger.request();
        let end = Instant::now() + deadline;
        let mut names = Vec::new();
        // A task may start another one while it ends, so the list is taken until it stays empty.
        loop {
            let running = std::mem::take(&mut *lock(&self.0.running));
            if running.is_empty() {
                break;
            }
            for NamedTask { name, mut handle } in running {
                if tokio::time::timeout_at(end, &mut handle).await.is_err() {
                    handle.abort();
                    names.push(name);
                }
            }
        }
        if names.is_empty() { Ok(()) } else { Err(UnfinishedTasks { names }) }
    }

    /// Writes the panics of each task and the figures of background loops: a source for
    /// [`Metrics`](crate::metrics::Metrics).
    pub fn write_figures(&self, text: &mut String) {
        let (name, mut out) = ("estimand_task_panics_total", Exposition::new(text));
        out.family(name, Kind::Counter, "Panics of background tasks.");
        for panics in lock(&self.0.panics).iter() {
            out.sample(name, &[("task", panics.task)], panics.count as f64);
        }
        background::write(&mut out, &lock(&self.0.loops));
        calls::write(&mut out, &lock(&self.0.calls));
    }

    fn keep(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(work.instrument(tracing::info_span!("task", name)));
        let mut running = lock(&self.0.running);
        running.retain(|task| !task.handle.is_finished());
        running.push(NamedTask { name, handle });
    }

    fn record(&self, task: &'static str, panic: &(dyn Any + Send), pause: Duration) {
        let last = panic_text(panic);
        tracing::error!(task, panic = last, ?pause, "a task panicked; it starts again");
        let mut panics = lock(&self.0.panics);
        match panics.iter_mut().find(|known| known.task == task) {
            Some(known) => {
                known.count += 1;
                last.clone_into(&mut known.last);
            }
            None => panics.push(Panics { task, count: 1, last: last.to_owned() }),
        }
    }
}

/// Tasks that did not end in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cut off because they did not end in time: {}", names.join(", "))]
pub struct UnfinishedTasks {
    pub names: Vec<&'static str>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_panicking_task_starts_again_after_growing_pauses() {
        let (tasks, runs) = (Tasks::new(), Arc::new(AtomicU32::new(0)));
        let (starts, mut started) = tokio::sync::mpsc::channel(8);
        let counted = Arc::clone(&runs);
        tasks.spawn("flaky", move |stop| {
            let (run, starts) = (counted.fetch_add(1, Ordering::SeqCst), starts.clone());
            async move {
                starts.send(Instant::now()).await.unwrap();
                assert!(run >= 3, "run {run} fails");
                stop.requested().await;
            }
        });
        let mut at = Vec::new();
        for _ in 0..4 {
            at.push(started.recv().await.unwrap());
        }
        let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (pause, expected) in pauses.iter().zip([100, 200, 400]) {
            let expected = Duration::from_millis(expected);
            assert!((expected.mul_f64(0.49)..expected.mul_f64(1.02)).contains(pause), "{pauses:?}");
        }
        assert_eq!(tasks.panics()[0].count, 3);
        assert_eq!(tasks.panics()[0].last, "run 2 fails");
        let mut text = String::new();
        tasks.write_figures(&mut text);
        let counted = format!("estimand_task_panics_total{{task=\"{}\"}} 3\n", tasks.panics()[0].task);
        assert!(text.contains(&counted), "{text}");
        tasks.stop_all(Duration::from_secs(1)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_names_who_does_not_listen() {
        let tasks = Tasks::new();
        tasks.spawn("polite", |stop| async move { stop.requested().await });
        tasks.spawn("deaf", |_| std::future::pending());
        let error = tasks.stop_all(Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.names, ["deaf"]);
    }
}
