//! A process that outlives the one that started it.
//!
//! It is another copy of the same binary, which starts a launcher of its own for what it runs, so there is one way in
//! which anything is started and ended. It gets nothing of its parent's: no terminal, no descriptor, no environment. It is
//! told on its standard input what it is to do, and that ends when its parent does.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::{LaunchError, privileges, process};

/// A process that goes on when this one ends.
#[derive(Debug)]
pub struct Detached {
    child: Child,
    /// None when it is to be told nothing more.
    input: Option<ChildStdin>,
}

impl Detached {
    /// Starts it. It calls [`detach`] before anything else. What it says on standard error is written to a file,
    /// because a pipe's reader would wait for its end.
    pub fn start(program: &Path, args: &[OsString], errors: File) -> Result<Self, LaunchError> {
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|source| LaunchError::Start { program: program.to_owned(), source })?;
        let input = child.stdin.take();
        Ok(Detached { child, input })
    }

    /// Tells it something, which is shorter than the buffer of a pipe. Blocking while it does not read.
    pub fn tell(&mut self, text: &[u8]) -> io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(text),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Tells it that nothing more comes.
    pub fn dismiss(&mut self) {
        self.input = None;
    }

    /// True if it has ended; it is reaped then.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// Makes this process independent of the one that started it, and closes its memory to others: before it opens anything.
pub fn detach() -> io::Result<()> {
    process::close_from(3);
    // Fails only if it leads one already. What ends its parent's session does not reach it.
    let _ = rustix::process::setsid();
    privileges::seal()
}
