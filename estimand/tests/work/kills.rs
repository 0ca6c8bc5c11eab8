//! Everything is killed in turn while tasks come, run and go: services, agents, keepers and their launchers, and in the
//! long form the database under the services.

use std::time::{Duration, Instant};

use estimand_testkit::processes::{self, Process};
use estimand_testkit::wait::{self, PATIENCE};

use crate::plane::{Plane, own_postgres};
use crate::runs::{self, Kind};
use crate::{long_or, with_the_processor};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const LINES: u32 = 6;
/// The most tasks that wait or run: as many as the nodes take, and some more.
const AT_ONCE: usize = 40;
/// The longest pause between two kills.
const PAUSE: Duration = Duration::from_millis(1_500);

/// Everything that is killed. Agents and the task service, at which most is under way, come more often.
const VICTIMS: [Victim; 10] = [
    Victim::Agent(0),
    Victim::Tasks,
    Victim::Keeper,
    Victim::Manager,
    Victim::Agent(1),
    Victim::Launcher,
    Victim::Registry,
    Victim::Agent(2),
    Victim::Data,
    Victim::Database,
];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Agent(usize),
    Tasks,
    Manager,
    Registry,
    Data,
    /// One of all that run,
    Keeper,
    /// and one of their launchers.
    Launcher,
    Database,
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    let _alone = with_the_processor();
    let mut plane = Plane::with("kills", &NODES, own_postgres());
    let (least, span) = long_or((1_000, Duration::from_secs(600)), (60, Duration::from_secs(30)));
    let (began, mut tasks, mut kills) = (Instant::now(), Vec::new(), 0);
    runs::watching(&mut plane, |plane| {
        while began.elapsed() < span || tasks.len() < least {
            assert!(began.elapsed() < 3 * span + PATIENCE, "{} of {least} tasks", tasks.len());
            submit_more(plane, &mut tasks);
            wait::pass(PAUSE.mul_f64(fastrand::f64()));
            kill(plane, VICTIMS[kills % VICTIMS.len()]);
            kills += 1;
        }
        for (id, kind) in &tasks {
            let task = plane.over(id);
            runs::check(plane, id, &task, *kind, LINES);
        }
    });
    runs::check_alone(&plane);
    runs::check_free(&plane);
    println!("{} tasks and {kills} kills in {:?}", tasks.len(), began.elapsed());
}

/// Submits as many as there may be at once.
fn submit_more(plane: &Plane, tasks: &mut Vec<(String, Kind)>) {
    // Where the task service does not answer now, the next round asks.
    let Some(under_way) = under_way(plane) else { return };
    for _ in under_way..AT_ONCE {
        let kind = Kind::ALL[tasks.len() % Kind::ALL.len()];
        tasks.push((plane.submit(&runs::document(plane, kind, LINES)), kind));
    }
}

/// How many tasks are not over.
fn under_way(plane: &Plane) -> Option<usize> {
    let states = "QUEUED,PLACED,ACCEPTED,PREPARING,RUNNING,STOPPING,LOST";
    let page = plane.try_get(&format!("/api/tasks?state={states}&limit=1000")).ok()?;
    Some(page["tasks"].as_array()?.len())
}

fn kill(plane: &mut Plane, victim: Victim) {
    match victim {
        Victim::Agent(number) => plane.agents[number].restart_on_same_port(),
        Victim::Tasks => plane.tasks.restart_on_same_port(),
        Victim::Manager => plane.services.manager.restart_on_same_port(),
        Victim::Registry => plane.services.registry.restart_on_same_port(),
        Victim::Data => plane.services.data.restart_on_same_port(),
        Victim::Keeper => any_of(plane, "task-keeper"),
        Victim::Launcher => any_of(plane, "slot-launcher"),
        Victim::Database => {
            if let Some(postgres) = &plane.postgres {
                postgres.kill9();
                postgres.start_again();
            }
        }
    }
}

/// Kills one of the processes of tasks that are called by this word, if there is one.
fn any_of(plane: &Plane, word: &str) {
    let folder = plane.place.agent_folder("").display().to_string();
    let keepers = processes::with_argument(&folder);
    let keepers = keepers.iter().filter(|one| is_called(one, "task-keeper"));
    let found: Vec<u32> = match word {
        "task-keeper" => keepers.map(|keeper| keeper.pid).collect(),
        _ => keepers
            .flat_map(|keeper| processes::descendants(keeper.pid))
            .filter(|one| is_called(one, word))
            .map(|launcher| launcher.pid)
            .collect(),
    };
    if !found.is_empty() {
        processes::kill9(found[fastrand::usize(..found.len())]);
    }
}

fn is_called(process: &Process, word: &str) -> bool {
    process.cmdline.iter().any(|arg| arg == word)
}
