//! How a process begins and ends: a second one beside it, the first moments of a new cluster, databases that cannot be
//! used, agents in folders that are not theirs, other users of the machine, and ends while something is away.
#![allow(clippy::unwrap_used)]

mod agents;
mod ends;
mod first;
mod second;
mod sockets;
mod stores;
mod strangers;

use estimand_testkit::plane::put;
use estimand_testkit::process::Builder;

/// The long form takes the number of rounds that a release deserves.
fn long_or<T>(long: T, short: T) -> T {
    if std::env::var_os("ESTIMAND_LONG").is_some() { long } else { short }
}

/// The words of a process that did not come up, which it must not.
#[track_caller]
fn refused(builder: Builder) -> String {
    let failure = builder.try_start().err().expect("it came up");
    assert!(failure.contains("exit status"), "it ended by itself: {failure}");
    assert!(!failure.contains("panicked"), "{failure}");
    failure
}
