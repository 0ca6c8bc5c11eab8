//! The service of tuning: studies find good parameters by trials that run anywhere, in any language.
//!
//! Which parameters are tried next, which trials end early, and how much a parameter matters is up to `estimand-tuning`, which

mod asking;
mod background;
mod change;
mod document;
mod metrics;
mod proposing;
mod requests;
mod shared;
mod shelves;
mod storage;
mod study;
mod table;
mod trial;
mod views;
mod writer;
