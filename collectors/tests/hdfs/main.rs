//! The collector `hdfs` against a real HDFS, whose own WebHDFS is asked for a second opinion, and against servers that
//! are not as they should be.
#![cfg(feature = "hdfs")]
#![allow(clippy::unwrap_used)]

mod broken;
mod real;
mod support;
