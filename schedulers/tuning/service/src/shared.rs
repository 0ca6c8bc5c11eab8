//! Everything that handlers and background loops share.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_client::Client;
use estimand_runtime::{Clock, Rounds};
use estimand_service::Published;
use estimand_web::Scope;
use tokio::sync::SetOnce;

use crate::change::{Change, Edit, NAME, Rejection};
use crate::metrics::Figures;
use crate::shelves::Shelves;
use crate::study::Study;
use crate::table::Table;

pub struct Shared {
    pub clock: Arc<dyn Clock>,
    pub table: Published<Table>,
    /// Proposals that are made ahead.
    pub shelves: Shelves,
    /// A study is deleted, a time is over, or a trial is silent.
    pub tidying: Rounds,
    /// The task service, which runs trials; none is known before the process listens.
    pub tasks: SetOnce<Client>,
    /// A study that has a task has changed, or a task of a trial.
    pub running: Rounds,
    /// A trial is to run as a task.
    pub listening: Rounds,
    pub figures: Figures,
}

impl Shared {
    pub fn new(clock: Arc<dyn Clock>, shelves: Shelves) -> Self {
        Shared {
            clock,
            table: Published::new(NAME),
            shelves,
            tidying: Rounds::new(),
            tasks: SetOnce::new(),
            running: Rounds::new(),
            listening: Rounds::new(),
            figures: Figures::default(),
        }
    }

    /// Looks at the study of this id, if a caller sees it.
    pub fn find<R>(&self, scope: &Scope, id: &str, look: impl FnOnce(&Study) -> R) -> Result<R, Problem> {
        let found = self.table.loaded(|table| table.find(scope, id).map(look))?;
        found.ok_or_else(|| Rejection::Unknown(id.to_owned()).into())
    }

    /// Shows what was loaded.
    pub fn replace(&self, table: Table) {
        self.table.replace(table);
        self.shelves.poke_all();
        self.tidying.ask();
    }

    /// Shows changes that are stored.
    pub fn publish(&self, changes: &[Change]) {
        self.table.change(|table| changes.iter().for_each(|change| table.apply(change)));
        let edits = || changes.iter().flat_map(|change| &change.0);
        edits().for_each(|edit| self.figures.count(edit));
        // A report changes no proposal.
        let proposing = edits().filter(|edit| !matches!(edit, Edit::Reported { .. } | Edit::Stop { .. }));
        proposing
            .map(Edit::study)
            .collect::<BTreeSet<u64>>()
            .into_iter()
            .for_each(|study| self.shelves.poke(study));
        if edits().any(|edit| matches!(edit, Edit::Made(_) | Edit::Study { .. } | Edit::Cut { .. })) {
            self.tidying.ask();
        }
        let is_run = |table: &Table, edit: &Edit| {
            table.get(edit.study()).is_some_and(|study| study.definition.document.task.is_some())
        };
        let steps = || edits().filter(|edit| !matches!(edit, Edit::Reported { .. }));
        if self.table.look(|table| steps().any(|edit| is_run(table, edit))) {
            self.running.ask();
            self.listening.ask();
        }
    }
}
