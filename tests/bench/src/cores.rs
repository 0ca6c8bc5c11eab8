//! The work of each core: one for the load, another for everything that is measured.
//!
//! The main thread lives on the servers' core and idles there while load runs; threads and processes that it starts
//! inherit that. Load runs on threads of its own that move to the other core. A machine with one core is measured
//! too, but the generator then takes its share of it.

use std::thread;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The two cores.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    pub load: usize,
    pub servers: usize,
}

impl Cores {
    /// Takes the first and the last core that this process may use, and moves the calling thread to the
    /// last. To be called before any other thread or process is started.
    pub fn take() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("which cores may be used")?;
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let load = allowed.next().context("no core may be used")?;
        let cores = Cores { load, servers: allowed.next_back().unwrap_or(load) };
        move_to(cores.servers)?;
        Ok(cores)
    }

    /// Runs `work` on the load's core and waits for it.
    pub fn on_load_core<T: Send>(self, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                move_to(self.load)?;
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn move_to(core: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).with_context(|| format!("cannot move to core {core}"))
}
