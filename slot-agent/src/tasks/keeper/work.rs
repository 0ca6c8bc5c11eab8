//! The two ways in which a task runs, as its watch sees them: a process, or a container.

use std::time::Duration;

use estimand_api::task::TaskEnding;
use estimand_api::task_usage::TaskUsage;
use estimand_exec::{ExceededLimit, Exit, Run, RunOutcome, RunUsage};

use super::container::Container;
use super::step::Step;

pub enum Work {
    /// A process that was started.
    Process(Box<Run>),
    /// A container that is made ready and started by itself.
    Container(Container),
}

impl Work {
    /// Waits for its next step. May be dropped and called again, until it has ended.
    pub async fn step(&mut self, is_running: bool) -> Step {
        match self {
            Work::Process(_) if !is_running => Step::Running,
            Work::Process(run) => {
                let outcome = run.ended().await;
                let used = outcome.usage.map(|usage| used(outcome.ran_for, &usage));
                Step::Ended { ending: ending(&outcome), used }
            }
            Work::Container(container) => container.step(is_running).await,
        }
    }

    /// Asks it to write down how far it is.
    pub fn checkpoint(&self) {
        match self {
            Work::Process(run) => run.checkpoint(),
            Work::Container(container) => container.checkpoint(),
        }
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        match self {
            Work::Process(run) => run.terminate(),
            Work::Container(container) => container.terminate(),
        }
    }

    pub fn kill(&self) {
        match self {
            Work::Process(run) => run.kill(),
            Work::Container(container) => container.kill(),
        }
    }
}

/// How it ended by itself.
fn ending(outcome: &RunOutcome) -> TaskEnding {
    match (outcome.exceeded, outcome.exit) {
        (Some(ExceededLimit::Memory), _) => TaskEnding::OutOfMemory,
        (_, Exit::Code(code)) => TaskEnding::Exit(code),
        (_, Exit::Signal(signal)) => TaskEnding::Signal(signal),
        // Its launcher was killed, and it with it.
        (_, Exit::Lost) => TaskEnding::NodeLost,
    }
}

/// The usage of a run that took so long, as it is told.
fn used(ran_for: Duration, usage: &RunUsage) -> TaskUsage {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let RunUsage { processor, disk, memory, memory_limit } = usage;
    TaskUsage {
        ran_us: micros(ran_for),
        cpu_user_us: micros(processor.user),
        cpu_system_us: micros(processor.system),
        memory_peak: memory.map(|memory| memory.peak),
        memory_mean: memory.and_then(|memory| memory.mean),
        memory_cache: memory.map(|memory| memory.cache),
        memory_limit: *memory_limit,
        disk_read: disk.read,
        disk_written: disk.written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_what_ended_it() {
        let check = |exit, exceeded, expected: TaskEnding| {
            let (ran_for, cpu) = (Duration::ZERO, Duration::ZERO);
            let outcome = RunOutcome { exit, ran_for, cpu, memory: None, exceeded, usage: None };
            assert_eq!(ending(&outcome), expected);
        };
        check(Exit::Code(3), None, TaskEnding::Exit(3));
        check(Exit::Signal(9), None, TaskEnding::Signal(9));
        check(Exit::Signal(9), Some(ExceededLimit::Memory), TaskEnding::OutOfMemory);
        check(Exit::Signal(9), Some(ExceededLimit::Processes), TaskEnding::Signal(9));
        check(Exit::Lost, None, TaskEnding::NodeLost);
    }
}
