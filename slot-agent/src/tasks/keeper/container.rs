//! A task's container: made ready, started, followed to its end and removed, by the engine of the node.
//!
//! The engine may be away at each moment, and come back with the container as it was or ended. So everything that can be
//! done twice is asked for until there is an answer; a start, which cannot, is looked after instead. The end is what the
//! engine says when the container does not run any more. The output is read from the engine's own log, where it is
//! whole from the first line on, and is gone on with after each connection that broke.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use estimand_api::task::TaskEnding;
use estimand_api::task_log::{OpenLine, TaskLogLine, TaskStream};
use estimand_runtime::BackOff;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::folder::AttemptFolder;
use super::super::log::{Frames, OutputPart};
use super::ender::{Ender, Wish, until_wished};
use super::news::News;
use super::output::Lines;
use super::step::Step;
use super::{Complaints, now_micros, say};
use crate::containers::engine::{ContainerState, Engine, EngineError};
use crate::containers::{ContainerRun, Place, pinned};

/// How long an engine may be away before a container begins.
const ENGINE_WITHIN: Duration = Duration::from_secs(60);
/// How long an image may take to be fetched.
const PULL_WITHIN: Duration = Duration::from_secs(3600);
/// Between attempts to reach the engine.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often an engine may refuse to remove a container, until that is left to the next start of the agent.
const MAX_REFUSALS: u32 = 20;
/// How many pieces of output may wait for the log.
const MAX_PIECES: usize = 64;

/// A container as its watch has it.
pub struct Container {
    wish: watch::Sender<Wish>,
    running: watch::Receiver<bool>,
    driver: JoinHandle<TaskEnding>,
}

impl Container {
    /// Has it made ready and started.
    pub fn begin(run: ContainerRun, folder: AttemptFolder, news: News) -> (Self, Lines) {
        let (wish, wished) = watch::channel(Wish::GoOn);
        let (started, running) = watch::channel(false);
        let (parts, coming) = mpsc::channel(MAX_PIECES);
        let driver = Driver {
            run,
            folder,
            news,
            wished,
            started,
            parts,
            frames: Frames::new(),
            open: Vec::new(),
            id: Arc::default(),
            is_created: false,
        };
        (Container { wish, running, driver: tokio::spawn(driver.drive()) }, Lines::new(coming))
    }

    /// Waits for its next step. May be dropped and called again, until it has ended.
    pub async fn step(&mut self, is_running: bool) -> Step {
        tokio::select! {
            biased;
            Ok(_) = self.running.wait_for(|running| *running), if !is_running => Step::Running,
            // Only a fault of this program ends it without an ending.
            ending = &mut self.driver => {
                Step::Ended { ending: ending.unwrap_or(TaskEnding::NodeLost), used: None }
            }
        }
    }

    pub fn checkpoint(&self) {
        self.wish.send_modify(|wish| *wish = Wish::Checkpoint.max(*wish));
    }

    pub fn terminate(&self) {
        self.wish.send_modify(|wish| *wish = Wish::End.max(*wish));
    }

    pub fn kill(&self) {
        self.wish.send_replace(Wish::Kill);
    }
}

/// Removes a container, also while it runs.
pub async fn remove(place: &Place) -> Result<(), EngineError> {
    Engine::connect(&place.socket).await?.remove(&place.name).await
}

struct Driver {
    run: ContainerRun,
    folder: AttemptFolder,
    news: News,
    wished: watch::Receiver<Wish>,
    started: watch::Sender<bool>,
    parts: mpsc::Sender<OutputPart>,
    frames: Frames,
    /// The lines that were open when it was said last.
    open: Vec<OpenLine>,
    /// Its id, once the engine has said it.
    id: Arc<OnceLock<String>>,
    /// The engine may have it.
    is_created: bool,
}

impl Driver {
    /// Nothing of it is left when this returns.
    async fn drive(mut self) -> TaskEnding {
        let ender = self.ender();
        let ending = tokio::select! {
            ending = self.run() => ending,
            never = ender.serve() => match never {},
        };
        if self.is_created {
            self.remove().await;
        }
        ending
    }

    async fn run(&mut self) -> TaskEnding {
        if let Err(ending) = self.start().await {
            return ending;
        }
        self.started.send_replace(true);
        self.follow().await
    }

    /// Makes it and starts it, once. The error is the end of the attempt.
    async fn start(&mut self) -> Result<(), TaskEnding> {
        let engine = self.create().await?;
        if self.is_to_end() {
            return Err(TaskEnding::Cancelled);
        }
        match engine.start(&self.run.place.name).await {
            Ok(()) => Ok(()),
            // It may have been started all the same: never again.
            Err(EngineError::Away(error)) => {
                self.note(&format!("the container may not have been started: {error}")).await;
                let (mut pauses, mut complaints) = (pauses(), Complaints::default());
                loop {
                    match self.look().await {
                        Ok(state) if state.has_started => return Ok(()),
                        Ok(_) | Err(EngineError::Missing(_)) => return Err(TaskEnding::NodeLost),
                        Err(error) => complaints.say(&error),
                    }
                    sleep(pauses.pause()).await;
                }
            }
            Err(error) => Err(TaskEnding::NotStarted(error.to_string())),
        }
    }

    async fn create(&mut self) -> Result<Engine, TaskEnding> {
        let (mut pauses, mut complaints) = (pauses(), Complaints::default());
        let (until, mut is_pulled) = (Instant::now() + ENGINE_WITHIN, false);
        loop {
            if self.is_to_end() {
                return Err(TaskEnding::Cancelled);
            }
            match self.try_create().await {
                Ok(engine) => return Ok(engine),
                Err(EngineError::Missing(message)) if !is_pulled => {
                    self.pull(&message).await?;
                    is_pulled = true;
                    continue;
                }
                Err(EngineError::Missing(message)) => {
                    self.note(&message).await;
                    return Err(TaskEnding::ImageMissing);
                }
                Err(error @ EngineError::Away(_)) if Instant::now() < until => complaints.say(&error),
                Err(error) => return Err(TaskEnding::NotStarted(error.to_string())),
            }
            tokio::select! {
                () = sleep(pauses.pause()) => {}
                () = until_wished(self.wished.clone()) => {}
            }
        }
    }

    async fn try_create(&mut self) -> Result<Engine, EngineError> {
        let engine = Engine::connect(&self.run.place.socket).await?;
        let image = pinned::find(&engine, &self.run).await?;
        let was_created = std::mem::replace(&mut self.is_created, true);
        match engine.create(&self.run, &image).await {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| say(format_args!("the engine warns: {warning}")));
            }
            // It was, and the answer got lost.
            Err(EngineError::Conflict(_)) if was_created => {}
            // The place is another's, and is not to be removed.
            Err(error) => {
                self.is_created = was_created || matches!(error, EngineError::Away(_));
                return Err(error);
            }
        }
        let state = engine.state(&self.run.place.name).await?;
        let _ = self.id.set(state.id);
        Ok(engine)
    }

    /// Fetches the image, which the engine does not have, as it says with this message.
    async fn pull(&mut self, message: &str) -> Result<(), TaskEnding> {
        if let Err(error) = self.folder.write_instant("preparing", now_micros()) {
            say(format_args!("that it is made ready cannot be written: {error}"));
        }
        self.news.of_stage();
        let image = &pinned::fetched_as(&self.run);
        let pulling = async {
            let engine = Engine::connect(&self.run.place.socket).await?;
            timeout(PULL_WITHIN, engine.pull(image)).await.unwrap_or_else(|_| {
                Err(EngineError::Refused(format!("it took longer than {} s", PULL_WITHIN.as_secs())))
            })
        };
        let pulled = tokio::select! {
            pulled = pulling => pulled,
            () = until_wished(self.wished.clone()) => return Err(TaskEnding::Cancelled),
        };
        match pulled {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = match self.run.digest {
                    Some(_) => format!("{message}; it cannot be fetched either: {error}"),
                    None => format!("the image `{image}` is not on this node and cannot be fetched: {error}"),
                };
                self.note(&text).await;
                Err(TaskEnding::ImageMissing)
            }
        }
    }

    async fn look(&self) -> Result<ContainerState, EngineError> {
        Engine::connect(&self.run.place.socket).await?.state(&self.run.place.name).await
    }

    /// Reads its output until it has ended, however often the engine goes away.
    async fn follow(&mut self) -> TaskEnding {
        let (mut pauses, mut complaints) = (pauses(), Complaints::default());
        let state = loop {
            match self.follow_once().await {
                Ok(state) => break state,
                Err(EngineError::Missing(message)) => {
                    self.note(&format!("somebody has removed the container: {message}")).await;
                    return TaskEnding::NodeLost;
                }
                Err(error) => complaints.say(&error),
            }
            sleep(pauses.pause()).await;
        };
        let lines = self.frames.finish(now_micros());
        self.say(lines).await;
        ending(&state)
    }

    /// Follows it over one connection. Returns its state when it has ended and all of its log was read.
    async fn follow_once(&mut self) -> Result<ContainerState, EngineError> {
        let name = self.run.place.name.clone();
        let engine = Engine::connect(&self.run.place.socket).await?;
        if engine.state(&name).await?.is_running {
            let mut log = engine.log(&name, self.frames.resume(), true);
            let mut has_more = true;
            let ended = engine.wait(&name);
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    ended = &mut ended => break ended?,
                    piece = log.next(), if has_more => match piece {
                        Some(Ok((stream, piece))) => self.take(stream, &piece).await,
                        Some(Err(error @ EngineError::Away(_))) => return Err(error),
                        // It is over, or cannot be followed: the rest is read at the end.
                        Some(Err(_)) | None => has_more = false,
                    }
                }
            }
        }
        self.read_rest(&engine, &name).await?;
        engine.state(&name).await
    }

    async fn read_rest(&mut self, engine: &Engine, name: &str) -> Result<(), EngineError> {
        let mut log = engine.log(name, self.frames.resume(), false);
        while let Some(piece) = log.next().await {
            match piece {
                Ok((stream, piece)) => self.take(stream, &piece).await,
                Err(error @ EngineError::Away(_)) => return Err(error),
                Err(error) => {
                    self.note(&format!("the rest of the output cannot be read: {error}")).await;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn take(&mut self, stream: TaskStream, piece: &[u8]) {
        let lines = self.frames.take(stream, piece, now_micros());
        self.say(lines).await;
    }

    async fn say(&mut self, lines: Vec<TaskLogLine>) {
        let open = self.frames.open();
        if !lines.is_empty() || open != self.open {
            self.open.clone_from(&open);
            // Nobody listens any more if the keeper ends, and this with it.
            let _ = self.parts.send(OutputPart { lines, open }).await;
        }
    }

    /// A line of the log that is not the task's own.
    async fn note(&mut self, text: &str) {
        let text = format!("estimand: {text}");
        let stream = TaskStream::Stderr;
        let line = TaskLogLine { at: now_micros(), stream, text, bytes: None, partial: false, dropped: 0 };
        self.say(vec![line]).await;
    }

    async fn remove(&self) {
        let (mut pauses, mut refusals) = (pauses(), 0);
        while let Err(error) = remove(&self.run.place).await {
            refusals += u32::from(!matches!(error, EngineError::Away(_)));
            if refusals > MAX_REFUSALS {
                say(format_args!("the container stays until the agent is started again: {error}"));
                return;
            }
            sleep(pauses.pause()).await;
        }
    }

    fn is_to_end(&self) -> bool {
        *self.wished.borrow() > Wish::GoOn
    }

    fn ender(&self) -> Ender {
        Ender::new(self.run.place.clone(), self.wished.clone(), Arc::clone(&self.id))
    }
}

fn pauses() -> BackOff {
    BackOff::new(FIRST_PAUSE, LONGEST_PAUSE)
}

/// How it ended by itself. An engine tells a signal only as an exit code beyond 128.
fn ending(state: &ContainerState) -> TaskEnding {
    match state {
        ContainerState { out_of_memory: true, exit, .. } if *exit != 0 => TaskEnding::OutOfMemory,
        ContainerState { exit, .. } => TaskEnding::Exit(*exit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_what_ended_it() {
        let check = |exit, out_of_memory, expected: TaskEnding| {
            let state = ContainerState {
                id: String::new(),
                has_started: true,
                is_running: false,
                exit,
                out_of_memory,
            };
            assert_eq!(ending(&state), expected);
        };
        check(0, false, TaskEnding::Exit(0));
        check(3, false, TaskEnding::Exit(3));
        check(137, true, TaskEnding::OutOfMemory);
        // One of its processes was, and it did well without.
        check(0, true, TaskEnding::Exit(0));
    }
}
