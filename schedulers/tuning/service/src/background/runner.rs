//! Runs the trials of studies that have a task. It keeps nothing: each round compares trials with the tasks that have the labels
//! of studies, submits what is missing, tells what has ended, and takes away what nobody needs any more. Each may be done again.
//!
//! A trial says how far it is as any task does, `estimand-progress {"step": 3, "values": {"accuracy": 0.9}}`: the study's
//! objective is one of the values, and the last that a task says is its trial's result. One reader hears the trials of all studies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::{Problem, kind};
use estimand_api::task_record::TaskRecord;
use estimand_client::{Client, Error, PeerError, TaskQuery, within};
use estimand_runtime::{Next, Work};
use estimand_service::Writer;
use estimand_tuning::Report;
use estimand_web::Scope;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;

use super::trial_reports::{ANSWER_WITHIN, PAGE, TrialReports, measure_of, report_of};
use crate::asking::{Question, ask};
use crate::document::{STUDY_LABEL, trial_of};
use crate::reporting::report;
use crate::requests::{ReportValue, Steer, Step, Tell, TrialEnding};
use crate::shared::Shared;
use crate::study::{Definition, Study, StudyState};
use crate::trial::Trial;
use crate::writer::StudiesState;

/// A round waits so long for new trials.
const ASK_WITHIN: Duration = Duration::from_secs(2);
/// The pruner's word, as long as a task runs.
const STOPPING: &str = "STOPPING";

pub struct Runner {
    pub shared: Arc<Shared>,
    pub writer: Writer<StudiesState>,
    pub reports: TrialReports,
    /// True if the round before saw tasks.
    pub has_tasks: bool,
}

/// A study with a task, as a round finds it.
struct TaskStudy {
    definition: Arc<Definition>,
    is_over: bool,
    running: Vec<Arc<Trial>>,
    /// The number of trials that may run beside those.
    free: u64,
}

impl TaskStudy {
    fn new(study: &Study) -> Option<TaskStudy> {
        let document = &study.definition.document;
        document.task.as_ref()?;
        let running: Vec<_> =
            study.running.iter().filter_map(|trial| study.trials.get(*trial).cloned()).collect();
        Some(TaskStudy {
            definition: Arc::clone(&study.definition),
            is_over: study.progress.state == StudyState::Over,
            free: document.parallel.saturating_sub(running.len() as u64).min(study.room()),
            running,
        })
    }

    fn trials(&self) -> impl Iterator<Item = (&TaskStudy, &Arc<Trial>)> {
        self.running.iter().map(move |trial| (self, trial))
    }
}

/// Tasks by the numbers of study and trial.
type Tasks = BTreeMap<(u64, u64), TaskRecord>;

impl Work for Runner {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let Some(client) = self.shared.tasks.get() else { return Ok(Next::Period) };
        if !self.shared.table.is_loaded() {
            return Ok(Next::Period);
        }
        let client = client.clone();
        self.ask_for_trials().await;
        let (mut tasks, standings) = self.look(&client).await?;
        let listed: HashSet<String> = tasks.values().map(|task| task.id.clone()).collect();
        let mut trouble = None;
        let mut new = HashSet::new();
        if !standings.is_empty() {
            new = self.reports.read(&client).await?;
        }
        for (standing, trial) in standings.iter().flat_map(TaskStudy::trials) {
            let task = tasks.remove(&(standing.definition.number, trial.number));
            keep_first(&mut trouble, self.step(&client, standing, trial, task).await)?;
        }
        self.has_tasks = !standings.is_empty() || !tasks.is_empty();
        for task in tasks.into_values() {
            keep_first(&mut trouble, self.take_away(&client, &task).await)?;
        }
        // Tasks that were submitted after the list are on the next one; others are no trials'.
        self.reports.by_task.retain(|id, _| listed.contains(id) || new.contains(id));
        trouble.map_or(Ok(Next::Period), Err)
    }
}

/// Keeps the first problem of a round, which goes on with the other trials; whatever else went wrong ends it.
fn keep_first(trouble: &mut Option<PeerError>, done: Result<(), PeerError>) -> Result<(), PeerError> {
    match done {
        Err(error @ PeerError::Client(Error::Problem(_))) => {
            trouble.get_or_insert(error);
            Ok(())
        }
        other => other,
    }
}

impl Runner {
    fn standings(&self) -> Vec<TaskStudy> {
        self.shared.table.look(|table| table.all().filter_map(TaskStudy::new).collect())
    }

    /// Fills the free places of all studies, as far as there are proposals soon.
    async fn ask_for_trials(&self) {
        let free: Vec<TaskStudy> =
            self.standings().into_iter().filter(|standing| standing.free > 0).collect();
        let asked = free.iter().map(|standing| {
            let id = standing.definition.document.id.clone();
            let question = Question { id, scope: Scope::default(), count: standing.free, key: None };
            timeout(ASK_WITHIN, ask(&self.shared, &self.writer, question))
        });
        for answer in join_all(asked).await {
            if let Ok(Err(problem)) = answer {
                tracing::debug!(%problem, "a study gives no trials to its tasks");
            }
        }
    }

    /// The trials that run, and then the tasks of all trials: a trial whose task is not listed has none.
    async fn look(&self, client: &Client) -> Result<(Tasks, Vec<TaskStudy>), PeerError> {
        let standings = self.standings();
        let mut tasks = Tasks::new();
        if standings.is_empty() && !self.has_tasks {
            return Ok((tasks, standings));
        }
        let mut query =
            TaskQuery { labels: STUDY_LABEL.to_owned(), limit: Some(PAGE), ..TaskQuery::default() };
        let users: HashMap<u64, Option<&str>> = standings
            .iter()
            .map(|standing| (standing.definition.number, standing.definition.user()))
            .collect();
        // Labels are anybody's to give: a task of another user is no trial's.
        let is_own = |study: u64, task: &TaskRecord| {
            users.get(&study).is_none_or(|user| task.document.get("user").and_then(Value::as_str) == *user)
        };
        loop {
            let page = within(ANSWER_WITHIN, client.tasks(&query)).await?;
            let known = page.tasks.into_iter().filter_map(|task| Some((trial_of(&task.document)?, task)));
            tasks.extend(known.filter(|((study, _), task)| is_own(*study, task)));
            match page.next {
                Some(next) => query.before = Some(next),
                None => return Ok((tasks, standings)),
            }
        }
    }

    /// Does what a trial needs.
    async fn step(
        &mut self,
        client: &Client,
        standing: &TaskStudy,
        trial: &Trial,
        task: Option<TaskRecord>,
    ) -> Result<(), PeerError> {
        match task {
            None => self.begin(client, standing, trial).await,
            Some(task) => self.follow(client, standing, trial, &task).await,
        }
    }

    /// Submits the task of a trial that has none.
    async fn begin(&self, client: &Client, standing: &TaskStudy, trial: &Trial) -> Result<(), PeerError> {
        let definition = &standing.definition;
        if standing.is_over {
            return self.tell(standing, trial, failed("the study was over before it ran")).await;
        }
        let Some(task) = &definition.document.task else { return Ok(()) };
        let document = task.of_trial(definition.number, trial.number, &trial.parameters, definition.user());
        let key = format!("study {} trial {} made {}", definition.number, trial.number, definition.made_at);
        // A user's trial is the user's own task, within their shares and their highest priority.
        let submitted = match definition.user() {
            Some(user) => within(ANSWER_WITHIN, client.submit_task_on_behalf(user, &document, &key)).await,
            None => within(ANSWER_WITHIN, client.submit_task(&document, &key)).await,
        };
        match submitted {
            Ok(_) => Ok(()),
            // The trial waits until its user has room again.
            Err(PeerError::Client(Error::Problem(problem))) if problem.kind == kind::SHARE_FULL => Ok(()),
            Err(PeerError::Client(Error::Problem(problem))) if matches!(problem.status, 400 | 403 | 413) => {
                let reason = format!("its task is refused, and its study is paused: {}", problem.detail);
                self.tell(standing, trial, failed(&reason)).await?;
                self.pause(standing).await
            }
            Err(error) => Err(error),
        }
    }

    /// Pauses a study whose tasks are refused: the next ones would be, too.
    async fn pause(&self, standing: &TaskStudy) -> Result<(), PeerError> {
        let id = standing.definition.document.id.clone();
        let pause = Steer { id, scope: Scope::default(), step: Step::Pause };
        settled(self.writer.submit(pause).await.map(drop).map_err(Problem::from))
    }

    /// Hears what a trial's task says, and how it ended.
    async fn follow(
        &mut self,
        client: &Client,
        standing: &TaskStudy,
        trial: &Trial,
        task: &TaskRecord,
    ) -> Result<(), PeerError> {
        let mut last = trial.curve.last();
        let stop = self.hear(standing, trial, task, &mut last).await? | trial.progress.stop;
        if task.is_over() {
            let objective = &standing.definition.document.objective;
            let ending = match task.state.as_str() {
                "SUCCEEDED" => ending_of(task, last, objective),
                _ if stop => TrialEnding::Pruned,
                "CANCELLED" if standing.is_over => failed("the study was over"),
                "CANCELLED" => failed("its task was cancelled"),
                _ => failed(&format!("its task failed: {}", said(task))),
            };
            self.tell(standing, trial, ending).await?;
            return self.take_away(client, task).await;
        }
        if (stop || standing.is_over) && task.state != STOPPING {
            ignoring_absence(within(ANSWER_WITHIN, client.cancel_task(&task.id)).await.map(drop))?;
        }
        Ok(())
    }

    /// Stores the new reports of a task, of which `last` is the last one then; true if the trial should stop.
    async fn hear(
        &mut self,
        standing: &TaskStudy,
        trial: &Trial,
        task: &TaskRecord,
        last: &mut Option<Report>,
    ) -> Result<bool, PeerError> {
        let mut stop = false;
        let mut reports = self.reports.by_task.remove(&task.id).unwrap_or_default();
        while let Some(report) = reports.front() {
            let said = report_of(&report.progress, &standing.definition.document.objective);
            // The first are read again after a start, and by the next attempt they are said again.
            let new = said.filter(|said| last.is_none_or(|last| said.step > last.step));
            if let Some(said) = new {
                match self.report(standing, trial, said).await {
                    Ok(should) => stop |= should,
                    Err(error) => {
                        self.reports.by_task.insert(task.id.clone(), reports);
                        return Err(error);
                    }
                }
                *last = Some(said);
            }
            reports.pop_front();
        }
        Ok(stop)
    }

    async fn report(&self, standing: &TaskStudy, trial: &Trial, said: Report) -> Result<bool, PeerError> {
        let id = standing.definition.document.id.clone();
        let value = ReportValue { id, scope: Scope::default(), trial: trial.number, report: said };
        match report(&self.writer, value).await {
            Ok(stop) => Ok(stop),
            Err(problem) if problem.status < 500 => {
                tracing::debug!(%problem, "a report of a task is not taken");
                Ok(false)
            }
            Err(problem) => Err(PeerError::Writer(problem.detail)),
        }
    }

    async fn tell(&self, standing: &TaskStudy, trial: &Trial, ending: TrialEnding) -> Result<(), PeerError> {
        let id = standing.definition.document.id.clone();
        let tell = Tell { id, scope: Scope::default(), trial: trial.number, ending };
        settled(self.writer.submit(tell).await.map(drop).map_err(Problem::from))
    }

    /// Takes away a task that no trial needs: it is cancelled, and deleted once it is over.
    async fn take_away(&mut self, client: &Client, task: &TaskRecord) -> Result<(), PeerError> {
        if task.is_over() {
            return ignoring_absence(within(ANSWER_WITHIN, client.delete_task(&task.id)).await);
        }
        if task.state == STOPPING {
            return Ok(());
        }
        ignoring_absence(within(ANSWER_WITHIN, client.cancel_task(&task.id)).await.map(drop))
    }
}

/// A change that somebody else has made, or of a study that is deleted, is settled.
fn settled(done: Result<(), Problem>) -> Result<(), PeerError> {
    match done {
        Err(problem) if matches!(problem.status, 404 | 409) => Ok(()),
        Err(problem) => Err(PeerError::Writer(problem.detail)),
        Ok(()) => Ok(()),
    }
}

fn failed(reason: &str) -> TrialEnding {
    TrialEnding::Failed(reason.to_owned())
}

/// A task that is not there any more, or is over meanwhile, is left to the next round.
fn ignoring_absence(done: Result<(), PeerError>) -> Result<(), PeerError> {
    match done {
        Err(PeerError::Client(error)) if matches!(error.status(), Some(404 | 409)) => Ok(()),
        other => other,
    }
}

/// The end of a task, in words.
fn said(task: &TaskRecord) -> String {
    let ending = task.ending.as_ref().and_then(|ending| serde_json::to_string(ending).ok());
    ending.unwrap_or_else(|| task.state.clone())
}

/// The result of a task that succeeded: the last value of the objective that it said.
fn ending_of(task: &TaskRecord, last: Option<Report>, objective: &str) -> TrialEnding {
    let said = task.progress.as_ref().filter(|progress| progress.attempt == task.attempt);
    let measure = said.and_then(|progress| measure_of(progress, objective)).or(last.map(|last| last.measure));
    match (measure, &task.progress_problem) {
        (Some(measure), _) => TrialEnding::Complete(measure),
        (None, Some(problem)) => failed(&format!("its task said no `{objective}`: {problem}")),
        (None, None) => failed(&format!(
            "its task said no `{objective}`: a line such as estimand-progress {{\"values\": {{\"{objective}\": 0.93}}}}"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task_progress::TaskProgress;
    use estimand_tuning::Measure;
    use serde_json::json;

    use super::*;

    fn progress(of: &Value) -> TaskProgress {
        let mut all = json!({ "attempt": 1, "at": "2026-01-01T00:00:00Z" });
        all.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn reports_are_of_the_objective_and_have_a_step() {
        let report = |of: &Value| report_of(&progress(of), "loss").map(|report| report.step);
        assert_eq!(report(&json!({ "step": 3, "values": { "loss": 0.5, "other": 1 } })), Some(3));
        for other in [
            json!({ "step": 3, "values": { "other": 1 } }),
            json!({ "step": 3.5, "values": { "loss": 1 } }),
            json!({ "values": { "loss": 1 } }),
            json!({ "step": 3 }),
        ] {
            assert_eq!(report(&other), None, "{other}");
        }
    }

    #[test]
    fn a_result_is_the_last_value_of_the_objective() {
        let task = |progress: &Value| -> TaskRecord {
            let mut task = json!({ "id": "t", "state": "SUCCEEDED", "attempt": 1, "lines": 0, "failures": 0,
                "submittedAt": "2026-01-01T00:00:00Z", "submittedBy": "x", "document": {} });
            task["progress"] = json!(self::progress(progress));
            serde_json::from_value(task).unwrap()
        };
        let measure = |value| Measure::new(value).unwrap();
        let last = Some(Report { step: 1, measure: measure(0.25) });
        let said = task(&json!({ "values": { "loss": 0.5 } }));
        assert_eq!(ending_of(&said, last, "loss"), TrialEnding::Complete(measure(0.5)));
        let silent = task(&json!({ "step": 9 }));
        assert_eq!(ending_of(&silent, last, "loss"), TrialEnding::Complete(measure(0.25)));
        assert!(matches!(ending_of(&silent, None, "loss"), TrialEnding::Failed(_)));
        let before = TaskRecord { attempt: 2, ..said };
        assert!(
            matches!(ending_of(&before, None, "loss"), TrialEnding::Failed(_)),
            "an earlier attempt said it"
        );
    }
}
