//! The ledger of capacity: what each resource of each node has free at each tick, and what is promised.
//!
//! Pure: no clock, no I/O, no randomness, no floats. The service that owns the one instance stores it (it is
//! serializable) and tells it the time; a simulator does the same with a clock of its own.
//!
//! Invariant: for each node, resource and tick from now on, running and promised together never exceed the capacity.
//! Capacity that shrinks is re-planned in the same call, and the answer says what that did to promises.
//!
//! Beside promises there are *loans*, which have no time to come: capacity is lent until a promise needs it, and recalled
//! in time. Who has how much of what is lent is summed up in *shares*, by which those who wait are put in an order.
//!
//! Cost: a resource of a node is a step function of time, kept as a sorted map of its changes. With `n` changes, of which
//! `k` lie in the window asked for, a check or a change of one claim takes O(log n + k), whatever the length of the
//! horizon. Of `n` releases one at most looks at all `n`, to find the peak again.

mod amounts;
mod error;
mod fold;
mod ids;
mod ledger;
mod loan;
mod node;
mod outcome;
mod promise;
mod record;
mod replan;
mod search;
mod share;
mod share_order;
mod shares;
mod steps;
mod trial;
mod usage;
mod window;

pub use amounts::{Amounts, Resource, ResourceError, Shape};
pub use error::LedgerError;
pub use ids::{LoanId, NodeId, PromiseId};
pub use ledger::Ledger;
pub use loan::Loan;
pub use node::Standing;
pub use outcome::{Move, Passed, Replan};
pub use promise::{Claim, Promise, Stage};
pub use share::{Share, Weight};
pub use share_order::ShareOrder;
pub use shares::{Holder, ShareChanges, Shares};
pub use trial::Trial;
pub use usage::Usage;
pub use window::{EmptyWindow, OPEN_END, Tick, Window};
