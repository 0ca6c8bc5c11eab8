//! The agent is killed, the launcher is killed, and a great many runs come and go.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio as Io};

use super::*;

const SPREAD: &str = "trap '' TERM; sleep 1000 & setsid sh -c 'sleep 1000; :' $0 & \
                      (setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' &) ; sleep 1000; :";

/// Not a test of its own: the agent that other tests kill.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "an agent for other tests to kill"]
async fn agent() {
    let Ok(mark) = std::env::var("AGENT_UNDER_TEST") else { return };
    let way = ALL_WAYS[std::env::var("AGENT_WAY").unwrap().parse::<usize>().unwrap()];
    let world = World { launcher: Launcher::start(options(&mark, way)).await.unwrap(), way, mark };
    let (first, second) = (world.cell().await, world.cell().await);
    let _one = world.launcher.run(world.shell(SPREAD, &first)).await.unwrap();
    let _two = world.launcher.run(world.shell(SPREAD, &second)).await.unwrap();
    until("all run", || marked(&world.mark).len() >= 10).await;
    println!("\nready");
    std::future::pending::<()>().await;
}

/// The agent above as a process of its own, with everything running.
fn agent_process(mark: &str, way: usize) -> Child {
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::deaths::agent", "--ignored", "--nocapture"])
        .env("AGENT_UNDER_TEST", mark)
        .env("AGENT_WAY", way.to_string())
        .stdout(Io::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "the agent did not come up");
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_leaves_nothing() {
    for (number, way) in ALL_WAYS.into_iter().enumerate() {
        let mark = new_mark();
        let mut agent = agent_process(&mark, number);
        agent.kill().unwrap();
        agent.wait().unwrap();
        // The launcher carries the mark too, in its environment, so it is waited for as well.
        until(&format!("everything is gone {way:?}"), || marked(&mark).is_empty()).await;
        until("its groups are gone", || groups_of(&mark).is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_ends_its_runs() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let soon = || Some(Instant::now() + Duration::from_millis(400));
        let (leased, free) = (world.cell().await, world.cell().await);
        let spec = RunSpec { until: soon(), ..world.shell(SPREAD, &leased) };
        let mut run = world.launcher.run(spec).await.unwrap();
        let mut other = world.launcher.run(world.shell("sleep 1000", &free)).await.unwrap();
        // Extended, it outlives its first deadline; and only the launcher watches it.
        world.launcher.extend_leases(Instant::now() + Duration::from_secs(2));
        let extended = tokio::time::timeout(Duration::from_millis(800), run.ended()).await;
        assert!(extended.is_err(), "{way:?}: {extended:?}");
        assert_eq!(run.ended().await.exit, Exit::Signal(libc::SIGKILL), "{way:?}");
        assert_eq!(
            marked(&world.mark).iter().filter(|line| line.contains("sleep 1000; :")).count(),
            0,
            "{way:?}"
        );
        other.kill();
        other.ended().await;
        drop((run, other));
        world.launcher.close_cell(leased).await;
        world.launcher.close_cell(free).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_ends_the_runs_of_a_killed_launcher() {
    for (number, way) in ALL_WAYS.into_iter().enumerate() {
        let mark = new_mark();
        let mut agent = agent_process(&mark, number);
        // Both at once, so that neither can clear away: the agent is stopped first.
        let launcher = launcher_of(agent.id() as i32);
        orphans::signal(agent.id() as i32, rustix::process::Signal::STOP);
        orphans::signal(launcher, rustix::process::Signal::KILL);
        until("the launcher is dead", || !is_alive(launcher)).await;
        agent.kill().unwrap();
        agent.wait().unwrap();
        assert!(!marked(&mark).is_empty(), "something is left to be ended");
        let launcher = Launcher::start(options(&mark, way)).await.unwrap();
        assert_eq!(marked(&mark), Vec::<String>::new(), "before start returns");
        launcher.stop().await;
        assert_eq!(groups_of(&mark), Vec::<PathBuf>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_launcher_leaves_nothing_and_the_next_run_works() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let (cell, other) = (world.cell().await, world.cell().await);
        let mut run = world.launcher.run(world.shell(SPREAD, &cell)).await.unwrap();
        until("all run", || marked(&world.mark).len() >= 5).await;
        orphans::signal(parent(run.pid()), rustix::process::Signal::KILL);
        assert_eq!(run.ended().await.exit, Exit::Lost, "{way:?}");
        assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?}");
        let zombies = || orphans::scan().into_iter().filter(|process| process.session == run.pid()).count();
        until("no zombie is left", || zombies() == 0).await;

        let captured = world.capture(world.shell("echo again", &cell), &ample()).await;
        assert_eq!(text(&captured.stdout), "again\n", "{way:?}");
        world.launcher.close_cell(other).await;
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_runs_leave_no_trace() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let cell = world.cell().await;
        let run = world.launcher.run(world.shell("sleep 1000", &cell)).await.unwrap();
        let launcher = parent(run.pid());
        drop(run);
        let size = || (descriptors(launcher), resident_pages(launcher));
        let mut before = (0, 0);
        let workers = (0..2).map(|_| async {
            for _ in 0..500 {
                let cell = world.cell().await;
                for script in ["exit 5", "echo a"] {
                    let mut spec = world.shell(script, &cell);
                    if script == "exit 5" {
                        spec.program = "/bin/false".into();
                    }
                    assert_eq!(world.capture(spec, &ample()).await.reason, EndReason::Completed);
                }
                world.launcher.close_cell(cell).await;
            }
        });
        for (place, worker) in workers.enumerate() {
            worker.await;
            if place == 0 {
                before = size();
            }
        }
        until("descriptors are closed", || descriptors(launcher) <= before.0).await;
        assert!(size().1 <= before.1 + 64, "pages: {before:?} to {:?}", size());
        let children = orphans::scan().into_iter().filter(|process| process.parent == launcher).count();
        assert_eq!(children, 0, "{way:?}: no zombie, no child");
        for group in groups_of(&world.mark) {
            let cells =
                std::fs::read_dir(group).unwrap().flatten().filter(|entry| entry.path().is_dir()).count();
            assert!(cells <= 1, "{way:?}: {cells}");
        }
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

/// 0 if they are hidden: a launcher shows itself to root alone.
fn descriptors(pid: i32) -> usize {
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => 0,
        Err(error) => panic!("{error}"),
    }
}

fn resident_pages(pid: i32) -> u64 {
    misbehaviour::resident(pid as u32) / 4096
}

fn parent(pid: i32) -> i32 {
    orphans::scan().into_iter().find(|process| process.pid == pid).unwrap().parent
}

fn is_alive(pid: i32) -> bool {
    orphans::scan().iter().any(|process| process.pid == pid && !process.zombie)
}

fn launcher_of(agent: i32) -> i32 {
    let children = orphans::scan().into_iter().filter(|process| process.parent == agent);
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    children.map(|process| process.pid).find(|pid| name(*pid) == "launcher\n").unwrap()
}
