//! `t_token`: the tokens and their roles, each known by the digest of its text. A token is never deleted, only
//! revoked, so that its use can still be traced.

use diesel::prelude::*;

use crate::audit::{self, AuditRow};
use crate::backend::{Backend, on};
use crate::schema::t_token;
use crate::statement::{Fixed, Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TokenRow {
    pub id: String,
    pub name: String,
    /// Hexadecimal.
    pub hash: String,
    pub role: String,
    pub node_name: Option<String>,
    pub created_at: i64,
    pub created_by: String,
    pub expires_at: Option<i64>,
    pub revoked_at: Option<i64>,
    /// The user of a token that was used up.
    pub used_by: Option<String>,
    /// The labels that it binds to its node; JSON.
    pub labels: Option<String>,
    /// The user whose tasks and files it is for.
    pub user_name: Option<String>,
}

static TOKENS: Rows = Rows {
    table: "t_token",
    columns: &[
        "id",
        "name",
        "hash",
        "role",
        "node_name",
        "created_at",
        "created_by",
        "expires_at",
        "revoked_at",
        "used_by",
        "labels",
        "user_name",
    ],
    replaced_by: 1,
};

impl Connection {
    /// All tokens that ever were, the oldest first.
    pub fn load_tokens(&mut self) -> Result<Vec<TokenRow>, Error> {
        self.read("loading the tokens", |backend| {
            on!(backend, connection => t_token::table.order((t_token::created_at, t_token::id)).load(connection))
        })
    }

    /// Adds or replaces tokens, with their entries in the audit trail. Stores nothing and returns false if one of the
    /// tokens in `unless_revoked` has been revoked.
    pub fn put_tokens(
        &mut self,
        unless_revoked: &[String],
        rows: &[TokenRow],
        told: &[AuditRow],
    ) -> Result<bool, Error> {
        let only_revokes = unless_revoked.is_empty() && rows.iter().all(|row| row.revoked_at.is_some());
        let doing = "storing tokens";
        let change = |backend: &mut Backend| {
            for id in unless_revoked {
                // It changes nothing, but locks the row: a transaction that revokes the token comes before or after.
                let sql = "UPDATE t_token SET revoked_at = NULL WHERE id = ? AND revoked_at IS NULL";
                if (Fixed { sql, values: &[Value::Text(id)] }).execute_on(backend)? == 0 {
                    return Ok(false);
                }
            }
            write_all(backend, &TOKENS, rows, values_of)?;
            told.iter().try_for_each(|row| audit::add(backend, row))?;
            Ok(true)
        };
        match only_revokes {
            true => self.write_on_full_disk(doing, change),
            false => self.write(doing, change),
        }
    }
}

fn values_of<'a>(row: &'a TokenRow, values: &mut Vec<Value<'a>>) {
    values.extend([
        Value::Text(&row.id),
        Value::Text(&row.name),
        Value::Text(&row.hash),
        Value::Text(&row.role),
        Value::OptText(row.node_name.as_deref()),
        Value::Int(row.created_at),
        Value::Text(&row.created_by),
        Value::OptInt(row.expires_at),
        Value::OptInt(row.revoked_at),
        Value::OptText(row.used_by.as_deref()),
        Value::OptText(row.labels.as_deref()),
        Value::OptText(row.user_name.as_deref()),
    ]);
}
