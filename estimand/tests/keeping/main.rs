//! Tasks on a node: real processes under a real agent, whose manager and task service the test is itself. Whatever dies, a
//! task is run once, its log is whole and in order, its end is the true one, and nothing of it is left.
#![allow(clippy::unwrap_used)]

mod bounds;
mod containers;
mod deaths;
mod devices;
mod endings;
mod engine_deaths;
mod leases;
mod node;
mod privileges;
mod stand_in;
mod stops;
mod usage;
mod users;
mod windows;
