//! Runs the trials of studies that have a task. It keeps nothing: each round compares trials with the tasks that have the labels
//! of studies, submits what is missing, tells what has ended, and takes away what nobody needs any more. Each may be done again.
//!
//! A trial says on its standard output what it has to say: `estimand-report {"step": 3, "value": 0.9}` on its way, and
//! `estimand-result {"value": 0.93}` at last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::{Problem, kind};
use estimand_api::study::TrialReport;
use estimand_api::task_log::TaskStream;
use estimand_api::task_record::TaskRecord;
use estimand_client::{Client, Error, LogQuery, PeerError, TaskQuery, within};
use estimand_runtime::{Next, Work};
use estimand_service::Writer;
use estimand_tuning::{Measure, Report};
use estimand_web::Scope;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;

use crate::asking::{Question, ask};
use crate::document::{STUDY_LABEL, trial_of};
use crate::reporting::report;
use crate::requests::{ReportValue, Steer, Step, Tell, TrialEnding};
use crate::shared::Shared;
use crate::study::{Definition, Study, StudyState};
use crate::trial::Trial;
use crate::writer::StudiesState;

/// The task service may take so long for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A round waits so long for new trials.
const ASK_WITHIN: Duration = Duration::from_secs(2);
const PAGE: u32 = 1_000;
const RESULT: &str = "estimand-result ";
const REPORT: &str = "estimand-report ";
/// The pruner's word, as long as a task runs.
const STOPPING: &str = "STOPPING";

pub struct Runner {
    pub shared: Arc<Shared>,
    pub writer: Writer<StudiesState>,
    /// The next line of each task's log. Lost with the process, it is read again from the start.
    pub lines: HashMap<String, u64>,
    /// There were tasks in the round before.
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
        let listed: HashSet<&String> = tasks.values().map(|task| &task.id).collect();
        self.lines.retain(|id, _| listed.contains(id));
        let mut trouble = None;
        for (standing, trial) in standings.iter().flat_map(TaskStudy::trials) {
            let task = tasks.remove(&(standing.definition.number, trial.number));
            keep_first(&mut trouble, self.step(&client, standing, trial, task).await)?;
        }
        self.has_tasks = !standings.is_empty() || !tasks.is_empty();
        for task in tasks.into_values() {
            keep_first(&mut trouble, self.take_away(&client, &task).await)?;
        }
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
            let (id, count) = (standing.definition.document.id.clone(), standing.free);
            let question = Question { id, scope: Scope::default(), count, key: None };
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
        let mut stop = trial.progress.stop;
        if task.lines > self.lines.get(&task.id).copied().unwrap_or(0) {
            stop |= self.hear(client, standing, trial, task).await?;
        }
        if task.is_over() {
            let ending = match task.state.as_str() {
                "SUCCEEDED" => result(client, task).await?,
                _ if stop => Some(TrialEnding::Pruned),
                "CANCELLED" if standing.is_over => Some(failed("the study was over")),
                "CANCELLED" => Some(failed("its task was cancelled")),
                _ => Some(failed(&format!("its task failed: {}", said(task)))),
            };
            let Some(ending) = ending else { return Ok(()) };
            self.tell(standing, trial, ending).await?;
            return self.take_away(client, task).await;
        }
        if (stop || standing.is_over) && task.state != STOPPING {
            ignoring_absence(within(ANSWER_WITHIN, client.cancel_task(&task.id)).await.map(drop))?;
        }
        Ok(())
    }

    /// Stores the reports of a task's new lines; true if the trial should stop.
    async fn hear(
        &mut self,
        client: &Client,
        standing: &TaskStudy,
        trial: &Trial,
        task: &TaskRecord,
    ) -> Result<bool, PeerError> {
        let mut query = LogQuery {
            from: self.lines.get(&task.id).copied().unwrap_or(0),
            stream: Some(TaskStream::Stdout),
            contains: Some(REPORT.trim_end().to_owned()),
            ..LogQuery::default()
        };
        let (mut stop, mut last) = (false, trial.curve.last().map(|report| report.step));
        while query.from < task.lines {
            let page = within(ANSWER_WITHIN, client.task_log(&task.id, &query)).await?;
            for said in page.lines.iter().filter_map(|entry| report_of(&entry.text)) {
                // The first lines are read again after a start, and by the next attempt they are said again.
                if last.is_some_and(|last| said.step <= last) {
                    continue;
                }
                last = Some(said.step);
                stop |= self.report(standing, trial, said).await?;
            }
            if page.next <= query.from {
                break;
            }
            query.from = page.next;
        }
        self.lines.insert(task.id.clone(), query.from);
        Ok(stop)
    }

    async fn report(&self, standing: &TaskStudy, trial: &Trial, said: Report) -> Result<bool, PeerError> {
        let (id, trial) = (standing.definition.document.id.clone(), trial.number);
        let value = ReportValue { id, scope: Scope::default(), trial, report: said };
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
            self.lines.remove(&task.id);
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

fn report_of(line: &str) -> Option<Report> {
    let said: TrialReport = serde_json::from_str(line.strip_prefix(REPORT)?).ok()?;
    Some(Report { step: said.step, measure: Measure::new(said.value).ok()? })
}

/// The result that a task said at last; none: its log is not there whole yet.
async fn result(client: &Client, task: &TaskRecord) -> Result<Option<TrialEnding>, PeerError> {
    let query = LogQuery {
        stream: Some(TaskStream::Stdout),
        contains: Some(RESULT.trim_end().to_owned()),
        tail: Some(1),
        ..LogQuery::default()
    };
    let page = within(ANSWER_WITHIN, client.task_log(&task.id, &query)).await?;
    let line = page.lines.iter().rev().find_map(|entry| entry.text.strip_prefix(RESULT));
    Ok((line.is_some() || page.over).then(|| ending_of(line)))
}

fn ending_of(line: Option<&str>) -> TrialEnding {
    let Some(line) = line else {
        return failed("its task said no result: a line such as estimand-result {\"value\": 0.93}");
    };
    let value = serde_json::from_str::<Value>(line).ok();
    let value = value.and_then(|value| value.get("value")?.as_f64());
    match value.and_then(|value| Measure::new(value).ok()) {
        Some(measure) => TrialEnding::Complete(measure),
        None => failed(&format!("its task said a result that is no finite number: {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_task_are_read() {
        assert_eq!(report_of("estimand-report {\"step\": 3, \"value\": 0.5}").map(|one| one.step), Some(3));
        for other in [
            "estimand-report 3",
            "x estimand-report {\"step\": 3, \"value\": 0.5}",
            "estimand-report {\"step\": 3}",
        ] {
            assert_eq!(report_of(other), None, "{other}");
        }
        let complete = |value| Measure::new(value).map(TrialEnding::Complete).ok();
        assert_eq!(Some(ending_of(Some("{\"value\": 0.5}"))), complete(0.5));
        for other in [None, Some("{\"value\": NaN}"), Some("{\"value\": \"1\"}"), Some("0.5")] {
            assert!(matches!(ending_of(other), TrialEnding::Failed(_)), "{other:?}");
        }
    }
}
