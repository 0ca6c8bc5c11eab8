//! `t_token`: who may do what, by the digest of what they show. A token is never deleted, only revoked, so that what
//! was done with it can still be told.

use diesel::prelude::*;

use crate::audit::{self, AuditRow};
use crate::backend::on;
use crate::schema::t_token;
use crate::statement::{Rows, Value};
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

    /// Adds or replaces a token, and says so in the audit trail.
    pub fn put_token(&mut self, row: &TokenRow, told: &AuditRow) -> Result<(), Error> {
        self.write("storing a token", |backend| {
            let values = [
                Value::Text(&row.id),
                Value::Text(&row.name),
                Value::Text(&row.hash),
                Value::Text(&row.role),
                Value::OptText(row.node_name.as_deref()),
                Value::Int(row.created_at),
                Value::Text(&row.created_by),
                Value::OptInt(row.expires_at),
                Value::OptInt(row.revoked_at),
            ];
            TOKENS.write(backend, &values)?;
            Ok(audit::add(backend, told)?)
        })
    }
}
