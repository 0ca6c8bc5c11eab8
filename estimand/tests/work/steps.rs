//! Everything that has a part in a task is killed at each step on its way, which is held there by whoever would take the
//! next one.

use std::path::Path;

use estimand_testkit::process::Estimand;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};

use crate::plane::Plane;
use crate::runs::{self, Kind};

/// So many lines are a moment.
const LINES: u32 = 3;

/// The step that a task has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Stored with a node; the manager has not heard of it.
    Placed,
    /// The agent has not heard of it.
    Told,
    /// In the agent's folder, with this file or line of its keeper's record.
    OnDisk(&'static str),
    /// The task service knows its end; the manager has not heard of that.
    Reported,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Agent,
    Tasks,
    Manager,
    /// The process that runs this attempt,
    Keeper,
    /// the one that is the parent of what it runs,
    Launcher,
    /// and both.
    Both,
}

const STEPS: [Step; 7] = [
    Step::Placed,
    Step::Told,
    Step::OnDisk("accepted.json"),
    Step::OnDisk("begun"),
    Step::OnDisk("running"),
    Step::OnDisk("end"),
    Step::Reported,
];

impl Step {
    /// Those whose death can matter at this step.
    fn victims(self) -> &'static [Victim] {
        use Victim::{Agent, Both, Keeper, Launcher, Manager, Tasks};
        match self {
            Step::Placed => &[Tasks, Manager],
            Step::Told => &[Agent, Tasks, Manager],
            Step::OnDisk("begun") => &[Agent, Keeper],
            Step::OnDisk("running") => &[Agent, Tasks, Manager, Keeper, Launcher, Both],
            Step::OnDisk(_) => &[Agent, Tasks],
            Step::Reported => &[Agent, Tasks, Manager],
        }
    }
}

#[test]
fn whatever_is_killed_at_any_step_each_task_is_done_as_its_document_says() {
    let mut plane = Plane::start("steps", &["n1"]);
    let cases = STEPS.iter().flat_map(|step| step.victims().iter().map(|victim| (*step, *victim)));
    let cases: Vec<(Step, Victim)> = cases.collect();
    runs::watching(&mut plane, |plane| {
        let mut done = Vec::new();
        for (number, (step, victim)) in cases.into_iter().enumerate() {
            let kind = Kind::ALL[number % Kind::ALL.len()];
            println!("{victim:?} is killed while a task is {step:?}, which {kind:?}");
            let id = kill_at(plane, step, victim, kind);
            done.push((id, kind));
        }
        for (id, kind) in &done {
            let task = plane.over(id);
            runs::check(plane, id, &task, *kind, LINES);
        }
    });
    runs::check_alone(&plane);
    runs::check_free(&plane);
}

/// Submits a task, kills somebody at that step, and has all of them go on.
fn kill_at(plane: &mut Plane, step: Step, victim: Victim, kind: Kind) -> String {
    // Of the case before this one.
    plane.wait_nodes(1);
    let document = runs::document(plane, kind, LINES);
    let holder = match step {
        Step::Placed | Step::Reported => Some(Victim::Manager),
        Step::Told => Some(Victim::Agent),
        Step::OnDisk("end") => Some(Victim::Tasks),
        // The next step takes a while.
        Step::OnDisk(_) => None,
    };
    let hold = |plane: &mut Plane| holder.into_iter().for_each(|who| process(plane, who).pause());
    let before_it_is_placed = matches!(step, Step::Placed | Step::Told);
    if before_it_is_placed {
        hold(plane);
    }
    let id = plane.submit(&document);
    let folder = plane.agents[0].data_dir().join("tasks").join(format!("{id}.1"));
    match step {
        Step::Placed | Step::Told => plane.wait_been(&id, &["PLACED"]),
        Step::OnDisk("end") => {
            wait_for(&folder, "running");
            hold(plane);
            wait_for(&folder, "end");
        }
        Step::OnDisk(step) => wait_for(&folder, step),
        Step::Reported => {
            plane.wait_been(&id, &["RUNNING"]);
            hold(plane);
            // A manager that stands still renews no lease, which may end first.
            plane.wait_been(&id, &["SUCCEEDED", "QUEUED", "FAILED"]);
        }
    }
    strike(plane, victim, &folder);
    holder.into_iter().for_each(|who| process(plane, who).resume());
    id
}

fn wait_for(folder: &Path, step: &str) {
    wait::until(PATIENCE, step, || processes::has_reached(folder, step).then_some(()));
}

fn process(plane: &mut Plane, who: Victim) -> &mut Estimand {
    match who {
        Victim::Tasks => &mut plane.tasks,
        Victim::Manager => &mut plane.services.manager,
        _ => &mut plane.agents[0],
    }
}

/// Kills somebody; what is a service or an agent is started again.
fn strike(plane: &mut Plane, victim: Victim, folder: &Path) {
    // Before it is begun, one of those that wait for it.
    let waiting = || {
        let tasks = folder.parent().unwrap_or(folder).canonicalize().unwrap_or_default();
        processes::with_argument(&tasks.display().to_string()).into_iter().find(processes::is_keeper)
    };
    let keeper = || match folder.join("begun").exists() {
        true => processes::keeper_of(folder).map(|one| one.pid),
        false => waiting().map(|one| one.pid),
    };
    let launcher = |keeper: u32| {
        let below = processes::descendants(keeper);
        below.into_iter().find(|one| one.cmdline.iter().any(|arg| arg == "slot-launcher")).map(|one| one.pid)
    };
    match victim {
        Victim::Agent | Victim::Tasks | Victim::Manager => process(plane, victim).restart_on_same_port(),
        // It may have ended already.
        Victim::Keeper => keeper().into_iter().for_each(processes::kill9),
        Victim::Launcher => keeper().and_then(launcher).into_iter().for_each(processes::kill9),
        Victim::Both => {
            let keeper = keeper();
            keeper.and_then(launcher).into_iter().chain(keeper).for_each(processes::kill9);
        }
    }
}
