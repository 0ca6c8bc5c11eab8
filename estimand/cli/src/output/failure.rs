//! The failures of a client command, their text, and their exit codes for scripts.
//!
//! A failure is one line, a line for each wrong field, and a hint where there is something to try. It goes to
//! standard error. A reader of standard output that has gone (`| head`) is not a failure.

use std::io::{self, Write as _};
use std::process::ExitCode;

use estimand_api::problem::Problem;
use estimand_client as client;
use estimand_pki::PkiError;

use super::harmless::visible;

/// How a command ends, for scripts. The codes are part of the interface: `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0
    Done,
    /// 1
    Failed,
    /// 2; clap ends with the same code.
    Usage,
    /// 3
    Missing,
    /// 4
    Conflict,
    /// 5
    Refused,
    /// 6
    Unreachable,
    /// That of the command which ran as a task.
    OfTask(u8),
}

/// A failure of a client command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] client::Error),
    /// There is nothing of that name, in words.
    #[error("{0}")]
    Missing(String),
    /// Something was left out that is needed here, in words.
    #[error("{0}")]
    Usage(String),
    /// A collector failed, in words.
    #[error("{0}")]
    NotMeasured(String),
    /// The values allow no plan, in words.
    #[error("{0}")]
    NotPlanned(String),
    /// A job was not done, or not all of it, in words.
    #[error("{why}")]
    NotRun { why: String, exit: Exit },
    #[error("cannot read {name}: {source}")]
    Read { name: String, source: io::Error },
    #[error("cannot write {name}: {source}")]
    Write { name: String, source: io::Error },
    /// Files of configuration are wrong; each line says where.
    #[error("the configuration is not right")]
    Configuration(Vec<String>),
    /// With certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("cannot go on: {0}")]
    Io(#[from] io::Error),
    /// With something to try.
    #[error("{failure}")]
    Hinted { failure: Box<Failure>, hint: String },
    /// One of several things failed, and that was said already.
    #[error("not everything was done")]
    Said(Exit),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Missing => 3,
            Exit::Conflict => 4,
            Exit::Refused => 5,
            Exit::Unreachable => 6,
            Exit::OfTask(code) => code,
        })
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Client(Box::new(problem).into())
    }
}

impl Failure {
    /// The same with something to try.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Failure::Hinted { failure: Box::new(self), hint: hint.into() }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Failure::Client(error) => match error {
                client::Error::Problem(problem) => match problem.status {
                    404 => Exit::Missing,
                    409 => Exit::Conflict,
                    400 | 401 | 403 | 413 => Exit::Refused,
                    503 => Exit::Unreachable,
                    _ => Exit::Failed,
                },
                client::Error::Unreachable { .. } | client::Error::Untrusted { .. } => Exit::Unreachable,
                client::Error::Address(_) | client::Error::Files(_) | client::Error::Token(_) => Exit::Usage,
                client::Error::Unexpected { .. } | client::Error::Tls(_) => Exit::Failed,
            },
            Failure::Missing(_) => Exit::Missing,
            Failure::Configuration(_) => Exit::Refused,
            Failure::Usage(_) => Exit::Usage,
            Failure::Pki(PkiError::Exists(_)) => Exit::Conflict,
            Failure::Pki(PkiError::Name(_)) => Exit::Refused,
            Failure::Pki(_) => Exit::Failed,
            Failure::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Failure::NotMeasured(_) | Failure::NotPlanned(_) => Exit::Failed,
            Failure::Read { .. } | Failure::Write { .. } | Failure::Io(_) => Exit::Failed,
            Failure::Hinted { failure, .. } => failure.exit(),
            Failure::NotRun { exit, .. } | Failure::Said(exit) => *exit,
        }
    }

    /// Prints it and returns the exit code.
    pub fn report(&self) -> Exit {
        let _ = io::stderr().write_all(self.text().as_bytes());
        self.exit()
    }

    /// Its lines; none if it was printed already.
    fn text(&self) -> String {
        let (first, mut rest) = match self {
            Failure::Said(_) => return String::new(),
            Failure::Io(_) if self.exit() == Exit::Done => return String::new(),
            Failure::Hinted { failure, hint } => return failure.text() + &hint_line(hint),
            Failure::Client(client::Error::Problem(problem)) => problem_lines(problem),
            Failure::Configuration(errors) => {
                (self.to_string(), errors.iter().map(|error| format!("  {error}")).collect())
            }
            other => (other.to_string(), Vec::new()),
        };
        if let Failure::Client(client::Error::Unreachable { .. }) = self {
            let hint = "is it running? `estimand up` starts one; --server or ESTIMAND_SERVER names another";
            rest.push(format!("hint: {hint}"));
        }
        let mut text = format!("error: {}\n", visible(&first));
        rest.iter().for_each(|line| text.push_str(&format!("{}\n", visible(line))));
        text
    }
}

/// The line that says what to try.
pub fn hint_line(hint: &str) -> String {
    format!("hint: {}\n", visible(hint))
}

/// The detail of a problem that has wrong fields repeats the first of them, so its title stands instead.
fn problem_lines(problem: &Problem) -> (String, Vec<String>) {
    let first = match problem.errors.is_empty() {
        true => problem.detail.clone(),
        false => uncapitalized(&problem.title),
    };
    let mut rest: Vec<String> = problem.errors.iter().map(|error| format!("  {error}")).collect();
    if let Some(seconds) = problem.retry_after {
        rest.push(format!("hint: it asks to be tried again in {seconds} s"));
    }
    // Only of an internal error does the log of the service say more.
    if let (500, Some(id)) = (problem.status, &problem.request_id) {
        rest.push(format!("hint: the log of the service knows this request as {id}"));
    }
    (first, rest)
}

fn uncapitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use estimand_api::problem::FieldError;

    use super::*;

    fn check(failure: &Failure, exit: Exit, expected: &str) {
        assert_eq!((failure.text().as_str(), failure.exit()), (expected, exit));
    }

    #[test]
    fn each_wrong_field_has_its_line() {
        let wrong = Problem::invalid(vec![
            FieldError::new("timeout", "is out of range").given("0").expected("more than 0"),
            FieldError::new("cmd", "is missing"),
        ]);
        check(
            &wrong.into(),
            Exit::Refused,
            "error: the request is not valid\n  timeout: is out of range, given 0; expected more than 0\n  \
             cmd: is missing\n",
        );
    }

    #[test]
    fn failures_that_scripts_tell_apart_have_their_own_codes() {
        check(&Problem::not_found("there is no `x`").into(), Exit::Missing, "error: there is no `x`\n");
        let conflict = Failure::from(Problem::conflict("`x` is taken")).hint("try another");
        check(&conflict, Exit::Conflict, "error: `x` is taken\nhint: try another\n");
        let unready = Problem::unavailable("the values are not loaded yet", 1).into();
        check(
            &unready,
            Exit::Unreachable,
            "error: the values are not loaded yet\nhint: it asks to be tried again in 1 s\n",
        );
        let address = client::Error::Address("x".to_owned());
        assert_eq!(Failure::from(address).exit(), Exit::Usage);
    }

    #[test]
    fn a_reader_that_has_gone_ends_the_command_quietly() {
        check(&Failure::Io(io::ErrorKind::BrokenPipe.into()), Exit::Done, "");
    }

    #[test]
    fn a_service_cannot_write_to_the_terminal_through_a_message() {
        let problem = Problem::conflict("a\u{1b}[2Jb\nc");
        check(&problem.into(), Exit::Conflict, "error: a\\u{1b}[2Jb\\nc\n");
    }
}
