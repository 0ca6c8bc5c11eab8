//! `t_owner`: the right to write. Each owner's row carries the epoch of its latest claim and the highest
//! revision handed out.
//!
//! The row is also the lock of writers: each writing transaction begins by updating it.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::error::Failure;
use crate::schema::t_owner;
use crate::statement::{Fixed, Value};
use crate::{Connection, Error};

/// The right to write as one owner, until it is claimed anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub owner: String,
    pub epoch: i64,
    /// No revision up to this one was ever used by an earlier claim, nor will be.
    pub revision: i64,
}

impl Connection {
    /// Becomes `owner`, and ends all earlier claims. `headroom` is skipped, because the claim before may
    /// have used revisions that it had not stored yet.
    pub fn claim(&mut self, owner: &str, headroom: i64) -> Result<Claim, Error> {
        self.write_on_full_disk("claiming the store", |backend| {
            insert_if_missing(backend, owner)?;
            let sql = "UPDATE t_owner SET epoch = epoch + 1, revision = revision + ? WHERE name = ?";
            Fixed { sql, values: &[Value::Int(headroom), Value::Text(owner)] }.execute_on(backend)?;
            let (epoch, revision) = on!(backend, connection => t_owner::table
                .find(owner)
                .select((t_owner::epoch, t_owner::revision))
                .first::<(i64, i64)>(connection))?;
            Ok(Claim { owner: owner.to_owned(), epoch, revision })
        })
    }

    /// Waits until every commit under the claim has taken effect or failed for good, and fails if the claim is over. One
    /// whose answer was lost may still be under way: a plain read would not see it, but it holds the owner's row.
    pub fn settle(&mut self, claim: &Claim) -> Result<(), Error> {
        self.write_on_full_disk("waiting for the last commit", |backend| fence(backend, claim))
    }
}

/// Two processes may meet here on a new database; the second waits for the first, or finds its row.
fn insert_if_missing(backend: &mut Backend, owner: &str) -> QueryResult<()> {
    let values = [Value::Text(owner), Value::Int(0), Value::Int(0)];
    let sql = match backend {
        Backend::Mysql(_) => {
            "INSERT INTO t_owner (name, epoch, revision) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE epoch = epoch"
        }
        Backend::Sqlite(_) | Backend::Postgres(_) => {
            "INSERT INTO t_owner (name, epoch, revision) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING"
        }
    };
    Fixed { sql, values: &values }.execute_on(backend).map(drop)
}

/// Locks the owner's row and notes the highest revision in use, unless the claim is over.
pub(crate) fn advance(backend: &mut Backend, claim: &Claim, revision: i64) -> Result<(), Failure> {
    let sql = "UPDATE t_owner SET revision = ? WHERE name = ? AND epoch = ?";
    let values = [Value::Int(revision), Value::Text(&claim.owner), Value::Int(claim.epoch)];
    hold(claim, Fixed { sql, values: &values }.execute_on(backend)?)
}

/// Locks the owner's row, unless the claim is over.
pub(crate) fn fence(backend: &mut Backend, claim: &Claim) -> Result<(), Failure> {
    let sql = "UPDATE t_owner SET epoch = epoch WHERE name = ? AND epoch = ?";
    let values = [Value::Text(&claim.owner), Value::Int(claim.epoch)];
    hold(claim, Fixed { sql, values: &values }.execute_on(backend)?)
}

fn hold(claim: &Claim, rows: usize) -> Result<(), Failure> {
    if rows == 0 {
        return Err(Failure::Fenced { owner: claim.owner.clone(), epoch: claim.epoch });
    }
    Ok(())
}
