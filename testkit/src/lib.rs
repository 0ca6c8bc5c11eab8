//! What tests stand on: real database servers to throw away, the binary under test as a real process,
//! a client for HTTP that sends exactly the bytes it is told to, and waiting for conditions.
//!
//! This crate knows no other crate of the workspace, so that each of them may use it in its tests.
//! Whatever it cannot set up is a panic that says what is missing: a test never passes because
//! something was not there. Whatever it starts dies with the test process, however that ends.

pub mod databases;
pub mod http;
mod ports;
pub mod process;
mod spawner;
pub mod wait;
