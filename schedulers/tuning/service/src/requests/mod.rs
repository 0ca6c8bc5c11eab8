//! The requests that the writer decides, one after the other: each purely, on what is stored.

mod create;
mod report;
mod steer;
mod take;
mod tell;
mod tidy;

pub use create::{Create, CreateOutcome};
pub use report::{ReportValue, StopVerdict};
pub use steer::{Steer, Step};
pub use take::{Take, TakeOutcome};
pub use tell::{Tell, TrialEnding};
pub use tidy::{CutDeleted, EndByTime, FailSilent};

use estimand_api::share::ShareKind;
use estimand_tuning::TrialNumber;
use estimand_web::Scope;

use crate::change::{Change, Edit, Rejection};
use crate::study::{Study, StudyState};
use crate::table::Table;
use crate::trial::{Trial, TrialProgress};

/// The bytes that all studies have at most together; a user has a part of them.
pub const MAX_BYTES: u64 = 1 << 30;

/// The study of this id, if a caller sees it.
fn find<'t>(table: &'t Table, scope: &Scope, id: &str) -> Result<&'t Study, Rejection> {
    table.find(scope, id).ok_or_else(|| Rejection::Unknown(id.to_owned()))
}

fn trial(study: &Study, number: TrialNumber) -> Result<&Trial, Rejection> {
    let unknown = || Rejection::UnknownTrial { study: study.definition.document.id.clone(), trial: number };
    Ok(study.trials.get(number).ok_or_else(unknown)?)
}

/// Refuses bytes beyond the share of a user, or beyond what all have together.
fn check_bytes(table: &Table, scope: &Scope, user: Option<&str>, more: u64) -> Result<(), Rejection> {
    let used = table.bytes_of(user);
    let share = scope.check_share(ShareKind::StudyBytes, used, more, MAX_BYTES);
    share.map_err(|problem| Rejection::Share(Box::new(problem)))?;
    let all = table.bytes();
    if all.saturating_add(more) > MAX_BYTES { Err(Rejection::TooManyBytes(all)) } else { Ok(()) }
}

/// The end of a trial, and that of its study if a rule says so.
fn ended(study: &Study, trial: TrialNumber, progress: TrialProgress, at: i64) -> Change {
    let number = study.definition.number;
    let is_over = study.progress.state == StudyState::Over;
    let reason = study.end_reason(trial, &progress).filter(|_| !is_over);
    let over = reason.map(|reason| Edit::Study { study: number, progress: study.progress.over(reason, at) });
    let end = Edit::Ended { study: number, trial, progress, at };
    Change(std::iter::once(end).chain(over).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
