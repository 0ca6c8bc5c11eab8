//! Ending takes a second at most, whatever is away; a machine that does much else takes a little longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::databases::{self, Server};
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::proxy::Proxy;
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
