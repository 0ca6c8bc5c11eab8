//! The HTTP half of ordering: questions go to the ledger of a task service, errands to its tasks, and news comes back.
//!
//! A carrier keeps only how far it has read the news, and without that it reads all that is kept there again: drivers pass
//! over what they know. A request whose answer is lost is sent again under the same key, by the client or in the next round.

mod errands;
mod ledger;

pub use errands::{Carrier, carry};
pub use ledger::{answer, ask};
