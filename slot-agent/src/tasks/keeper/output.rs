//! The output of a task: read as it comes, made into lines.
//!
//! The two pipes of a process are always emptied, so a task never waits for the agent or the disk. Nothing waits for them
//! to close: what is in them when the task has ended is read, and no more. The lines of a container come ready.

use std::io;

use estimand_api::task_log::{OpenLine, TaskLogLine, TaskStream};
use estimand_exec::Run;
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;

use super::super::log::{OutputPart, Splitter};
use super::now_micros;

/// A pipe holds no more than this at a time, unless its owner made it larger.
const CHUNK: usize = 64 * 1024;
/// How many chunks are read after the end. More than a pipe holds comes from a writer that should not exist.
const MAX_REMAINDER: usize = 32;

/// Where the output comes from.
pub enum Outputs {
    Process(Pipes),
    Container(Lines),
}

impl Outputs {
    pub fn of(run: &mut Run) -> Self {
        Outputs::Process(Pipes::of(run))
    }

    /// Waits until there is something to read, for ever if there never will be. May be dropped and called again.
    pub async fn readable(&mut self) {
        match self {
            Outputs::Process(pipes) => pipes.readable().await,
            Outputs::Container(lines) => lines.readable().await,
        }
    }

    /// The output that can be read now, a part of each stream, as lines.
    pub fn read(&mut self) -> Vec<TaskLogLine> {
        match self {
            Outputs::Process(pipes) => pipes.read(),
            Outputs::Container(lines) => lines.read(),
        }
    }

    /// The lines that have begun and not ended.
    pub fn open(&self) -> Vec<OpenLine> {
        match self {
            Outputs::Process(pipes) => {
                pipes.both.iter().filter_map(|output| output.splitter.open()).collect()
            }
            Outputs::Container(lines) => lines.open.clone(),
        }
    }

    /// True if a line has begun and not ended.
    pub fn is_open(&self) -> bool {
        match self {
            Outputs::Process(pipes) => pipes.both.iter().any(|output| output.splitter.has_begun()),
            Outputs::Container(lines) => !lines.open.is_empty(),
        }
    }

    /// The output that is left after the end.
    pub fn rest(self) -> Vec<TaskLogLine> {
        match self {
            Outputs::Process(pipes) => pipes.rest(),
            Outputs::Container(lines) => lines.rest(),
        }
    }
}

/// The lines of a container, from what follows its log.
pub struct Lines {
    coming: mpsc::Receiver<OutputPart>,
    /// The part that has come and was not read.
    came: Option<OutputPart>,
    /// The lines that were open behind what was read.
    open: Vec<OpenLine>,
}

impl Lines {
    pub fn new(coming: mpsc::Receiver<OutputPart>) -> Self {
        Lines { coming, came: None, open: Vec::new() }
    }

    async fn readable(&mut self) {
        if self.came.is_none() {
            match self.coming.recv().await {
                Some(part) => self.came = Some(part),
                None => std::future::pending().await,
            }
        }
    }

    fn read(&mut self) -> Vec<TaskLogLine> {
        let Some(OutputPart { lines, open }) = self.came.take() else { return Vec::new() };
        self.open = open;
        lines
    }

    fn rest(mut self) -> Vec<TaskLogLine> {
        let mut lines = self.read();
        while let Ok(part) = self.coming.try_recv() {
            lines.extend(part.lines);
        }
        lines
    }
}

pub struct Pipes {
    both: [Output; 2],
    scratch: Box<[u8]>,
}

struct Output {
    /// None when it is closed.
    pipe: Option<Receiver>,
    splitter: Splitter,
}

impl Pipes {
    fn of(run: &mut Run) -> Self {
        let output = |pipe, stream| Output { pipe, splitter: Splitter::new(stream) };
        let both = [output(run.stdout(), TaskStream::Stdout), output(run.stderr(), TaskStream::Stderr)];
        Pipes { both, scratch: vec![0; CHUNK].into_boxed_slice() }
    }

    async fn readable(&self) {
        let [stdout, stderr] = &self.both;
        tokio::select! {
            () = stdout.readable() => {}
            () = stderr.readable() => {}
        }
    }

    fn read(&mut self) -> Vec<TaskLogLine> {
        let (at, mut lines) = (now_micros(), Vec::new());
        for output in &mut self.both {
            let Some(pipe) = &output.pipe else { continue };
            match pipe.try_read(&mut self.scratch) {
                Ok(0) => output.pipe = None,
                Ok(length) => output.splitter.take(&self.scratch[..length], at, &mut lines),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => output.pipe = None,
            }
        }
        lines
    }

    /// The pipes themselves are asked: the runtime may not know yet that there is something.
    fn rest(mut self) -> Vec<TaskLogLine> {
        let (at, mut lines) = (now_micros(), Vec::new());
        for output in &mut self.both {
            for _ in 0..MAX_REMAINDER {
                let Some(pipe) = &output.pipe else { break };
                match rustix::io::read(pipe, &mut self.scratch[..]) {
                    Ok(0) => output.pipe = None,
                    Ok(length) => output.splitter.take(&self.scratch[..length], at, &mut lines),
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            output.splitter.finish(at, &mut lines);
        }
        lines
    }
}

impl Output {
    async fn readable(&self) {
        match &self.pipe {
            // An error shows when it is read.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }
}
