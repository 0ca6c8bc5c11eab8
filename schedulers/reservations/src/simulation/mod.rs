//! The prices of a day, job by job: recorded or generated demand under a virtual clock, which is the arrivals.
//!
//! `recipe` generates demand, `arrivals` makes it of recorded arrivals, `replay` prices it, `bounds` says what could have
//! been, `study` compares ways to price, `table` and `picture` show it.

mod arrivals;
mod bounds;
mod picture;
mod recipe;
mod replay;
mod study;
mod table;

pub use arrivals::{ArrivalsError, Hours, arrivals};
pub use bounds::knapsack;
pub use picture::{PricedDay, picture};
pub use recipe::{DAY, Recipe};
pub use replay::{Grant, Moment, Outcome, Setup, SimulationError, replay};
pub use study::{Day, Figures, Kind, Study};
pub use table::table;
