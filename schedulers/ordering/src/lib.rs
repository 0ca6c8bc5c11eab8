//! To have capacity promised, and the trait of a scheduler. Pure: no clock, no I/O, no `await`.
//!
//! An [`Order`] says the [`Question`] that the ledger is to be asked next, and what an [`Answer`] means for it. A service asks
//! by HTTP, a simulator by a call. An answer may be lost: then the same question is asked again, and has its effect once.
//!
//! A [`Scheduler`] hears events and answers with commands. A [`Driver`] keeps its orders and tasks, and whoever has the driver
//! carries them.
//!
//! Invariant: an order has its promises in the ledger at most once, and whoever gives it back has none in the end, whatever
//! is lost, late or twice on the way.

mod driver;
mod order;
mod question;
mod scheduler;

pub use driver::{Driver, Errand, TaskAnswer};
pub use order::{Order, OrderKey, Stage, Step};
pub use question::{Answer, Done, Question};
pub use scheduler::{Command, Event, OrderNews, Scheduler, TaskEnd, TaskNews};
