//! `t_leader`: the process that leads in a role. Each row carries the epoch of its latest leadership, which never
//! comes twice, and a beat that grows while the leadership lasts.
//!
//! No clock is stored or compared. A candidate watches the row, and takes it only if it is still as the candidate
//! saw it last: if the beat has grown meanwhile, the leader lives. So a leader that steps down one span after it
//! sent its last successful beat has done so before any candidate leads that waited that span by a clock of the
//! same pace.
//!
//! The row is also the lock of the leader's writes: each of its transactions begins by updating it. It is written on a full
//! disk, too: without a leader nothing that is unregistered would end.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::error::Failure;
use crate::schema::t_leader;
use crate::statement::{Fixed, Value};
use crate::{Connection, Error};

/// The right to act in a role, until it is released or another process takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    pub role: String,
    pub epoch: i64,
}

/// The row of a role, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct LeadRow {
    pub epoch: i64,
    /// Grows with each take, beat and commit of any leader.
    pub beat: i64,
    /// Empty if the last leader released it.
    pub holder: String,
    /// Where the holder can be reached.
    pub address: String,
}

impl Connection {
    /// The row of the latest leadership in `role`, which may be over; none if there never was one.
    pub fn read_lead(&mut self, role: &str) -> Result<Option<LeadRow>, Error> {
        self.read("reading who leads", |backend| {
            on!(backend, connection => t_leader::table
                .find(role)
                .select((t_leader::epoch, t_leader::beat, t_leader::holder, t_leader::address))
                .first(connection)
                .optional())
        })
    }

    /// Takes the leadership in `role` and ends the one before, if the row is still as it was `seen`; none if
    /// the leader has beaten since, or another candidate was faster. `holder` is not empty.
    ///
    /// After [`Error::Connection`] the leadership may have been taken, and then no process acts under it.
    pub fn take_lead(
        &mut self,
        role: &str,
        seen: Option<&LeadRow>,
        holder: &str,
        address: &str,
    ) -> Result<Option<Lead>, Error> {
        debug_assert!(!holder.is_empty(), "that would be a lead released from the start");
        let (epoch, beat) = seen.map_or((0, 0), |row| (row.epoch, row.beat));
        self.write_on_full_disk("taking the lead", |backend| {
            if seen.is_none() {
                insert_if_missing(backend, role)?;
            }
            let sql = "UPDATE t_leader SET epoch = epoch + 1, beat = beat + 1, holder = ?, address = ? \
                 WHERE role = ? AND epoch = ? AND beat = ?";
            let values = [
                Value::Text(holder),
                Value::Text(address),
                Value::Text(role),
                Value::Int(epoch),
                Value::Int(beat),
            ];
            let taken = Fixed { sql, values: &values }.execute_on(backend)? == 1;
            Ok(taken.then(|| Lead { role: role.to_owned(), epoch: epoch + 1 }))
        })
    }

    /// Shows candidates that the leader lives.
    pub fn beat_lead(&mut self, lead: &Lead) -> Result<(), Error> {
        self.write_on_full_disk("keeping the lead", |backend| fence(backend, lead))
    }

    /// Gives the leadership up, so that no candidate has to wait for its end. The epoch stays, and is not used
    /// again.
    pub fn release_lead(&mut self, lead: &Lead) -> Result<(), Error> {
        self.write_on_full_disk("releasing the lead", |backend| {
            fence(backend, lead)?;
            let sql = "UPDATE t_leader SET holder = '', address = '' WHERE role = ?";
            Fixed { sql, values: &[Value::Text(&lead.role)] }.execute_on(backend)?;
            Ok(())
        })
    }
}

/// Inserts a row without a leadership. No other transaction sees it so: the same transaction takes it, or
/// finds that another process was faster.
fn insert_if_missing(backend: &mut Backend, role: &str) -> QueryResult<()> {
    let values = [Value::Text(role), Value::Int(0), Value::Int(0), Value::Text(""), Value::Text("")];
    let sql = match backend {
        Backend::Mysql(_) => {
            "INSERT INTO t_leader (role, epoch, beat, holder, address) VALUES (?, ?, ?, ?, ?) \
             ON DUPLICATE KEY UPDATE epoch = epoch"
        }
        Backend::Sqlite(_) | Backend::Postgres(_) => {
            "INSERT INTO t_leader (role, epoch, beat, holder, address) VALUES (?, ?, ?, ?, ?) \
             ON CONFLICT (role) DO NOTHING"
        }
    };
    Fixed { sql, values: &values }.execute_on(backend).map(drop)
}

/// Locks the role's row and beats, unless the leadership is over.
pub(crate) fn fence(backend: &mut Backend, lead: &Lead) -> Result<(), Failure> {
    let sql = "UPDATE t_leader SET beat = beat + 1 WHERE role = ? AND epoch = ? AND holder <> ''";
    let values = [Value::Text(&lead.role), Value::Int(lead.epoch)];
    match (Fixed { sql, values: &values }).execute_on(backend)? {
        0 => Err(Failure::Fenced { owner: lead.role.clone(), epoch: lead.epoch }),
        _ => Ok(()),
    }
}
