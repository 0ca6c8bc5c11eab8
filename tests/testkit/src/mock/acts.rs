//! Does what the words say. What has to last until the end, locks and memory, is kept here.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;
use std::{env, process, thread};

use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit, setsid};

use super::offspring::Offspring;
use super::words::{self, Act};
use super::{emit, tally};

const MEMORY_CHUNK: u64 = 16 << 20;

pub(super) struct Mock {
    args: Vec<String>,
    offspring: Offspring,
    locks: Vec<File>,
    memory: Vec<Vec<u8>>,
}

/// The step after a word.
pub(super) enum Next {
    GoOn,
    Exit(u8),
}

impl Mock {
    pub(super) fn new(program: &str, args: &[String]) -> Self {
        let offspring = Offspring::of(program, args);
        Self { args: args.to_vec(), offspring, locks: Vec::new(), memory: Vec::new() }
    }

    /// `rest` is what follows the word.
    pub(super) fn perform(&mut self, act: &Act, rest: &[String]) -> io::Result<Next> {
        match act {
            Act::Alone(path) => self.locks.push(tally::alone(path)?),
            Act::BinaryJunk => emit::to_stdout(&emit::junk())?,
            Act::ClosePipes => emit::close_pipes()?,
            Act::Daemonize => self.offspring.daemon()?,
            Act::EatMemory(bytes) => self.eat(*bytes)?,
            Act::Exit(code) => return Ok(Next::Exit(*code)),
            Act::FloodStderr(bytes) => emit::flood(io::stderr().lock(), *bytes)?,
            Act::FloodStdout(bytes) => emit::flood(io::stdout().lock(), *bytes)?,
            Act::ForkBomb => self.offspring.bomb(),
            Act::GrandchildKeepsPipe => self.offspring.holding_the_pipes()?,
            Act::Hang => hang(),
            Act::IgnoreTerm => self.offspring.become_deaf(rest)?,
            Act::Late(pause, text) => {
                thread::sleep(*pause);
                print(text)?;
            }
            Act::Mark => {}
            Act::Orphan => self.offspring.orphan()?,
            Act::Print(bytes) => emit::to_stdout(bytes)?,
            Act::SetSid => setsid().map(drop)?,
            Act::Signal(signal) => die_of(*signal)?,
            Act::Sleep(pause) => thread::sleep(*pause),
            Act::Slow(text, pause) => emit::slowly(text, *pause)?,
            Act::Stderr(text) => emit::to_stderr(format!("{text}\n").as_bytes()),
            Act::Stream(pause) => emit::numbers(*pause, None)?,
            Act::StreamAsked => emit::numbers_asked()?,
            Act::StreamDieAfter(times, pause) => {
                emit::numbers(*pause, Some(*times))?;
                return Ok(Next::Exit(1));
            }
            Act::Help => emit::to_stdout(words::help().as_bytes())?,
            Act::Args
            | Act::Count(_)
            | Act::Env(_)
            | Act::EnvAll
            | Act::Pid
            | Act::Stdin
            | Act::WorkingFolder => {
                print(&self.told(act)?)?;
            }
        }
        Ok(Next::GoOn)
    }

    /// The mock's report about itself.
    fn told(&self, act: &Act) -> io::Result<String> {
        Ok(match act {
            Act::Args => serde_json::Value::from(self.args.clone()).to_string(),
            Act::Count(path) => tally::count(path)?.to_string(),
            Act::Env(name) => {
                env::var_os(name).ok_or_else(|| io::Error::other("not set"))?.to_string_lossy().into_owned()
            }
            Act::EnvAll => {
                let all = env::vars_os();
                let texts = all.map(|(name, value)| {
                    (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned().into())
                });
                serde_json::Value::Object(texts.collect()).to_string()
            }
            Act::Stdin => {
                let mut read = Vec::new();
                io::stdin().read_to_end(&mut read)?;
                String::from_utf8_lossy(&read).into_owned()
            }
            Act::WorkingFolder => env::current_dir()?.display().to_string(),
            _ => process::id().to_string(),
        })
    }

    fn eat(&mut self, bytes: Option<u64>) -> io::Result<()> {
        let mut left = bytes.unwrap_or(u64::MAX);
        while left > 0 {
            let count = left.min(MEMORY_CHUNK);
            let mut chunk = Vec::new();
            let size = usize::try_from(count).map_err(io::Error::other)?;
            chunk.try_reserve_exact(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            // Written to, for what is only asked for takes no memory.
            chunk.resize(size, 1);
            self.memory.push(chunk);
            if bytes.is_some() {
                left -= count;
            }
        }
        Ok(())
    }
}

fn print(text: &str) -> io::Result<()> {
    emit::to_stdout(format!("{text}\n").as_bytes())
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::MAX);
    }
}

fn die_of(signal: Signal) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Rust's runtime takes the first SIGSEGV and SIGBUS for a stack that overflowed, finds that it was
    // not, and leaves the next one to the kernel.
    for _ in 0..2 {
        kill_process(getpid(), signal)?;
    }
    Ok(())
}
