//! `t_upload`: the files that registrations run, each stored once under the digest of its content.
//!
//! They need no claim: two writers of one digest write the same. A file is needed as long as an entry in the history of
//! registrations names it. One that none names yet is kept for a while after it was last sent or named.

use std::collections::HashSet;

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_dp_history, t_upload};
use crate::statement::{Fixed, Keys, Value};
use crate::{Connection, Error};

static UPLOADS: Keys = Keys { table: "t_upload", columns: &["sha256", "at"] };

/// How a file was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upload {
    New,
    /// It was there already.
    Known,
    /// There are as many as are kept.
    Full,
}

impl Connection {
    /// Stores a file, unless it is there already or there are `most`.
    pub fn put_upload(&mut self, sha256: &str, content: &[u8], at: i64, most: i64) -> Result<Upload, Error> {
        self.write("storing a file", |backend| {
            if touch(backend, sha256, at)? {
                return Ok(Upload::Known);
            }
            let stored: i64 = on!(backend, connection => t_upload::table.count().get_result(connection))?;
            if stored >= most {
                return Ok(Upload::Full);
            }
            let row = (t_upload::sha256.eq(sha256), t_upload::content.eq(content), t_upload::at.eq(at));
            // Another writer may store the same at this moment.
            let insert = diesel::insert_into(t_upload::table);
            match backend {
                Backend::Postgres(connection) => {
                    insert.values(row).on_conflict_do_nothing().execute(connection)
                }
                Backend::Sqlite(connection) => {
                    diesel::insert_or_ignore_into(t_upload::table).values(row).execute(connection)
                }
                Backend::Mysql(connection) => {
                    diesel::insert_or_ignore_into(t_upload::table).values(row).execute(connection)
                }
            }?;
            Ok(Upload::New)
        })
    }

    /// Notes that a file is about to be named; false if there is none.
    pub fn touch_upload(&mut self, sha256: &str, at: i64) -> Result<bool, Error> {
        self.write("looking for a file", |backend| Ok(touch(backend, sha256, at)?))
    }

    pub fn load_upload(&mut self, sha256: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read("loading a file", |backend| {
            on!(backend, connection => t_upload::table
                .find(sha256)
                .select(t_upload::content)
                .first(connection)
                .optional())
        })
    }

    /// Removes the files that were last sent or named before an instant, and that no registration ever named. How many.
    pub fn sweep_uploads(&mut self, before: i64) -> Result<usize, Error> {
        self.write("removing files", |backend| {
            let old: Vec<(String, i64)> = on!(backend, connection => t_upload::table
                .filter(t_upload::at.lt(before))
                .select((t_upload::sha256, t_upload::at))
                .load(connection))?;
            if old.is_empty() {
                return Ok(0);
            }
            let specs: Vec<String> = on!(backend, connection => t_dp_history::table
                .filter(t_dp_history::spec.like("%\"upload\"%"))
                .select(t_dp_history::spec)
                .load(connection))?;
            let named: HashSet<&str> = specs.iter().flat_map(|spec| spec.split('"')).collect();
            let gone: Vec<_> = old.iter().filter(|(sha256, _)| !named.contains(sha256.as_str())).collect();
            // By the time as well: one that was named meanwhile has another.
            let keys: Vec<Value<'_>> =
                gone.iter().flat_map(|(sha256, at)| [Value::Text(sha256), Value::Int(*at)]).collect();
            UPLOADS.delete(backend, &keys)?;
            Ok(gone.len())
        })
    }
}

/// Never back, should the clock have been set.
fn touch(backend: &mut Backend, sha256: &str, at: i64) -> QueryResult<bool> {
    let sql = "UPDATE t_upload SET at = CASE WHEN at < ? THEN ? ELSE at + 1 END WHERE sha256 = ?";
    let values = [Value::Int(at), Value::Int(at), Value::Text(sha256)];
    Ok(Fixed { sql, values: &values }.execute_on(backend)? > 0)
}
