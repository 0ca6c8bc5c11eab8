//! A task goes on while its agent dies and comes back; and whatever of its own is killed, nothing of it is left.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::node::{Node, texts};

/// After its keeper was killed.
pub const GONE_WITHIN: Duration = Duration::from_secs(10);
/// Says its process id, and then counts until it is told to end.
pub const COUNTS: &str = "echo $$; i=0; while [ ! -e \"$0/end\" ]; do echo $i; i=$((i+1)); sleep 0.01; done; echo total $i; exit 7";

/// Checks that a task that counts has said everything, in order, and was one process.
#[track_caller]
pub fn check_count(node: &Node, attempt: &str) {
    node.put("end");
    let heard = node.until_ended(attempt, json!({"exit": 7}));
    let lines = texts(&heard);
    assert!(heard.lines.keys().copied().eq(0..lines.len() as u64), "lines are missing");
    assert!(heard.lines.values().is_sorted_by_key(|line| line["at"].as_i64()));
    let total = lines.len() - 2;
    assert!(lines[0].parse::<u32>().is_ok());
    let numbers = (0..total).map(|number| number.to_string());
    assert!(lines[1..=total].iter().cloned().eq(numbers), "{lines:?}");
    assert_eq!(lines[total + 1], format!("total {total}"));
}

#[test]
fn a_task_goes_on_while_its_agent_is_killed_again_and_again() {
    for more in [&[][..], &["--no-cgroups"]] {
        let mut node = Node::with("agent", more);
        node.assign("c", node.shell(COUNTS));
        for round in 1..5 {
            node.until_said("c.1", &(round * 20).to_string());
            let shell = node.services.heard("c.1").lines[&0]["text"].as_str().unwrap().parse().unwrap();
            node.agent.kill9();
            assert!(processes::is_alive(shell));
            node.agent.restart_on_same_port();
        }
        check_count(&node, "c.1");
        node.end();
    }
}

#[test]
fn a_task_that_ends_while_its_agent_is_away_is_told_of_afterwards() {
    for asked in [false, true] {
        let mut node = Node::start("away");
        node.assign("c", node.shell(COUNTS));
        node.until_said("c.1", "10");
        if asked {
            assert!(node.agent.terminate().success());
            assert!(!node.services.has_left(), "its tasks would be started elsewhere");
        } else {
            node.agent.kill9();
        }
        assert!(!node.running().is_empty(), "it goes on");
        node.put("end");
        processes::none_with(&node.mark, PATIENCE);
        node.agent.restart_on_same_port();
        check_count(&node, "c.1");
        node.end();
    }
}

#[test]
fn an_agent_that_dies_at_any_step_begins_a_task_once() {
    let mut node = Node::start("steps");
    for round in 0..8 {
        let id = format!("s-{round}");
        let work = node.shell(&format!("echo x >> \"$0/{id}\"; echo done"));
        node.assign(&id, work);
        // At another moment each time, from before it was heard of to after its end.
        let accepted = node.tasks_folder().join(format!("{id}.1"));
        let step = ["accepted.json", "begun", "running", "end"][round % 4];
        wait::until(PATIENCE, step, || processes::has_reached(&accepted, step).then_some(()));
        node.agent.kill9();
        node.agent.restart_on_same_port();
        let heard = node.until_ended(&format!("{id}.1"), json!({"exit": 0}));
        assert_eq!(texts(&heard), ["done"]);
        assert_eq!(std::fs::read_to_string(node.folder.path().join(&id)).unwrap(), "x\n");
    }
    node.end();
}

#[test]
fn the_launcher_of_slots_has_nothing_to_do_with_tasks() {
    let node = Node::start("launcher");
    node.assign("c", node.shell(COUNTS));
    node.until_said("c.1", "10");
    let launcher = node.launcher_of(node.agent.pid());
    processes::kill9(launcher);
    wait::until(PATIENCE, "another launcher", || {
        (node.launcher_of(node.agent.pid()) != launcher).then_some(())
    });
    check_count(&node, "c.1");
    node.end();
}

#[test]
fn a_killed_keeper_takes_its_task_along() {
    for more in [&[][..], &["--no-cgroups"]] {
        let node = Node::with("keeper", more);
        node.assign(
            "k",
            node.mock(&["ignore-term", "daemonize", "grandchild-keeps-pipe", "print:there", "hang"]),
        );
        node.until_said("k.1", "there");
        wait::until(PATIENCE, "all of its processes", || (node.running().len() >= 3).then_some(()));
        processes::kill9(node.keeper("k.1").unwrap().pid);
        processes::none_with(&node.mark, GONE_WITHIN);
        node.until_ended("k.1", json!("nodeLost"));
        node.end();
    }
}

/// The next keeper of the attempt ends what they left.
#[test]
fn a_keeper_and_its_launcher_killed_together_leave_nothing_for_long() {
    for more in [&[][..], &["--no-cgroups"]] {
        let mut node = Node::with("both", more);
        node.assign(
            "k",
            node.mock(&["ignore-term", "daemonize", "grandchild-keeps-pipe", "print:there", "hang"]),
        );
        node.until_said("k.1", "there");
        wait::until(PATIENCE, "all of its processes", || (node.running().len() >= 3).then_some(()));
        let keeper = node.keeper("k.1").unwrap().pid;
        let launcher = node.launcher_of(keeper);
        // Also if the agent is away just then.
        node.agent.kill9();
        processes::kill9(launcher);
        processes::kill9(keeper);
        node.agent.restart_on_same_port();
        node.until_ended("k.1", json!("nodeLost"));
        processes::none_with(&node.mark, Duration::ZERO);
        node.end();
    }
}

#[test]
fn a_task_whose_own_launcher_is_killed_is_lost_and_gone() {
    let node = Node::start("own-launcher");
    node.assign("k", node.mock(&["daemonize", "print:there", "hang"]));
    node.until_said("k.1", "there");
    processes::kill9(node.launcher_of(node.keeper("k.1").unwrap().pid));
    node.until_ended("k.1", json!("nodeLost"));
    processes::none_with(&node.mark, Duration::ZERO);
    node.end();
}

#[test]
fn what_is_assigned_no_more_when_the_agent_comes_back_is_ended() {
    let mut node = Node::start("unassigned");
    node.assign("c", node.shell(COUNTS));
    node.until_said("c.1", "10");
    node.agent.kill9();
    node.services.assign(json!([]));
    assert!(!node.running().is_empty());
    node.agent.restart_on_same_port();
    processes::none_with(&node.mark, PATIENCE);
    node.end();
}

#[test]
fn what_the_task_service_does_not_take_is_told_when_it_does() {
    let mut node = Node::start("service-away");
    node.services.take_news(false);
    node.assign("c", node.shell(COUNTS));
    wait::until(PATIENCE, "it to run", || (!node.running().is_empty()).then_some(()));
    node.agent.kill9();
    node.agent.restart_on_same_port();
    assert!(node.services.heard("c.1").stages.is_empty());
    node.services.take_news(true);
    node.until_said("c.1", "20");
    check_count(&node, "c.1");
    node.end();
}

/// As when an operator removes an agent's data: nobody will ever ask for what runs there.
#[test]
fn a_task_whose_folder_is_removed_ends() {
    let mut node = Node::start("removed");
    node.assign("c", node.shell(COUNTS));
    node.until_said("c.1", "10");
    node.agent.kill9();
    std::fs::remove_dir_all(node.tasks_folder()).unwrap();
    processes::none_with(&node.mark, PATIENCE);
    node.services.assign(json!([]));
    node.agent.restart_on_same_port();
    node.end();
}

#[test]
fn short_tasks_have_a_few_keepers_one_after_the_other() {
    let node = Node::start("few-keepers");
    let ids: Vec<String> = (0..40).map(|number| format!("f-{number}")).collect();
    let task = |id: &String| json!({"id": id, "attempt": 1, "work": node.shell("echo $PWD; exit 3")});
    node.services.assign(json!(ids.iter().map(task).collect::<Vec<_>>()));
    let mut keepers = BTreeSet::new();
    for id in &ids {
        let attempt = format!("{id}.1");
        let heard = node.until_ended(&attempt, json!({"exit": 3}));
        let folder = node.tasks_folder().canonicalize().unwrap().join(&attempt);
        assert_eq!(texts(&heard), [folder.join("work").display().to_string()]);
        let record = fs::read_to_string(folder.join("begun")).unwrap();
        keepers.insert(record.lines().next().unwrap().to_owned());
    }
    assert!(keepers.len() <= ids.len() / 2, "{} keepers for {} tasks", keepers.len(), ids.len());
    node.end();
}

#[test]
fn a_keeper_that_is_killed_while_it_waits_is_not_missed() {
    let node = Node::start("idle-keeper");
    for round in 0..3 {
        let id = format!("i-{round}");
        node.assign(&id, node.shell("echo done"));
        node.until_ended(&format!("{id}.1"), json!({"exit": 0}));
        let folder = node.tasks_folder().canonicalize().unwrap().display().to_string();
        let waiting = processes::with_argument(&folder);
        let waiting: Vec<_> = waiting.iter().filter(|one| processes::is_keeper(one)).collect();
        assert!(!waiting.is_empty(), "nobody waits for the next task");
        waiting.iter().for_each(|keeper| processes::kill9(keeper.pid));
    }
    node.end();
}

/// After a power cut folders are there, and not all of what was in them.
#[test]
fn what_was_accepted_before_the_machine_was_started_anew_is_lost_and_not_begun() {
    let mut node = Node::start("power-cut");
    assert!(node.agent.terminate().success());
    let tasks = node.tasks_folder();
    fs::write(tasks.join("boot"), "another start of the machine").unwrap();
    let task = |id: &str| json!({"id": id, "attempt": 1, "work": node.shell("touch \"$0/ran\"")});
    let accepted = json!({"assignment": task("ended"), "at": 1, "boot": "another start of the machine"});
    let folders: [(&str, &[(&str, String)]); 4] = [
        ("empty", &[]),
        ("unwritten", &[("accepted.json", String::new()), ("order.json", String::new())]),
        (
            "begun",
            &[("accepted.json", accepted.to_string().replace("ended", "begun")), ("begun", String::new())],
        ),
        ("ended", &[("accepted.json", accepted.to_string()), ("end.json", String::new())]),
    ];
    for (id, files) in &folders {
        let folder = tasks.join(format!("{id}.1"));
        fs::create_dir(&folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }
    node.services.assign(json!(folders.each_ref().map(|(id, _)| task(id))));
    node.agent.restart_on_same_port();
    for (id, _) in &folders {
        node.until_ended(&format!("{id}.1"), json!("nodeLost"));
    }
    assert!(!node.has("ran"));
    node.end();
}
