//! The process that holds a database server's store: a lock of its session, which the server frees when the process
//! ends, however it ends; and `t_holder`, where the process describes itself and shows that it can write.
//!
//! Claims end an older owner for good. These locks come before them, and keep a second process from claiming by
//! accident what a living one has.

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable};

use crate::backend::{Backend, on};
use crate::error::Failure;
use crate::schema::t_holder;
use crate::statement::{Fixed, Value};
use crate::{Connection, Error};

/// Any number, as long as all processes use the same one.
const POSTGRES_LOCKS: i32 = 0x0e57_1a4d;
/// A server frees the locks of a machine that is silent for about as long.
const POSTGRES_SESSION: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
const MYSQL_SESSION: &str = "SET SESSION wait_timeout = 30";

#[derive(QueryableByName)]
struct HeldOnPostgres {
    #[diesel(sql_type = Bool)]
    held: bool,
}

#[derive(QueryableByName)]
struct HeldOnMysql {
    #[diesel(sql_type = Nullable<BigInt>)]
    held: Option<i64>,
}

impl Connection {
    /// Holds the store as `owner` for as long as this connection lives; false if another session does. It takes no
    /// tables. A SQLite file is held by other means.
    pub fn hold(&mut self, owner: &str) -> Result<bool, Error> {
        self.read("holding the store", |backend| match backend {
            Backend::Sqlite(_) => Ok(true),
            Backend::Postgres(connection) => {
                connection.batch_execute(POSTGRES_SESSION)?;
                let query = format!("SELECT pg_try_advisory_lock({POSTGRES_LOCKS}, hashtext('{owner}')) AS held");
                diesel::sql_query(query).get_result::<HeldOnPostgres>(connection).map(|answer| answer.held)
            }
            Backend::Mysql(connection) => {
                connection.batch_execute(MYSQL_SESSION)?;
                // Such locks belong to the server, so the database is part of the name.
                let query = format!(
                    "SELECT CAST(GET_LOCK(CONCAT('estimand.', MD5(DATABASE()), '.{owner}'), 0) AS SIGNED) AS held"
                );
                let answer: HeldOnMysql = diesel::sql_query(query).get_result(connection)?;
                Ok(answer.held == Some(1))
            }
        })
    }

    /// The last process that held the store as `owner`, in its own words.
    pub fn holder(&mut self, owner: &str) -> Result<Option<String>, Error> {
        self.read("reading who holds the store", |backend| {
            on!(backend, connection => t_holder::table
                .find(owner)
                .select(t_holder::holder)
                .first(connection)
                .optional())
        })
    }

    /// Describes this process as the holder. The one before it finds out at its next beat.
    pub fn become_holder(&mut self, owner: &str, description: &str) -> Result<(), Error> {
        self.write("becoming the holder of the store", |backend| {
            let values = [Value::Text(description), Value::Text(owner)];
            let sql = "UPDATE t_holder SET holder = ?, beat = beat + 1 WHERE name = ?";
            if (Fixed { sql, values: &values }).execute_on(backend)? == 0 {
                let sql = "INSERT INTO t_holder (holder, name, beat) VALUES (?, ?, 0)";
                Fixed { sql, values: &values }.execute_on(backend)?;
            }
            Ok(())
        })
    }

    /// Writes something, so that an error says that nothing can be stored now.
    pub fn beat_holder(&mut self, owner: &str, description: &str) -> Result<(), Error> {
        self.write("asking whether anything can be stored", |backend| {
            let sql = "UPDATE t_holder SET beat = beat + 1 WHERE name = ? AND holder = ?";
            let values = [Value::Text(owner), Value::Text(description)];
            match (Fixed { sql, values: &values }).execute_on(backend)? {
                0 => Err(Failure::Fenced { owner: owner.to_owned(), epoch: 0 }),
                _ => Ok(()),
            }
        })
    }
}
