//! The tools of all tests: real database servers, a real HDFS, a real Docker engine and a real registry of images to throw away, workers of Celery, the binary under test as a real process,
//! its services together or apart with agents and load, a client for HTTP that sends exactly the bytes it is told to,
//! and waiting for conditions. For failures of a cluster: executables that misbehave as they are told, a look at the
//! process table, hosts with a network that can be cut, whole machines with systemd, a proxy that holds, closes or delays connections, and disks that
//! are full or fail.
//!
//! This crate knows no other crate of the workspace, so that each of them may use it in its tests.
//! A part that cannot be set up is a panic that says what is missing: a test never passes because
//! something was not there. Every process that it starts dies with the test process, however that ends.

pub mod celery;
pub mod clock;
pub mod databases;
pub mod disk;
pub mod docker;
pub mod eureka;
pub mod growth;
pub mod hdfs;
pub mod http;
pub mod image_registry;
pub mod load;
pub mod machine;
pub mod mock;
pub mod netns;
pub mod place;
pub mod plane;
mod ports;
pub mod process;
pub mod processes;
pub mod proxy;
pub mod rabbitmq;
pub mod redis;
pub mod sale_plane;
mod spawner;
pub mod wait;
pub mod web_proxy;

/// Where the binary under test looks for a token.
pub const TOKEN_VARIABLE: &str = "ESTIMAND_TOKEN";
/// The token of everything under test and of the clients here: services, agents and commands of a test
/// belong together. How tokens come to be and what they are worth has tests of its own, which show others.
pub const TOKEN: &str = "estimand_this-is-the-token-of-all-tests-and-secret-to-nobody";
