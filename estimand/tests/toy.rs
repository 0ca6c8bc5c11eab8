//! A scheduler, whole: at most two tasks of a user run at once, the dearest first. It has a document, a core, a service and a
//! simulation, and nothing of its own to carry, to wait or to store: the same decisions come under a virtual clock and over a
//! real task service with tasks that really run.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use estimand_api::access::Token;
use estimand_api::task_stop::StopRequest;
use estimand_carrier::Carrier;
use estimand_client::{Client, Credentials, Options};
use estimand_ordering::{Command, Driver, Event, Scheduler, TaskNews};
use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_simulate::trace::{Trace, TraceTask};
use estimand_simulate::{Setup, nodes_of, simulate_driven};
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::sale_plane::SalePlane;
use estimand_testkit::wait::{self, PATIENCE};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const AT_ONCE: usize = 2;

/// The document of a request. What it runs is a task's document in the service, and a task of a trace in the simulation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job<T> {
    user: String,
    task: String,
    #[serde(default)]
    worth: u64,
    run: T,
}

enum Request<T> {
    Run(Job<T>),
    GiveUp(&'static str),
}

/// The tasks of all users. A task waits until it has one of the places of its user.
struct TwoAtOnce<T> {
    waiting: BTreeMap<String, BTreeMap<(u64, String), T>>,
    running: BTreeMap<String, BTreeSet<String>>,
    decisions: Vec<String>,
}

impl<T> Scheduler for TwoAtOnce<T> {
    type Request = Request<T>;
    type Task = T;

    fn hear(&mut self, _now: u64, event: Event<Request<T>>) -> Vec<Command<T>> {
        match event {
            Event::Request(Request::Run(Job { user, task, worth, run })) => {
                self.waiting.entry(user).or_default().insert((worth, task), run);
                self.fill()
            }
            Event::Request(Request::GiveUp(task)) => {
                self.waiting.values_mut().for_each(|tasks| tasks.retain(|(_, waiting), _| waiting != task));
                let is_running = self.running.values().any(|tasks| tasks.contains(task));
                self.decisions.extend(is_running.then(|| format!("end {task}")));
                let cancel = || Command::Cancel { task: task.to_owned(), stop: StopRequest::default() };
                is_running.then(cancel).into_iter().collect()
            }
            Event::Task { task, news: TaskNews::Ended(_) | TaskNews::Refused(_) } => {
                self.running.values_mut().for_each(|tasks| tasks.retain(|running| *running != task));
                self.fill()
            }
            Event::Task { .. } | Event::Fact { .. } | Event::Order { .. } | Event::Time => Vec::new(),
        }
    }
}

impl<T> TwoAtOnce<T> {
    fn driver() -> Driver<Self> {
        let toy = TwoAtOnce { waiting: BTreeMap::new(), running: BTreeMap::new(), decisions: Vec::new() };
        Driver::new("toy", toy)
    }

    fn fill(&mut self) -> Vec<Command<T>> {
        let mut commands = Vec::new();
        for (user, waiting) in &mut self.waiting {
            let running = self.running.entry(user.clone()).or_default();
            while running.len() < AT_ONCE
                && let Some(((_, task), document)) = waiting.pop_last()
            {
                running.insert(task.clone());
                self.decisions.push(format!("run {task}"));
                commands.push(Command::Submit { task, document });
            }
        }
        commands
    }

    fn is_idle(&self) -> bool {
        self.waiting.values().all(BTreeMap::is_empty) && self.running.values().all(BTreeSet::is_empty)
    }
}

/// The requests in their order, the first five at once.
const JOBS: [(&str, &str, u64); 5] =
    [("ada", "toy-a", 1), ("ada", "toy-b", 1), ("ada", "toy-c", 1), ("ada", "toy-d", 9), ("bob", "toy-e", 0)];
/// The decisions: another user has places of their own, and the dearest is the next.
const DECISIONS: [&str; 6] = ["run toy-a", "run toy-b", "run toy-e", "run toy-d", "end toy-b", "run toy-c"];

/// The first requests, as documents that users write.
fn requests<T: DeserializeOwned>(run: impl Fn(&str, &str) -> Value) -> Vec<Request<T>> {
    let job = |(user, task, worth)| {
        let document = json!({ "user": user, "task": task, "worth": worth, "run": run(user, task) });
        Request::Run(serde_json::from_value(document).unwrap())
    };
    JOBS.into_iter().map(job).collect()
}

#[test]
fn under_a_virtual_clock_two_run_at_once_and_the_dearest_first() {
    let service = |_: &str, task: &str| {
        let seconds =
            BTreeMap::from([("toy-a", 10), ("toy-b", 500), ("toy-c", 40), ("toy-d", 20), ("toy-e", 50)]);
        json!({ "at": 0, "service": seconds[task] * 1_000, "resources": { "cpu": 1_000 } })
    };
    let mut requests: Vec<_> =
        requests::<TraceTask>(service).into_iter().map(|request| (Millis::of_tick(1), request)).collect();
    requests.push((Millis::of_tick(15), Request::GiveUp("toy-b")));
    let mut driver = TwoAtOnce::driver();
    let setup =
        Setup { nodes: nodes_of(1, 8, None), policy: Policy::Queue, facts_every: Millis(5_000), seed: 3 };
    let outcome = simulate_driven(&setup, &Trace::default(), &mut driver, requests, &mut |_| {}).unwrap();
    assert_eq!(driver.scheduler().decisions, DECISIONS);
    assert!(driver.scheduler().is_idle());
    assert_eq!(outcome.responses, [10, 20, 50, 40].map(Millis::of_tick), "all but the one that was given up");
}

/// The toy over a real task service, which a proxy stands in front of.
struct Service {
    plane: SalePlane,
    proxy: Proxy,
    folder: TempDir,
    runtime: Runtime,
    carrier: Carrier,
    driver: Toy,
}

type Toy = Driver<TwoAtOnce<Map<String, Value>>>;

impl Service {
    fn start() -> Service {
        let plane = SalePlane::start(&[]);
        let address = plane.services.base_url().strip_prefix("http://").unwrap().parse().unwrap();
        let proxy = Proxy::to(address);
        let token = Some(Token::parse(plane.http.token().unwrap()).unwrap());
        let credentials = Credentials { token, ..Credentials::default() };
        let options =
            Options { total_timeout: Duration::from_secs(2), attempts: 1, credentials, ..Options::default() };
        let carrier = Carrier::new(Client::with_options(&proxy.url(), options).unwrap(), "toy-");
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        Service { plane, proxy, folder, runtime, carrier, driver: TwoAtOnce::driver() }
    }

    /// Tasks that run until the test lets each of them end.
    fn requests(folder: &Path) -> Vec<Request<Map<String, Value>>> {
        requests(|user, task| {
            let script = format!("until [ -e '{}' ]; do sleep 0.1; done", folder.join(task).display());
            json!({ "command": ["/bin/sh", "-c", script], "user": user })
        })
    }

    fn hear(&mut self, request: Request<Map<String, Value>>) {
        self.driver.hear(now(), Event::Request(request));
    }

    fn let_end(&self, task: &str) {
        fs::write(self.folder.path().join(task), "").unwrap();
    }

    /// Goes round until something is so.
    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&SalePlane, &Toy) -> bool) {
        let Service { plane, runtime, carrier, driver, .. } = self;
        wait::until_ok(PATIENCE, what, || {
            let heard = runtime.block_on(carrier.round(driver, now, Duration::from_millis(300)));
            let decisions = &driver.scheduler().decisions;
            if is_so(plane, driver) { Ok(()) } else { Err(format!("{heard:?}; {decisions:?}")) }
        });
    }

    fn states(&self) -> BTreeMap<String, String> {
        let tasks = self.plane.http.get("/api/tasks").expect_status(200).json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let tasks = tasks["tasks"].as_array().unwrap().iter();
        tasks.map(|task| (text(&task["id"]), text(&task["state"]))).collect()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn over_a_real_task_service_the_decisions_are_the_same_though_answers_are_lost() {
    let mut service = Service::start();
    // The service hears what is sent, and is not heard.
    service.proxy.pause_only(Way::ToClient);
    let requests = Service::requests(service.folder.path());
    requests.into_iter().for_each(|request| service.hear(request));
    let is_there =
        |plane: &SalePlane, task: &str| plane.http.get(&format!("/api/tasks/{task}")).status == 200;
    service.until("submissions without answers", |plane, _| {
        is_there(plane, "toy-a") && is_there(plane, "toy-e")
    });
    assert_eq!(service.driver.errands().len(), 3, "no answer has come");
    service.proxy.cut();
    service.proxy.resume();
    let runs = |plane: &SalePlane, task: &str| {
        plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json()["state"] == "RUNNING"
    };
    service.until("answers, and tasks that run", |plane, toy| {
        toy.errands().is_empty() && ["toy-a", "toy-b", "toy-e"].iter().all(|task| runs(plane, task))
    });
    assert_eq!(service.states().len(), 3, "each is there once, and the others wait");

    service.let_end("toy-a");
    service.until("the dearest", |_, toy| toy.scheduler().decisions.len() == 4);
    service.hear(Request::GiveUp("toy-b"));
    service.until("the last one", |_, toy| toy.scheduler().decisions.len() == 6);
    ["toy-c", "toy-d", "toy-e"].iter().for_each(|task| service.let_end(task));
    service.until("all to be over", |_, toy| toy.scheduler().is_idle());
    assert_eq!(service.driver.scheduler().decisions, DECISIONS);
    let states = service.states();
    let ended = ["SUCCEEDED", "CANCELLED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"];
    assert_eq!(states.values().collect::<Vec<_>>(), ended, "{states:?}");

    // The toy stores nothing: after a restart the same requests lead to the same tasks, which are over.
    service.driver = TwoAtOnce::driver();
    let requests = Service::requests(service.folder.path());
    requests.into_iter().for_each(|request| service.hear(request));
    service.until("all to be over again", |_, toy| toy.scheduler().is_idle());
    assert_eq!(service.states(), states);
}
