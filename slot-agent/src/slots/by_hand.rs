//! A run that somebody asked for: it takes the slot's turn, shows everything and stores nothing.

use std::sync::Arc;

use estimand_api::assignment::AssignedRegistration;
use estimand_api::registration::{Mode, RegistrationRecord};
use estimand_api::slot::{MAX_REPORT_OUTPUT_BYTES, RunReport, RunValue};

use super::Context;
use super::attempt::{Attempt, exit_text};
use super::run_once::run_once;
use super::unsupported::not_supported;
use super::verdict::Verdict;
use super::version::Shared;
use estimand_dialects::Answer;

/// The registration to run, or the reason why it is not run by hand.
pub fn runnable(assigned: &AssignedRegistration) -> Result<&Arc<RegistrationRecord>, String> {
    let registered = match assigned {
        AssignedRegistration::Supported(registered) => registered,
        AssignedRegistration::Unsupported(unsupported) => return Err(not_supported(unsupported)),
    };
    match registered.registration.mode {
        Mode::Exec | Mode::Builtin | Mode::Expr => Ok(registered),
        Mode::Stream => {
            Err("a stream is one process that goes on; `estimand logs` shows what it says on stderr"
                .to_owned())
        }
    }
}

/// Runs it, and keeps the report small enough to be sent.
pub async fn run(context: Arc<Context>, shared: Arc<Shared>) -> RunReport {
    let done = run_once(&context, &shared).await;
    shared.close_cell(&context.launcher).await;
    report(&context, done)
}

fn report(context: &Context, done: Attempt) -> RunReport {
    let Attempt { argv, started_at, ended_at, captured, verdict } = done;
    let mut report =
        RunReport { argv, duration_ms: (ended_at - started_at) as f64 / 1e3, ..RunReport::default() };
    if let Some(captured) = captured {
        let shown = captured.stdout.len().min(MAX_REPORT_OUTPUT_BYTES);
        report.exit = Some(exit_text(captured.outcome.exit));
        report.cpu_ms = captured.outcome.cpu.as_secs_f64() * 1e3;
        report.max_memory = captured.outcome.memory.unwrap_or(0);
        report.stdout = String::from_utf8_lossy(&captured.stdout[..shown]).into_owned();
        report.stdout_bytes = captured.stdout_total;
        report.stderr = String::from_utf8_lossy(&captured.stderr_tail).into_owned();
    }
    match verdict {
        Verdict::Good(answer, note) => {
            report.values = values(context, answer);
            report.note = note;
        }
        Verdict::Silent(what) => report.note = Some(what),
        Verdict::NotHere(what) => report.error = Some(format!("it is not available here: {what}")),
        Verdict::Quarantined { reason, value } => {
            report.error = Some(format!("its value is not what is declared: {reason}: {value}"));
        }
        Verdict::Missing(reason)
        | Verdict::Failed(reason)
        | Verdict::TimedOut(reason)
        | Verdict::Refused(reason) => report.error = Some(reason),
        Verdict::Stopped => report.error = Some("its slot ended".to_owned()),
    }
    report
}

fn values(context: &Context, answer: Answer) -> Vec<RunValue> {
    let value = |node_name, text: &str| RunValue {
        node_name,
        data_value: serde_json::from_str(text).unwrap_or_default(),
    };
    match answer {
        Answer::Nothing => Vec::new(),
        Answer::One(text) => vec![value(context.node.clone(), &text)],
        Answer::PerNode(answers) => answers.into_iter().map(|(node, text)| value(node, &text)).collect(),
    }
}
