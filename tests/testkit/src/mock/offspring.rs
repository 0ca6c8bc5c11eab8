//! Processes that the mock leaves behind: instances of the same program, told by words like the first.
//!
//! They are started anew rather than forked, so that the process table says of each what it does. They
//! carry the marks of the first, and have its pipes and its session unless a word says otherwise.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::{env, thread};

/// As the words of this program are passed on to the next.
pub(super) struct Offspring {
    program: String,
    marks: Vec<String>,
}

impl Offspring {
    pub(super) fn of(program: &str, args: &[String]) -> Self {
        let marks = args.iter().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with("mark:"));
        Self { program: program.to_owned(), marks: marks.cloned().collect() }
    }

    /// A child that has this process's pipes, and hangs.
    pub(super) fn holding_the_pipes(&self) -> io::Result<()> {
        self.command(&["hang"]).spawn().map(drop)
    }

    /// A process without parent, session and pipes of ours, that hangs: the child that leaves our session
    /// leaves it behind and ends.
    pub(super) fn daemon(&self) -> io::Result<()> {
        let status = self.command(&["setsid", "orphan"]).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the child in between: {status}")))
        }
    }

    /// A child that hangs, with no pipes.
    pub(super) fn orphan(&self) -> io::Result<()> {
        let mut command = self.command(&["hang"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
    }

    /// Children that do the same, for ever. A refusal of the kernel only means to try again.
    pub(super) fn bomb(&self) -> ! {
        let mut command = self.command(&["fork-bomb"]);
        loop {
            if command.spawn().is_err() {
                thread::yield_now();
            }
        }
    }

    /// Becomes a program that ignores SIGTERM and goes on with `words`: what is ignored stays so over exec.
    pub(super) fn become_deaf(&self, words: &[String]) -> io::Result<()> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "trap '' TERM; exec \"$@\"", "sh"]).arg(env::current_exe()?);
        command.args(&self.marks).args(words);
        Err(command.exec())
    }

    fn command(&self, words: &[&str]) -> Command {
        // Not the path, which a build may have replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(&self.program).args(&self.marks).args(words);
        command
    }
}
