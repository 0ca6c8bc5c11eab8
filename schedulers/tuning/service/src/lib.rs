//! The service of tuning: studies find good parameters by trials that run anywhere, in any language.
//!
//! Which parameters are tried next, which trials end early, and how much a parameter matters is up to `estimand-tuning`, which
//! is pure. Here are the studies and their trials: `document` (a study as it is asked for), `requests` and `writer` (one change
//! after the other, each stored and then shown), `proposing`, `shelves` and `background` (proposals are made ahead), `asking`
//! (a question waits for them), `reporting`, `storage`, and `http` (the handlers).
//!
//! Invariants: proposal n of a study is a function of its seed, n, and the first `seen` results in the order in which they
//! were stored, and `seen` is stored with it; a trial is given to one question, and has one result; what was acknowledged is
//! stored. docs/decisions/174-a-study-repeats.md says how.

mod asking;
mod background;
mod change;
mod document;
mod http;
mod metrics;
mod proposing;
mod reporting;
mod requests;
mod shared;
mod shelves;
mod storage;
mod study;
mod table;
mod trial;
mod views;
mod writer;

use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_api::study::{ParameterImportance, StudyImportance, StudyRecord};
use estimand_client::Client;
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Clock, Readiness, Tasks};
use estimand_service::{OnFatal, Writer};
use estimand_store::StoreUrl;
use estimand_tuning::importance;
use estimand_tuning::samplers::Evidence;
use estimand_web::{Principal, Role, Routes, Scope, ServedPart, ShareReport};
use tokio::task::spawn_blocking;

use asking::{Question, TrialAnswer};
use document::Document;
use http::{studies, trials};
use proposing::history;
use requests::{Create, CreateOutcome, MAX_BYTES, ReportValue, Steer, Step, Tell};
use shared::Shared;
use shelves::Shelves;
use storage::Storage;
use trial::Trial;
use writer::StudiesState;

pub use document::MAX_DOCUMENT_BYTES;

/// A seed that is drawn is below this.
const MAX_SEED: u64 = 1 << 32;

/// The needs of a tuning service.
pub struct TuningServiceOptions {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    pub on_fatal: OnFatal,
}

/// A tuning service that runs. Clones are the same one.
#[derive(Clone)]
pub struct TuningService(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    writer: Writer<StudiesState>,
}

impl TuningService {
    /// Starts the tasks of the process; loading goes on after this returns, and `readiness` says when it is done.
    pub fn start(options: TuningServiceOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let TuningServiceOptions { store, clock, on_fatal } = options;
        let (shelves, starting) = Shelves::new();
        let shared = Arc::new(Shared::new(clock, shelves));
        let state = StudiesState::new(Arc::clone(&shared), Storage::new(store));
        let writer = Writer::start(tasks, "tuning", state, readiness.part("studies"), on_fatal);
        background::start(&shared, &writer, starting, tasks);
        TuningService(Arc::new(Inner { shared, writer }))
    }

    /// Sets the task service, which runs trials; it may not be known when this starts. Without one, none run as tasks. The first
    /// one given stays.
    pub fn set_task_service(&self, client: Client) {
        let _ = self.0.shared.tasks.set(client);
    }

    fn shared(&self) -> &Shared {
        &self.0.shared
    }

    async fn create(&self, document: Document, scope: Scope, by: String) -> Result<CreateOutcome, Problem> {
        let seed = fastrand::u64(..MAX_SEED);
        Ok(self.0.writer.submit(Create { document, seed, scope, by }).await?)
    }

    async fn steer(
        &self,
        id: &str,
        scope: Scope,
        step: Step,
        by: &Principal,
    ) -> Result<Box<StudyRecord>, Problem> {
        tracing::info!(study = id, ?step, %by, "a study is steered");
        Ok(self.0.writer.submit(Steer { id: id.to_owned(), scope, step }).await?)
    }

    async fn ask(&self, question: Question) -> Result<TrialAnswer, Problem> {
        asking::ask(self.shared(), &self.0.writer, question).await
    }

    async fn report(&self, report: ReportValue) -> Result<bool, Problem> {
        reporting::report(&self.0.writer, report).await
    }

    async fn tell(&self, tell: Tell) -> Result<Arc<Trial>, Problem> {
        Ok(self.0.writer.submit(tell).await?)
    }

    async fn importance(&self, scope: &Scope, id: &str) -> Result<StudyImportance, Problem> {
        let (definition, trials, results) = self.shared().find(scope, id, |study| {
            (Arc::clone(&study.definition), study.trials.clone(), study.results())
        })?;
        let compute = move || {
            let proposer = &definition.proposer;
            let evidence = Evidence::new(&proposer.space, proposer.direction, &history(&trials, results));
            let parts = importance(&proposer.space, proposer.seed, &evidence);
            let names = proposer.space.parameters().iter().map(|parameter| parameter.name.clone());
            let mut parameters: Vec<ParameterImportance> =
                names.zip(parts).map(|(name, importance)| ParameterImportance { name, importance }).collect();
            parameters.sort_by(|one, other| other.importance.total_cmp(&one.importance));
            StudyImportance { results, parameters }
        };
        spawn_blocking(compute).await.map_err(|_| Problem::internal())
    }
}

impl ServedPart for TuningService {
    fn routes(&self) -> Routes {
        Routes::new("tuning")
            .add(Role::User, studies::list_studies, studies::__path_list_studies)
            .add(Role::User, studies::create_study, studies::__path_create_study)
            .add(Role::User, studies::study, studies::__path_study)
            .add(Role::User, studies::delete_study, studies::__path_delete_study)
            .add(Role::User, studies::pause_study, studies::__path_pause_study)
            .add(Role::User, studies::resume_study, studies::__path_resume_study)
            .add(Role::User, studies::stop_study, studies::__path_stop_study)
            .add(Role::User, trials::list_trials, trials::__path_list_trials)
            .add(Role::User, trials::trial, trials::__path_trial)
            .add(Role::User, trials::ask, trials::__path_ask)
            .add(Role::User, trials::report, trials::__path_report)
            .add(Role::User, trials::tell, trials::__path_tell)
            .add(Role::User, trials::best_trial, trials::__path_best_trial)
            .add(Role::User, studies::study_importance, studies::__path_study_importance)
            .share(self.clone())
    }

    fn report_shares(&self, report: &mut ShareReport) {
        report.bound(ShareKind::StudyBytes, MAX_BYTES);
        self.shared().table.look(|table| {
            table.usages().for_each(|(user, bytes)| report.add(user, ShareKind::StudyBytes, bytes));
        });
    }

    fn write_figures(&self, text: &mut String) {
        let shared = self.shared();
        let mut out = Exposition::new(text);
        shared.table.look(|table| shared.figures.write(&mut out, table));
    }
}
