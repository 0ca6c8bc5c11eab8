//! What tests stand on: real database servers and a real HDFS to throw away, the binary under test as a real process,
//! a client for HTTP that sends exactly the bytes it is told to, and waiting for conditions. For what goes
//! wrong in a cluster: executables that misbehave as they are told, a look at the process table, hosts with
//! a network that can be cut, and a proxy that holds, closes or delays connections.
//!
//! This crate knows no other crate of the workspace, so that each of them may use it in its tests.
//! Whatever it cannot set up is a panic that says what is missing: a test never passes because
//! something was not there. Whatever it starts dies with the test process, however that ends.

pub mod databases;
pub mod hdfs;
pub mod http;
pub mod mock;
pub mod netns;
mod ports;
pub mod process;
pub mod processes;
pub mod proxy;
mod spawner;
pub mod wait;
