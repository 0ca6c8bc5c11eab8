//! The background loops: proposals are made ahead, trials run as tasks, and studies, trials and deleted rows end in their time.

mod listener;
mod proposer;
mod runner;
mod tidier;
mod trial_reports;

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::{Loop, Tasks};
use estimand_service::Writer;
use tokio::sync::{Mutex, mpsc};

use crate::shared::Shared;
use crate::shelves::Shelf;
use crate::writer::StudiesState;

use listener::Listener;
use runner::Runner;
use tidier::Tidier;
use trial_reports::TrialReports;

/// The pauses after failures: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The loops look so often although nothing was announced.
const TIDY_EVERY: Duration = Duration::from_secs(1);
const RUN_EVERY: Duration = Duration::from_secs(1);
const LISTEN_EVERY: Duration = Duration::from_secs(1);

pub fn start(
    shared: &Arc<Shared>,
    writer: &Writer<StudiesState>,
    starting: mpsc::Receiver<Arc<Shelf>>,
    tasks: &Tasks,
) {
    let to = writer.clone();
    let tidying = Loop {
        name: "tuning-tidier",
        activity: "ending what is over in studies",
        every: TIDY_EVERY,
        pauses: PAUSES,
    };
    tidying.spawn(tasks, shared, |all| &all.tidying, move |shared| Tidier { shared, writer: to.clone() });
    let to = writer.clone();
    let running =
        Loop { name: "tuning-runner", activity: "running trials as tasks", every: RUN_EVERY, pauses: PAUSES };
    running.spawn(
        tasks,
        shared,
        |all| &all.running,
        move |shared| Runner {
            shared,
            writer: to.clone(),
            reports: TrialReports::default(),
            has_tasks: true,
        },
    );
    let listening = Loop {
        name: "tuning-listener",
        activity: "hearing of the tasks of trials",
        every: LISTEN_EVERY,
        pauses: PAUSES,
    };
    listening.spawn(tasks, shared, |all| &all.listening, |shared| Listener { shared, heard_to: None });
    // The lock says that one run of the task at a time serves the queue; nothing else ever takes it.
    let all = Arc::clone(shared);
    let starting = Arc::new(Mutex::new(starting));
    tasks.spawn_until_stop("tuning-proposers", move || {
        let shared = Arc::clone(&all);
        let starting = Arc::clone(&starting);
        async move { proposer::run(&shared, &mut *starting.lock().await).await }
    });
}
