//! A child process that lives as long as its standard input is open, with its lines and its log.
//!
//! So it ends with the demo, however that ends. Each is in a process group of its own: a Ctrl-C in the terminal reaches
//! only the demo, which then ends the others in order. Their standard error goes to a file.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use estimand_api::access::{TOKEN_VARIABLE, Token};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::host;

/// The longest wait for a process's first line.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// A host ends what it runs within its own patience; then it is its turn.
const END_PATIENCE: Duration = host::PATIENCE.saturating_add(Duration::from_secs(4));
/// An error shows so much of the end of the log.
const SHOWN_BYTES: usize = 2_000;

#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    /// Kept open, so that the process can always write.
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("{name} cannot be started: {cause}")]
    Start { name: String, cause: io::Error },
    #[error("{name} {what}; the end of its log:\n{log}")]
    Failed { name: String, what: String, log: String },
}

impl ChildProcess {
    pub fn start(
        name: &str,
        program: &Path,
        args: Vec<OsString>,
        token: Option<&Token>,
        log: PathBuf,
    ) -> Result<ChildProcess, ChildError> {
        let spawn = || {
            let mut command = Command::new(program);
            // Settings for the user's own commands are not meant for the demo's cluster.
            for (variable, _) in std::env::vars_os() {
                let is_ours = variable.to_str().is_some_and(|name| name.starts_with("ESTIMAND_"));
                if is_ours && variable != "ESTIMAND_LOG" {
                    command.env_remove(variable);
                }
            }
            if let Some(token) = token {
                command.env(TOKEN_VARIABLE, token.expose());
            }
            command.args(args).process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
            let mut child = command.spawn()?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            let stdout = stdout.ok_or_else(|| io::Error::other("it has no standard output"))?;
            Ok((child, stdin, BufReader::new(stdout).lines()))
        };
        let failed = |cause| ChildError::Start { name: name.to_owned(), cause };
        let (child, stdin, lines) = spawn().map_err(failed)?;
        Ok(ChildProcess { name: name.to_owned(), child, stdin, lines, log })
    }

    /// The next line of its standard output.
    pub async fn line(&mut self) -> Result<String, ChildError> {
        match timeout(START_PATIENCE, self.lines.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(_) => Err(self.failed("ended")),
            Err(_) => Err(self.failed("wrote nothing in time")),
        }
    }

    pub async fn tell(&mut self, line: &str) -> Result<(), ChildError> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        match stdin.write_all(format!("{line}\n").as_bytes()).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(&format!("reads nothing ({error})"))),
        }
    }

    /// Lets it end; `end` waits for that.
    pub fn let_go(&mut self) {
        self.stdin = None;
    }

    /// True if it ended in time, and not by force.
    pub async fn end(&mut self) -> bool {
        self.let_go();
        if timeout(END_PATIENCE, self.child.wait()).await.is_ok() {
            return true;
        }
        let _ = self.child.kill().await;
        false
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn failed(&self, what: &str) -> ChildError {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let last = &log[log.len().saturating_sub(SHOWN_BYTES)..];
        let log = String::from_utf8_lossy(last).trim_end().to_owned();
        ChildError::Failed { name: self.name.clone(), what: what.to_owned(), log }
    }
}
