//! Stories over a whole cluster of real processes: what happens when parts of it die, hang, or are cut off.
//!
//! Each story starts services and agents as a user does, takes something away, and checks what must hold by
//! other means than what the cluster says of itself: locks that runs hold, counters that they keep, the
//! process table. Nothing sleeps; time passes by waiting for runs. Outages are short by default and 20 seconds
//! with `ESTIMAND_LONG`.
#![allow(clippy::unwrap_used)]

mod backup;
mod data_outages;
mod leaders;
mod losses;
mod manager_outages;
mod names;
mod network_cut;
mod nodes;
mod restart;

use std::time::Duration;

/// How long a part is away.
fn outage() -> Duration {
    Duration::from_secs(if is_long() { 20 } else { 8 })
}

fn is_long() -> bool {
    std::env::var_os("ESTIMAND_LONG").is_some()
}
