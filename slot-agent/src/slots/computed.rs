//! One evaluation of a formula, as if it were the run of a program.

use estimand_api::registration::{Mode, Registration};
use estimand_dialects::Answer;

use super::Context;
use super::attempt::Attempt;
use super::formula::{failed_for, waits_for};
use super::verdict::{self, Verdict};
use super::version::Shared;
use crate::derive::{Formula, Round};

/// Evaluates it over what is known now.
pub async fn attempt(context: &Context, shared: &Shared) -> Attempt {
    let registration = &shared.registered.registration;
    let started_at = context.clock.now_micros();
    let evaluated = async {
        match Formula::read(registration) {
            Ok(formula) => context.derive.once(formula).await,
            Err(reason) => Err(reason),
        }
    };
    let verdict = tokio::select! {
        round = evaluated => match round {
            Ok(round) => judge(registration, round),
            Err(reason) => Verdict::Failed(reason),
        },
        () = shared.ends().requested() => Verdict::Stopped,
    };
    let ended_at = context.clock.now_micros().max(started_at);
    Attempt { argv: shown(registration), started_at, ended_at, captured: None, verdict }
}

/// The mode, and the text as it was registered.
fn shown(registration: &Registration) -> Vec<String> {
    let mode = if registration.mode == Mode::Expr { "expr" } else { "builtin" };
    vec![mode.to_owned(), registration.cmd.text()]
}

fn judge(registration: &Registration, round: Round) -> Verdict {
    let Round { answers, failures, broken, waits } = round;
    match (broken, failed_for(&failures)) {
        (Some(reason), _) => return Verdict::Failed(reason),
        (None, Some(reason)) if answers.is_empty() => return Verdict::Failed(reason),
        (None, None) if answers.is_empty() && waits.0 > 0 => return Verdict::Silent(waits_for(&waits.1)),
        _ => {}
    }
    let answers = answers.into_iter().map(|answer| (answer.node, answer.value.to_string().into_boxed_str()));
    match (verdict::judge(registration, Ok(Answer::PerNode(answers.collect()).into())), failed_for(&failures))
    {
        (Verdict::Good(answer, None), Some(reason)) => {
            Verdict::Good(answer, Some(format!("failed {reason}")))
        }
        (verdict, _) => verdict,
    }
}
