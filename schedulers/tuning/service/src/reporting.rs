//! A report is stored, and judged by the pruner of its study without holding the lock of the table.

use estimand_api::problem::Problem;
use estimand_service::Writer;
use tokio::task::spawn_blocking;

use crate::proposing::is_pruned;
use crate::requests::{ReportValue, StopVerdict};
use crate::writer::StudiesState;

/// Trials from which on a verdict is not left to the thread that answers requests.
const JUDGED_AT_ONCE: u64 = 256;

/// Stores a report, and says whether the trial should stop. Once it should, it always should.
pub async fn report(writer: &Writer<StudiesState>, report: ReportValue) -> Result<bool, Problem> {
    let trial = report.trial;
    let (definition, trials) = writer.submit(report).await?;
    if trials.get(trial).is_some_and(|trial| trial.progress.stop) {
        return Ok(true);
    }
    let study = definition.number;
    let is_quick = trials.next() < JUDGED_AT_ONCE;
    let judge = move || is_pruned(&definition, &trials, trial);
    let stop =
        if is_quick { judge() } else { spawn_blocking(judge).await.map_err(|_| Problem::internal())? };
    if stop {
        writer.submit(StopVerdict { study, trial }).await?;
    }
    Ok(stop)
}
