//! Storage of registrations and values in SQLite, PostgreSQL or MySQL (MariaDB), behind one interface.
//!
//! This crate is the only one that knows SQL and diesel; the meaning of the rows is unknown to it. All calls are
//! synchronous and wait for the database, so they belong on plain threads. A thread whose work is writing owns a
//! [`Connection`]; all other code asks a [`Worker`], which is such a thread, or an [`OwnedWorker`], which also has a claim.
//!
//! Guarantees: a call that returns `Ok` is durable; a call is one transaction; after any error but
//! [`Error::Connection`] nothing of it took effect; and once an owner is claimed anew or another process
//! leads, no older claim or leadership writes again. Instants and spans are microseconds.

mod audit;
mod backend;
mod ballast;
mod binding;
mod connection;
mod data;
mod driver;
mod error;
mod halt;
mod history;
mod holder;
mod image;
mod journal;
mod leader;
mod migrate;
mod node;
mod owned_worker;
mod owner;
mod placement;
mod preparation;
mod promise;
mod reads;
mod registry;
mod reservation;
mod retention;
mod schema;
mod statement;
mod study;
mod task;
mod task_feed;
mod task_log;
mod task_progress;
mod tls;
mod token;
mod unwritten;
mod upload;
mod url;
mod user_limit;
mod worker;

pub use audit::{AuditRow, Trail, actor};
pub use binding::{BindingRef, BindingRow, SwapRef, SwapRow};
pub use connection::Connection;
pub use data::{DataRow, DataRowRef, Group, Key};
pub use error::Error;
pub use halt::Halt;
pub use history::{
    HistoryDelete, HistoryQuery, HistoryRow, HistoryRowRef, MAX_BYTES as MAX_HISTORY_BYTES, PastRows,
};
pub use image::{ImageGroup, ImageRow, StoredImages, TaskImageRow};
pub use journal::{Change, Fold, JournalPage, Journaled};
pub use leader::{Lead, LeadRow};
pub use node::{ClusterGroup, NodeRow, NodeRowRef};
pub use owned_worker::OwnedWorker;
pub use owner::Claim;
pub use placement::{PlacementRef, PlacementRow};
pub use preparation::Preparation;
pub use promise::{PromiseGroup, PromiseRevisionRow, PromiseRow, StoredPromises};
pub use reads::Reads;
pub use registry::{HistoryEntry, RegistrationChange, RegistrationRow};
pub use reservation::{BidRow, CreditEntryRow, ReservationGroup, ReservationRow, StoredReservations};
pub use retention::{RetentionRef, RetentionRow};
pub use study::{StoredStudies, StudyGroup, StudyRow, TrialReportRow, TrialRow, TrialTail};
pub use task::{GoneTaskRow, StoredTasks, TaskArrayRow, TaskEventRow, TaskGroup, TaskOutputRow, TaskRow};
pub use task_feed::{StoredFeed, TaskCursorRow, TaskFeedGroup, TaskFeedRow};
pub use task_log::{LOG_PIECE, TaskLogGroup, TaskLogRange, TaskLogRow};
pub use task_progress::{TaskProgressGroup, TaskProgressRow};
pub use token::TokenRow;
pub use upload::Upload;
pub use url::StoreUrl;
pub use user_limit::UserLimitRow;
pub use worker::Worker;
