//! The smallest scheduler: at most two tasks of a user run at once, the dearest first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use estimand_ordering::{Command, Event, Scheduler, TaskEnd, TaskNews};

const AT_ONCE: usize = 2;

enum Request {
    Run { user: &'static str, task: &'static str, worth: u64 },
    GiveUp { task: &'static str },
}

/// The tasks of all users. A task waits until it has one of the places of its user.
#[derive(Default)]
struct TwoAtOnce {
    waiting: BTreeMap<&'static str, BTreeSet<(u64, &'static str)>>,
    running: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Scheduler for TwoAtOnce {
    type Request = Request;
    type Task = ();

    fn hear(&mut self, _now: u64, event: Event<Request>) -> Vec<Command<()>> {
        match event {
            Event::Request(Request::Run { user, task, worth }) => {
                self.waiting.entry(user).or_default().insert((worth, task));
                self.fill()
            }
            Event::Request(Request::GiveUp { task }) => {
                self.waiting.values_mut().for_each(|tasks| tasks.retain(|(_, waiting)| *waiting != task));
                let is_running = self.running.values().any(|tasks| tasks.contains(task));
                let cancel =
                    || Command::Cancel { task: task.to_owned(), grace: Duration::ZERO, checkpoint: false };
                is_running.then(cancel).into_iter().collect()
            }
            Event::Task { task, news: TaskNews::Ended(_) } => {
                self.running.values_mut().for_each(|tasks| tasks.retain(|running| *running != task));
                self.fill()
            }
            Event::Task { .. } | Event::Fact { .. } | Event::Order { .. } | Event::Time => Vec::new(),
        }
    }
}

impl TwoAtOnce {
    fn fill(&mut self) -> Vec<Command<()>> {
        let mut commands = Vec::new();
        for (user, waiting) in &mut self.waiting {
            let running = self.running.entry(user).or_default();
            while running.len() < AT_ONCE
                && let Some((_, task)) = waiting.pop_last()
            {
                running.insert(task.to_owned());
                commands.push(Command::Submit { task: task.to_owned(), document: () });
            }
        }
        commands
    }
}

#[test]
fn two_run_at_once_and_the_dearest_first() {
    let mut toy = TwoAtOnce::default();
    let mut hear = |event| {
        let commands = toy.hear(0, event).into_iter();
        let said = commands.map(|command| match command {
            Command::Submit { task, .. } => format!("run {task}"),
            Command::Cancel { task, .. } => format!("end {task}"),
            other => format!("{other:?}"),
        });
        said.collect::<Vec<_>>().join(", ")
    };
    let run = |user, task, worth| Event::Request(Request::Run { user, task, worth });
    let ended = |task: &str| Event::Task { task: task.to_owned(), news: TaskNews::Ended(TaskEnd::Succeeded) };
    assert_eq!(hear(run("ada", "a", 1)), "run a");
    assert_eq!(hear(run("ada", "b", 1)), "run b");
    assert_eq!(hear(run("ada", "c", 1)), "");
    assert_eq!(hear(run("ada", "d", 9)), "");
    assert_eq!(hear(run("bob", "e", 0)), "run e", "another user has places of their own");
    assert_eq!(hear(ended("a")), "run d", "the dearest is the next");
    assert_eq!(hear(ended("a")), "", "an end that is told twice frees no second place");
    assert_eq!(hear(Event::Request(Request::GiveUp { task: "b" })), "end b");
    assert_eq!(hear(Event::Request(Request::GiveUp { task: "c" })), "");
    assert_eq!(hear(ended("b")), "", "nothing waits any more");
}
