//! Ending takes a second at most, whatever is away; a machine that does much else takes a little longer.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::databases::{self, Server};
use estimand_testkit::http::Http;
use estimand_testkit::process::binary;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::proxy::Proxy;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::{long_or, put};

/// A second, and the pace of a machine on which everything else is tested at the same time.
const ENDS_WITHIN: Duration = Duration::from_secs(4);

fn behind_proxy(server: &Server) -> (Proxy, Estimand) {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let direct = format!(":{}/", server.port());
    let store = server.fresh_url().replace(&direct, &format!(":{}/", proxy.address().port()));
    let up = process::estimand().args(["up", "--node", "n1"]).port(free_port()).store(store).start();
    (proxy, up)
}

/// Writes and registers for as long as it runs, whatever becomes of that.
fn bother(base: &str, number: usize, over: &AtomicBool) {
    let http = estimand_testkit::http::Http::new(base);
    for round in 0_u64.. {
        if over.load(Ordering::Acquire) {
            return;
        }
        let (path, body) = match number % 2 {
            0 => ("/api/data", json!({"dataName": "load", "nodeName": "n", "dataValue": round})),
            _ => ("/api/registry", json!({"dataName": format!("r{round}"), "cmd": "true", "max-Time": 60})),
        };
        let _ = http.try_request("POST", path, &[], body.to_string().as_bytes());
    }
}

fn ends_soon(server: &Server, away: fn(&Proxy)) -> Duration {
    let (proxy, mut up) = behind_proxy(server);
    put(&up.http(), "a", 1).expect_status(201);
    let (base, over) = (up.base_url().to_owned(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (base, over) = (&base, &over);
            scope.spawn(move || bother(base, number, over));
        }
        away(&proxy);
        // The services have noticed.
        let http = up.http();
        estimand_testkit::wait::until(estimand_testkit::wait::PATIENCE, "it to be noticed", || {
            (http.get("/readyz").status == 503).then_some(())
        });
        let began = Instant::now();
        let status = up.terminate();
        let took = began.elapsed();
        over.store(true, Ordering::Release);
        assert_eq!(status.code(), Some(0), "{}", up.stderr_tail());
        took
    })
}

#[test]
fn a_service_ends_at_once_while_its_database_is_away() {
    let mut took = Vec::new();
    for round in 0..long_or(100, 4) {
        let server = if round % 2 == 0 { databases::postgres() } else { databases::mariadb() };
        let away: fn(&Proxy) = if round % 4 < 2 { Proxy::pause } else { Proxy::refuse };
        took.push(ends_soon(server, away));
    }
    took.sort();
    println!("{} ends: {:?}, at most {:?}", took.len(), took[took.len() / 2], took[took.len() - 1]);
    assert!(took[took.len() - 1] < ENDS_WITHIN, "{took:?}");
}

#[test]
fn an_agent_ends_at_once_while_its_services_are_away() {
    let services =
        process::estimand().args(["up", "--no-agent", "--defaults", "standard"]).port(free_port()).start();
    let address = services.base_url().trim_start_matches("http://").parse().unwrap();
    let mut took = Vec::new();
    for round in 0..long_or(30, 2) {
        let (proxy, name) = (Proxy::to(address), format!("n{round}"));
        let args = ["agent", "--node", &name, "--server", &proxy.url()];
        let mut agent = process::estimand().args(args).without_http().start();
        let http = services.http();
        estimand_testkit::wait::until(estimand_testkit::wait::PATIENCE, "values of the agent", || {
            (http.get(&format!("/api/data/load/{name}")).status == 200).then_some(())
        });
        if round % 2 == 0 {
            proxy.pause();
        } else {
            proxy.refuse();
        }
        let began = Instant::now();
        agent.terminate();
        took.push(began.elapsed());
    }
    took.sort();
    assert!(took[took.len() - 1] < ENDS_WITHIN, "{took:?}");
}

/// As with `estimand up 2>&1 | head -1`.
#[test]
fn a_reader_of_the_log_that_is_gone_holds_up_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // It ends with this thread at the latest.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary());
    command.args(["up", "--listen", "127.0.0.1:0", "--node", "n1", "--data-dir"]).arg(folder.path());
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut up = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
    let base = lines.find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned())).unwrap();
    drop(lines);
    let http = Http::new(&base).showing(None);
    wait::until_ok(PATIENCE, "it to be ready", || {
        let answer = http.try_request("GET", "/readyz", &[], b"").map_err(|error| error.to_string())?;
        if answer.status == 200 { Ok(()) } else { Err(answer.text().to_owned()) }
    });
    // Each is a line in the log.
    for _ in 0..20 {
        http.get("/api/data/nothing/here").expect_status(404);
    }
    put(&http, "a", 1).expect_status(201);
    wait::until(PATIENCE, "a value of its agent", || {
        (http.get("/api/data/load/n1").status == 200).then_some(())
    });
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&up);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = wait::poll(PATIENCE, || up.try_wait().unwrap().ok_or(()));
    assert_eq!(status.map(|status| status.code()), Ok(Some(0)));
    assert!(began.elapsed() < ENDS_WITHIN, "{:?}", began.elapsed());
}
