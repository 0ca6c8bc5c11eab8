//! Tuning: which parameters a study tries next, which trials end early, and which study steps back.
//!
//! Pure: no clock, no I/O, no randomness but a seed. Equal calls give equal answers, to the last bit on the same kind of
//! machine; a service and a simulation call the same functions.
//!
//! - [`space`] has what a trial may be given, and [`Study`] what it is given next, by one of the [`samplers`].
//! - [`pruners`] judge trials by their reports.
//! - [`priority`] has Algorithm 1 of the paper, by which a study that no longer improves declines offers.
//! - [`importance`] says how much each parameter matters.

mod descent;
mod draw;
mod importance;
mod linear;
mod normal;
pub mod priority;
pub mod pruners;
pub mod samplers;
pub mod space;
mod study;
mod trial;

pub use draw::Draw;
pub use importance::{LEAST_RESULTS, importance};
pub use study::{ClimbingTrial, Study};
pub use trial::{
    Curve, Direction, History, Measure, NotFinite, Outcome, Report, ReportError, TrialNumber, TrialResult,
};
