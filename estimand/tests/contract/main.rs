//! The contract: what a client may rely on, checked over the wire on every store and in every deployment.
//!
//! A check is a function over a [`target::Target`] and knows nothing of where it runs; `on_every_target!`
//! makes a test of it for each of the six targets. Checks of one target share its servers and run at the
//! same time, so each works on names that no other one uses.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod target;
mod answers;
mod fake;

mod access;
mod agents;
mod bad_bodies;
mod bad_queries;
mod bad_registrations;
mod bad_writes;
mod batches;
mod behalf;
mod bindings;
mod changes;
mod dashboard;
mod fields;
mod files;
mod history;
mod images;
mod instances;
mod labels;
mod limits;
mod nodes;
mod openapi;
mod order;
mod otlp;
mod paper;
mod progress;
mod promises;
mod proxied;
mod pushes;
mod reads;
mod registry;
mod reservations;
mod reservers;
mod selections;
mod service;
mod standby;
mod states;
mod studies;
mod summaries;
mod swaps;
mod tags;
mod tasks;
mod uploads;
mod usage;
mod users;
mod watch;
