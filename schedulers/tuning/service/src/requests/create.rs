//! A new study, or the one that the same document made before.

use std::sync::Arc;

use estimand_api::study::StudyRecord;
use estimand_service::{Decision, Request};
use estimand_web::Scope;

use super::check_bytes;
use crate::change::{Change, Edit, Rejection};
use crate::document::Document;
use crate::study::Definition;
use crate::views;
use crate::writer::StudiesState;

/// Studies that are kept.
const MAX_STUDIES: usize = 100_000;

pub struct Create {
    pub document: Document,
    /// Drawn, if the document has none.
    pub seed: u64,
    pub scope: Scope,
    pub by: String,
}

/// A study that is there now.
pub enum CreateOutcome {
    /// None: it was deleted at once.
    New(Option<Box<StudyRecord>>),
    /// A study that the same document made before.
    Known(Box<StudyRecord>),
}

impl Request<StudiesState> for Create {
    type Reply = CreateOutcome;

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, CreateOutcome>, Rejection> {
        let table = state.table();
        let document = self.document;
        if let Some(known) = table.of_id(&document.id) {
            return if known.definition.document == document {
                Ok(Decision::Nothing(CreateOutcome::Known(Box::new(views::study(known)))))
            } else {
                Err(Rejection::Taken(document.id))
            };
        }
        if table.len() >= MAX_STUDIES {
            return Err(Rejection::Full(table.len()));
        }
        check_bytes(table, &self.scope, document.user.as_deref(), document.bytes)?;
        let number = table.highest + 1;
        let proposer = document.study(document.seed.unwrap_or(self.seed));
        let definition = Definition { number, document, proposer, made_at: state.now_us(), made_by: self.by };
        let change = Change(vec![Edit::Made(Arc::new(definition))]);
        Ok(Decision::change(change, move |state: &StudiesState, _: &Change| {
            CreateOutcome::New(state.table().get(number).map(|study| Box::new(views::study(study))))
        }))
    }
}
