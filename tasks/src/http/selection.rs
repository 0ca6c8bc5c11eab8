//! The choice of events that a reader asks for.

use estimand_api::labels::LabelMap;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::selector::Selector;
use estimand_api::task_event::{DELETED, TaskEvent};
use estimand_web::parameters;

use crate::core::state::State;
use crate::scope::Scope;

/// The events that a reader asks for, of the tasks that it sees; all of those if nothing is said.
#[derive(Debug)]
pub struct Selection {
    scope: Scope,
    states: Option<Vec<&'static str>>,
    labels: Option<Selector>,
    user: Option<String>,
    id: Option<IdPattern>,
}

#[derive(Debug, PartialEq)]
enum IdPattern {
    Is(String),
    Begins(String),
}

impl Selection {
    /// Reads the parameters, each of which may be absent.
    pub fn parse(
        scope: Scope,
        state: Option<&str>,
        labels: Option<&str>,
        user: Option<&str>,
        id: Option<&str>,
    ) -> Result<Self, Problem> {
        Ok(Selection {
            scope,
            states: state.map(states).transpose()?,
            labels: labels.map(|given| parameters::parsed("labels", given)).transpose()?,
            user: user.map(str::to_owned),
            id: id.map(|given| match given.strip_suffix('*') {
                Some(beginning) => IdPattern::Begins(beginning.to_owned()),
                None => IdPattern::Is(given.to_owned()),
            }),
        })
    }

    /// The user who reads; none: an operator.
    pub fn reader(&self) -> Option<&str> {
        self.scope.user()
    }

    /// The id of the one task that is asked for.
    pub fn task_id(&self) -> Option<&str> {
        match &self.id {
            Some(IdPattern::Is(id)) => Some(id),
            Some(IdPattern::Begins(_)) | None => None,
        }
    }

    pub fn has(&self, event: &TaskEvent) -> bool {
        self.states.as_ref().is_none_or(|states| states.contains(&event.to.as_str()))
            && self.has_task(&event.id, event.user.as_deref(), &event.labels)
    }

    /// A task is one of those whose events are asked for.
    pub fn has_task(&self, id: &str, user: Option<&str>, labels: &LabelMap) -> bool {
        self.scope.has_user(user)
            && self.labels.as_ref().is_none_or(|wanted| wanted.matches(labels))
            && self.user.as_ref().is_none_or(|wanted| user == Some(wanted))
            && match &self.id {
                None => true,
                Some(IdPattern::Is(wanted)) => id == wanted,
                Some(IdPattern::Begins(beginning)) => id.starts_with(beginning),
            }
    }
}

fn states(given: &str) -> Result<Vec<&'static str>, Problem> {
    let all = || State::ALL.map(State::as_str).into_iter().chain([DELETED]);
    let state = |word: &str| {
        all().find(|state| state.eq_ignore_ascii_case(word)).ok_or_else(|| {
            let expected = all().collect::<Vec<_>>().join(", ");
            let message = format!("has `{word}`, which is not a state");
            Problem::invalid_field(FieldError::new("state", message).expected(expected))
        })
    };
    given.split(',').map(str::trim).filter(|word| !word.is_empty()).map(state).collect()
}
