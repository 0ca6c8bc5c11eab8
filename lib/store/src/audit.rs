//! `t_audit`: changes that have no history of their own. Together with `t_dp_history` and `t_binding_history`, in which
//! each change of a registration or a binding is stored anyway, it says who changed what, and when.

use std::fmt::Display;

use diesel::prelude::*;
use diesel::result::QueryResult;

use crate::backend::{Backend, on};
use crate::schema::{t_audit, t_binding_history, t_dp_history};
use crate::statement::{Rows, Value};
use crate::{Connection, Error, HistoryEntry, SwapRow};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct AuditRow {
    pub at: i64,
    /// Tells changes of the same instant apart.
    pub id: String,
    pub kind: String,
    pub subject: String,
    pub action: String,
    pub actor: String,
    /// JSON.
    pub detail: Option<String>,
}

/// The newest changes before some time, each list with the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    pub registrations: Vec<HistoryEntry>,
    pub bindings: Vec<SwapRow>,
    pub others: Vec<AuditRow>,
}

/// The width of the columns of actors; names in certificates may be longer.
const MAX_ACTOR_CHARS: usize = 255;

/// The name of an actor, cut to the width of the columns of actors.
pub fn actor(who: impl Display) -> String {
    who.to_string().chars().take(MAX_ACTOR_CHARS).collect()
}

static AUDIT: Rows = Rows {
    table: "t_audit",
    columns: &["at", "id", "kind", "subject", "action", "actor", "detail"],
    // An entry that may have been stored already is stored again, and is the same.
    replaced_by: 2,
};

impl Connection {
    /// The newest changes before an instant, at most `limit` of each kind.
    pub fn trail(&mut self, before: i64, limit: i64) -> Result<Trail, Error> {
        let doing = "reading the audit trail";
        let registrations = self.read(doing, |backend| {
            on!(backend, connection => t_dp_history::table
                .filter(t_dp_history::at.lt(before))
                .order((t_dp_history::at.desc(), t_dp_history::version.desc()))
                .limit(limit)
                .load(connection))
        })?;
        let bindings = self.read(doing, |backend| {
            on!(backend, connection => t_binding_history::table
                .filter(t_binding_history::at.lt(before))
                .order((t_binding_history::at.desc(), t_binding_history::revision.desc()))
                .limit(limit)
                .load(connection))
        })?;
        let others = self.read(doing, |backend| {
            on!(backend, connection => t_audit::table
                .filter(t_audit::at.lt(before))
                .order((t_audit::at.desc(), t_audit::id.desc()))
                .limit(limit)
                .load(connection))
        })?;
        Ok(Trail { registrations, bindings, others })
    }
}

pub(crate) fn add(backend: &mut Backend, row: &AuditRow) -> QueryResult<()> {
    let values = [
        Value::Int(row.at),
        Value::Text(&row.id),
        Value::Text(&row.kind),
        Value::Text(&row.subject),
        Value::Text(&row.action),
        Value::Text(&row.actor),
        Value::OptText(row.detail.as_deref()),
    ];
    AUDIT.write(backend, &values)
}
