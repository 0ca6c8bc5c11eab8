//! The commands of the scheduler in `scheduler-demo`: `partition` plans, `job` carries a plan out. They use
//! the plane as any client does.

use estimand_cli::{Failure, Remote, Remotely, Session};

use crate::cli::SchedulerCommand;

mod job;
mod partition;

/// Runs a command; `before` are the options that stood before it.
pub async fn run(before: &Remote, command: SchedulerCommand) -> Result<(), Failure> {
    match command {
        SchedulerCommand::Partition(Remotely { own, remote }) => {
            let mut session = Session::open(&remote.or(before))?;
            let done = partition::partition(&mut session, &own).await;
            session.close(done)
        }
        SchedulerCommand::Job(args) => {
            let Remotely { own, remote } = *args;
            let mut session = Session::open(&remote.or(before))?;
            let done = job::job(&mut session, &own).await;
            session.close(done)
        }
    }
}
