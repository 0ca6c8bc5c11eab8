//! One run, from finding its program to reading its output. What becomes of it is for the caller: a scheduled
//! run writes its values, a run by hand shows them.

use std::time::Duration;

use estimand_api::registration::{Format, Registration};
use estimand_api::slot::MAX_STATUS_STDERR_BYTES;
use estimand_dialects::{self as dialects, Answer, Output};
use tokio::time::Instant;

use super::disk::RunDisk;
use super::explanation::explanation;
use super::verdict::{self, Verdict};
use super::version::Shared;
use super::{Context, plan};
use crate::allow::ProgramError;
use crate::environment::{self, Surroundings};
use crate::program::Program;
use estimand_exec::{
    self as exec, CaptureLimits, CapturedRun, Cell, DirRights, EndReason, ExceededLimit, Exit, RunSpec,
    SpawnError, Stdin,
};

/// The most of standard error that is kept, of its end, to look for an explanation there.
pub const MAX_STDERR_BYTES: usize = 16 * 1024;
/// Between the request to end and the end.
pub const GRACE: Duration = Duration::from_secs(1);

/// A run that is over, with its output.
pub struct Attempt {
    pub argv: Vec<String>,
    /// Microseconds since 1970.
    pub started_at: i64,
    pub ended_at: i64,
    /// None if nothing could be started.
    pub captured: Option<CapturedRun>,
    pub verdict: Verdict,
}

/// Starts its program once.
pub async fn attempt(context: &Context, shared: &Shared) -> Attempt {
    let registration = &shared.registered.registration;
    let argv = shared.argv.clone();
    let started_at = context.clock.now_micros();
    let over = |captured, verdict| Attempt {
        argv: argv.clone(),
        started_at,
        ended_at: context.clock.now_micros().max(started_at),
        captured,
        verdict,
    };
    let timeout = Duration::from_micros(plan::timeout_us(registration).unwrap_or(30_000_000));
    let within = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
    let deadline = context.machine_clock.now_micros().saturating_add(within);
    let guard = shared.cell(&context.launcher).await;
    let Some(cell) = &*guard else { return over(None, Verdict::Stopped) };
    let spec = match run_spec(context, shared, cell, Some(deadline), Stdin::Null).await {
        Ok(spec) => spec,
        Err(ProgramError::Missing(reason)) => return over(None, Verdict::Missing(reason)),
        Err(ProgramError::NotNow(reason)) => return over(None, Verdict::Failed(reason)),
        Err(ProgramError::Refused(reason)) => return over(None, Verdict::Refused(reason)),
    };
    let capture = CaptureLimits {
        timeout,
        grace: GRACE,
        max_stdout: dialects::of(registration.format).most_output(),
        max_stderr: MAX_STDERR_BYTES,
    };
    let folder = context.home.folder_of(registration.data_name.as_str());
    let disk = RunDisk::new(folder, registration.limits.disk);
    let ends = async {
        tokio::select! {
            () = shared.ends().requested() => {}
            () = disk.exceeded() => {}
        }
    };
    let captured = tokio::select! {
        captured = exec::capture(&context.launcher, spec, &capture, ends) => captured,
        // Dropping the capture ends its processes without asking.
        () = shared.ends_at_once().requested() => return over(None, Verdict::Stopped),
    };
    match captured {
        Ok(captured) => {
            let verdict = match disk.settle().await {
                Some(reason) => Verdict::Failed(reason),
                None => {
                    let verdict = judge(&captured, registration, timeout);
                    let advice = context.denial_advice(&reports(&captured, registration, &verdict));
                    verdict.advised(advice)
                }
            };
            over(Some(captured), verdict)
        }
        Err(error) => over(None, Verdict::Failed(not_started(context, &error))),
    }
}

/// The program to run, and its surroundings.
pub async fn run_spec<'c>(
    context: &Context,
    shared: &Shared,
    cell: &'c Cell,
    deadline: Option<i64>,
    stdin: Stdin,
) -> Result<RunSpec<'c>, ProgramError> {
    let registration = &shared.registered.registration;
    if let Some(name) = registration.withheld().next() {
        return Err(ProgramError::Refused(format!(
            "it is not run: the value of its secret `{name}` did not come with it"
        )));
    }
    let argv = shared.argv.clone();
    let word = argv.first().map_or("", String::as_str);
    context.allow_env.check(word, registration.env.keys().map(String::as_str))?;
    let Program { path: program, file } = match registration.upload {
        Some(upload) => context.uploads.program(word, upload).await?,
        None => context.programs.find(word, registration.sha256).await?,
    };
    let folder = context.home.slot_folder(registration.data_name.as_str());
    let dir = folder.map_err(|e| ProgramError::NotNow(format!("the slot has no folder to run in: {e}")))?;
    context.reserve.check(&[&dir, context.home.path()]).map_err(ProgramError::NotNow)?;
    let server = context.server.borrow().clone();
    let user = context.run_as.as_ref().and_then(|run_as| run_as.name.as_deref());
    let around = Surroundings { server: &server, node: &context.node, folder: &dir, user, deadline };
    let env = environment::variables(&shared.registered, &around);
    let until = shared.leased.then(|| context.lease_end()).flatten();
    let dir_rights = DirRights::Agent;
    let until = until.map(Instant::into_std);
    Ok(RunSpec { program, file, argv, env, dir, dir_rights, stdin, cell, until })
}

/// Why nothing was started, with what this agent's operator has to do with it.
pub fn not_started(context: &Context, error: &SpawnError) -> String {
    let denied = matches!(error, SpawnError::Permission(_) | SpawnError::Directory { .. });
    match &context.run_as {
        Some(run_as) if denied => format!("{error} (it runs as the user `{run_as}`)"),
        None if denied && context.drops_root => format!(
            "{error} (it runs as root without capabilities; `--keep-capability cap_dac_read_search` gives it the one to \
             go wherever root may)"
        ),
        _ => error.to_string(),
    }
}

fn judge(captured: &CapturedRun, registration: &Registration, timeout: Duration) -> Verdict {
    match captured.reason {
        EndReason::Stopped => return Verdict::Stopped,
        EndReason::TimedOut => {
            return Verdict::TimedOut(format!(
                "it did not end within {timeout:?} and was ended{}",
                because(&captured.stderr_tail)
            ));
        }
        EndReason::Completed => {}
    }
    if let Some(limit) = captured.outcome.exceeded {
        return Verdict::Failed(over_limit(limit).to_owned());
    }
    let dialect = dialects::of(registration.format);
    let exit = match captured.outcome.exit {
        Exit::Code(code) if takes_exit(registration, dialect, code) => code,
        other => {
            return Verdict::Failed(format!("it ended with {}{}", exit_text(other), why(captured)));
        }
    };
    let (kept, total) = (captured.stdout.len() as u64, captured.stdout_total);
    if total > kept {
        return Verdict::Failed(format!("it printed {total} bytes; at most {kept} are taken"));
    }
    let read = dialect.read(Output { stdout: &captured.stdout, exit }).map_err(|reason| {
        // An interpreter that cannot run its script says so on stderr alone.
        if captured.stdout.trim_ascii().is_empty() {
            format!("{reason}{}", because(&captured.stderr_tail))
        } else {
            dialects::explained(reason, &captured.stdout)
        }
    });
    match verdict::judge(registration, read) {
        Verdict::Good(Answer::Nothing, note) => Verdict::Silent(silence(captured, note)),
        verdict => verdict,
    }
}

fn takes_exit(registration: &Registration, dialect: &dyn dialects::Dialect, code: i32) -> bool {
    if registration.ok_exits.is_empty() {
        dialect.takes_exit(code)
    } else {
        u8::try_from(code).is_ok_and(|code| registration.ok_exits.contains(&code))
    }
}

/// The explanation of a bad exit. Some programs say on stdout what went wrong, and others print a good document there.
fn why(captured: &CapturedRun) -> String {
    let said = because(&captured.stderr_tail);
    if !said.is_empty() {
        return said;
    }
    match serde_json::from_slice::<serde_json::Value>(&captured.stdout) {
        Ok(document) if document.is_object() || document.is_array() => {
            ", and printed JSON all the same: if that is good, `okExits` names this exit".to_owned()
        }
        _ => because(&captured.stdout),
    }
}

/// The output that may tell of a denial: standard error, and standard output where a program reports there.
fn reports(captured: &CapturedRun, registration: &Registration, verdict: &Verdict) -> Vec<u8> {
    let is_report = registration.format == Format::Nagios || matches!(verdict, Verdict::Failed(_));
    if is_report {
        [&captured.stderr_tail, &b"\n"[..], &captured.stdout].concat()
    } else {
        captured.stderr_tail.clone()
    }
}

/// The reason why a run that ended well gave no value.
fn silence(captured: &CapturedRun, note: Option<String>) -> String {
    let printed = if captured.stdout.trim_ascii().is_empty() {
        "printed nothing"
    } else {
        "printed nothing that is a value"
    };
    let reason = note.map_or_else(|| because(&captured.stderr_tail), |note| format!(": {note}"));
    format!("it ended with {} and {printed}{reason}", exit_text(captured.outcome.exit))
}

/// For which limit something was killed.
pub fn over_limit(limit: ExceededLimit) -> &'static str {
    match limit {
        ExceededLimit::Memory => "it was killed because it reached its limit of memory",
        ExceededLimit::Processes => "it was killed because it had more processes than it may",
    }
}

/// How a process ended, as a status says it.
pub fn exit_text(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Lost => "an unknown end (the launcher died)".to_owned(),
    }
}

/// `: ` and the line of standard error that explains most, if anything was written there.
pub fn because(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    explanation(&text).map_or_else(String::new, |line| format!(": {}", estimand_api::problem::shorten(line)))
}

/// As much of the end of standard error as a status carries.
pub fn stderr_shown(stderr: &[u8]) -> String {
    let mut start = stderr.len().saturating_sub(MAX_STATUS_STDERR_BYTES);
    if start > 0 {
        // Not in the middle of a character.
        start += stderr[start..].iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    }
    String::from_utf8_lossy(&stderr[start..]).into_owned()
}
