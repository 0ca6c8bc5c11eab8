//! Tuning: which parameters a study tries next, which trials end early, and which study steps back.
//!
//! Pure: no clock, no I/O, no randomness but a seed.

mod draw;
mod normal;
pub mod pruners;
pub mod space;
mod trial;

pub use draw::Draw;
pub use trial::{
    Curve, Direction, History, Measure, NotFinite, Outcome, Report, ReportError, TrialNumber, TrialResult,
};
