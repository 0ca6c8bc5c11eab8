//! The limits of the operating system that leave a service too little to begin with.
//!
//! A thread or a descriptor that is missing later is found by whoever needs it, and is told there. The needs of every
//! start are looked at before it, so that a lack of them is told in words and with the way out.

use std::thread::available_parallelism;

use anyhow::bail;
use rustix::process::{Resource, geteuid, getrlimit};

/// Stores, loops and streams, and a few for each thread that answers requests.
const FILES: u64 = 96;
const FILES_A_WORKER: u64 = 4;
const THREADS: u64 = 48;
const THREADS_A_WORKER: u64 = 2;

/// Fails if a service with so many threads that answer requests could not start.
pub fn check(workers: Option<usize>) -> anyhow::Result<()> {
    let cores = || available_parallelism().map_or(2, usize::from);
    let workers = workers.unwrap_or_else(cores) as u64;
    let needed = FILES + FILES_A_WORKER * workers;
    if let Some(files) = too_few(getrlimit(Resource::Nofile).maximum, needed) {
        bail!(
            "this process may have {files} files open, and a service needs at least {needed}: `ulimit -n 4096` before it, \
             or LimitNOFILE=4096 in its unit of systemd"
        );
    }
    // The kernel does not hold root to it.
    let needed = THREADS + THREADS_A_WORKER * workers;
    let threads = too_few(getrlimit(Resource::Nproc).current, needed);
    if let Some(threads) = threads.filter(|_| !geteuid().is_root()) {
        bail!(
            "this user may have {threads} processes and threads, and a service needs at least {needed}: `ulimit -u 4096` \
             before it, or LimitNPROC=4096 in its unit of systemd"
        );
    }
    Ok(())
}

/// The limit, if it is below what is needed.
fn too_few(limit: Option<u64>, needed: u64) -> Option<u64> {
    limit.filter(|limit| *limit < needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_none_is_enough() {
        assert_eq!(
            (too_few(None, 100), too_few(Some(100), 100), too_few(Some(99), 100)),
            (None, None, Some(99))
        );
    }
}
