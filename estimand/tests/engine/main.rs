//! Registrations run, at their time, in surroundings that are documented; and however an executable misbehaves,
//! nothing else notices. Seen from outside: real processes, the REST interface and the process table.
//!
//! The executable is mostly the testkit's mock, which does as it is told. Each test has a plane of its own, and in
//! the end nothing may be left of it in the process table.
#![allow(clippy::unwrap_used)]

mod bounds;
mod by_hand;
mod changes;
mod defaults;
mod derived;
mod ends;
mod escape;
mod formats;
mod limits;
mod nasty;
mod pins;
mod plane;
mod privileges;
mod secrets;
mod slots;
mod timing;
mod uploads;
mod variables;
