//! Fifty users, one of them hostile in every way known at once: the others' requests are taken as before, their tasks go on,
//! and the services' memory is bounded. It runs with `ESTIMAND_LONG=1` only, and is not
//! green yet: under all of it the node is not heard of.
//!
//! How long requests take is printed: beside the hostile user, and beside a harmless load of the same processor time.

mod attacks;
mod others;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE, pass};
use serde_json::{Value, json};

use attacks::Attacks;
use others::{Latencies, Others};

/// With the hostile user.
const USERS: usize = 50;
/// How long each of the four phases takes.
const SPAN: Duration = Duration::from_secs(300);
/// The services' process has less, at any time.
const MOST_MEMORY: u64 = 1 << 30;
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The harmless load works and rests in turns within so long.
const TURN: Duration = Duration::from_millis(20);

/// Services and an agent of their own processes, and everybody's tokens.
pub struct Site {
    pub services: Estimand,
    pub agent: Estimand,
    /// Where reservations are taken over TCP.
    pub lines: SocketAddr,
    /// An operator's.
    pub http: Http,
    /// The last one is the hostile user's.
    pub tokens: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("hostile-").tempdir().unwrap();
        let lines = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let args = ["up", "--no-agent", "--defaults", "none", "--price-slot", "1s", "--price-horizon", "1h"];
        let lines_args = ["--reservations-lines".to_owned(), lines.to_string()];
        let services = process::estimand().args(args).args(lines_args).port(free_port()).start();
        let args = [
            "agent",
            "--server",
            services.base_url(),
            "--node",
            "n1",
            "--allow-all",
            "--allow-users-as-agent",
        ];
        let agent = process::estimand().args(args).data_dir(folder.path().join("n1")).without_http().start();
        let http = services.http();
        let tokens = (0..USERS).map(|number| token(&http, &name(number))).collect();
        for number in 0..USERS {
            let grant = json!({ "user": name(number), "amount": "100" });
            http.send_json("POST", "/api/credits/grants", &grant).expect_status(201);
        }
        Site { services, agent, lines, http, tokens, _folder: folder }
    }

    /// Waits until the node is known, and capacity of it has a price.
    #[track_caller]
    fn wait_until_priced(&self) {
        wait::until_ok(PATIENCE, "prices", || {
            let prices = self.http.get("/api/reservations/prices?resources=cpu=0.001&duration=1s&by=1m");
            if prices.status == 200 { Ok(()) } else { Err(prices) }
        });
    }

    /// A client of a user's.
    pub fn user(&self, number: usize) -> Http {
        Http::new(self.services.base_url()).with_deadline(PATIENCE).showing(Some(&self.tokens[number]))
    }

    /// All processor time of the services, the agent and this process, with what they ran to its end.
    fn processor_time(&self) -> Duration {
        let all = [self.services.pid(), self.agent.pid(), std::process::id()];
        all.map(processes::cpu_time).iter().sum()
    }
}

fn name(number: usize) -> String {
    format!("user{number}")
}

fn token(http: &Http, user: &str) -> String {
    let made = http.send_json("POST", "/api/tokens", &json!({ "name": user, "role": "user" }));
    made.json()["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

/// A task that is there for the whole story.
fn begin_lasting_task(site: &Site) -> String {
    let asked = json!({ "command": ["/bin/sleep", "3600"], "onLoss": "wait" });
    let task = site.user(0).send_json("POST", "/api/tasks", &asked).expect_status(201).json();
    let id = task["id"].as_str().unwrap().to_owned();
    wait::until_ok(PATIENCE, "the lasting task to run", || {
        let task = site.user(0).get(&format!("/api/tasks/{id}")).json();
        if task["state"] == "RUNNING" { Ok(()) } else { Err(task) }
    });
    id
}

/// Figures of a phase.
struct Phase {
    latencies: Latencies,
    processor_time: Duration,
}

/// The others ask for `span`, beside `beside`, which ends when it is told to.
fn phase(site: &Site, others: &Others, span: Duration, beside: impl FnOnce(&AtomicBool) + Send) -> Phase {
    let (over, before) = (AtomicBool::new(false), site.processor_time());
    let latencies = thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || beside(over));
        let latencies = others.ask_for(site, span);
        over.store(true, Ordering::Release);
        latencies
    });
    Phase { latencies, processor_time: site.processor_time().saturating_sub(before) }
}

/// Takes so much processor time of each second, until it is over.
fn harmless_load(part: f64, over: &AtomicBool) {
    thread::scope(|scope| {
        for lane in 0..2 {
            let part = (part - f64::from(lane)).clamp(0.0, 1.0);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    let turn = Instant::now();
                    while turn.elapsed() < TURN.mul_f64(part) {
                        std::hint::spin_loop();
                    }
                    pass(TURN.mul_f64(1.0 - part));
                }
            });
        }
    });
}

/// Looks at the services' memory until it is over; returns the most.
fn watch_memory(pid: u32, over: &AtomicBool) -> u64 {
    let mut most = 0;
    while !over.load(Ordering::Acquire) {
        most = most.max(processes::rss_bytes(pid));
        pass(LOOK_EVERY);
    }
    most
}

#[test]
fn a_hostile_user_harms_nobody_else() {
    if std::env::var_os("ESTIMAND_LONG").is_none() {
        println!("this takes twenty minutes: ESTIMAND_LONG=1 has it run");
        return;
    }
    let _alone = crate::alone();
    processes::allow_many_files();
    let mut site = Site::start();
    site.wait_until_priced();
    let lasting = begin_lasting_task(&site);
    let others = Others::new(&site, USERS - 1);

    let quiet = phase(&site, &others, SPAN, |_| {});
    let attacks = Attacks::new(&site, USERS - 1);
    let mut most = 0;
    let beside_it = phase(&site, &others, SPAN, |over| {
        thread::scope(|scope| {
            let memory = scope.spawn(|| watch_memory(site.services.pid(), over));
            attacks.go_on_until(over);
            most = memory.join().unwrap();
        });
    });
    attacks.check_each_was_refused();

    // A restart with everything that is there, and the same again.
    let before = Instant::now();
    site.services.restart_on_same_port();
    let restart = before.elapsed();
    site.wait_until_priced();
    let again = phase(&site, &others, SPAN, |over| {
        thread::scope(|scope| {
            let memory = scope.spawn(|| watch_memory(site.services.pid(), over));
            attacks.go_on_until(over);
            most = most.max(memory.join().unwrap());
        });
    });

    attacks.end(&site);
    let more = beside_it.processor_time.saturating_sub(quiet.processor_time).as_secs_f64();
    let part = (more / SPAN.as_secs_f64()).min(2.0);
    let harmless = phase(&site, &others, SPAN, |over| harmless_load(part, over));

    println!(
        "{:<12}{:>8}{:>12}{:>12}{:>12}{:>12}",
        "p99 (ms)", "quiet", "hostile", "restarted", "harmless", "of it"
    );
    for (kind, hostile) in beside_it.latencies.p99() {
        let of = |phase: &Phase| phase.latencies.p99()[kind];
        println!(
            "{kind:<12}{:>8.1}{hostile:>12.1}{:>12.1}{:>12.1}{:>12.2}",
            of(&quiet),
            of(&again),
            of(&harmless),
            hostile / of(&harmless)
        );
    }
    println!(
        "the harmless load takes {part:.2} of a processor; {} MiB at most; a restart of {restart:?}",
        most >> 20
    );
    attacks.print();

    assert!(most < MOST_MEMORY, "{most} bytes of memory");
    let task: Value = site.user(0).get(&format!("/api/tasks/{lasting}")).expect_status(200).json();
    assert_eq!(task["state"], "RUNNING", "{task}");
    assert_eq!(task["attempt"], 1, "it was never stopped: {task}");
    others.check_tasks_end(&site);
}
