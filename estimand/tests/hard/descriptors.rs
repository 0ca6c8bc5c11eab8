//! No file descriptors left.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use estimand_testkit::http::Http;
use estimand_testkit::place::Place;
use estimand_testkit::plane::Together;
use estimand_testkit::process::{Estimand, binary, free_port};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::{long_or, pass, put, side_by_side};

/// How many files a service may open when it gets tight.
const FILES: u64 = 256;
const CONNECTIONS: usize = 400;
const SOON: Duration = Duration::from_secs(15);

#[test]
fn without_descriptors_all_goes_on_that_can() {
    side_by_side(&[
        (
            "connections_beyond_the_descriptors_harm_nobody",
            connections_beyond_the_descriptors_harm_nobody as fn(),
        ),
        (
            "an_agent_without_descriptors_goes_on_when_it_has_some",
            an_agent_without_descriptors_goes_on_when_it_has_some as fn(),
        ),
    ]);
}

fn connections_beyond_the_descriptors_harm_nobody() {
    let limit = [format!("--nofile={FILES}:{FILES}"), "--".to_owned(), binary().display().to_string()];
    let service = ["up", "--defaults", "none", "--no-agent"].map(str::to_owned);
    let bounded = Estimand::builder("/usr/bin/prlimit").args(limit).args(service);
    let mut up = bounded.port(free_port()).start();
    put(&up.http(), "before", 1).expect_status(201);
    println!("{} of {FILES} files are open before the crowd comes", processes::open_files(up.pid()));
    let address = up.http().authority().to_owned();
    let crowd: Vec<TcpStream> = (0..CONNECTIONS).map(|_| TcpStream::connect(&address).unwrap()).collect();

    // Others are served, with reads and with durable writes.
    let (began, used) = (Instant::now(), up.cpu_time());
    let mut number = 0;
    while began.elapsed() < Duration::from_secs(long_or(30, 4)) {
        number += 1;
        let http = Http::new(up.base_url()).with_deadline(SOON);
        let write = json!({"dataName": "meanwhile", "nodeName": "n", "dataValue": number});
        let written = http.ask_again("PUT", "/api/data", &write);
        assert!(matches!(written.status, 200 | 201), "{written}");
        let seen = http.ask_again("GET", "/api/data/meanwhile/n", &Value::Null).expect_status(200).json();
        assert_eq!(seen["dataValue"], number);
        pass(Duration::from_millis(50));
    }
    let share = (up.cpu_time() - used).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("{CONNECTIONS} connections too many: {share:.3} of a processor, {number} writes meanwhile");
    assert!(share < 0.7, "it turns round and round: {share:.3} of a processor");

    // When the crowd has gone, the next one is served at once, and nobody had to do anything.
    drop(crowd);
    wait::until_ok(PATIENCE, "a new connection to be served", || {
        let http = Http::new(up.base_url()).with_deadline(Duration::from_secs(5));
        http.try_request("GET", "/api/data/meanwhile/n", &[], b"")
            .map(|answer| assert_eq!(answer.status, 200))
    });
    assert!(up.exited().is_none(), "{}", up.stderr_tail());
}

fn an_agent_without_descriptors_goes_on_when_it_has_some() {
    let place = Place::new("descriptors");
    let services = Together::start(&place);
    let mut agent = place.agent("n1", services.url());
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    plane.register(&place.streaming("flow"));
    plane.wait_fresh("pulse", &["n1"]);
    plane.wait_fresh("flow", &["n1"]);

    agent.process.limit_open_files(8);
    let mut late = place.counting("late");
    late["max-Time"] = json!(0.2);
    plane.register(&late);
    let (began, used) = (Instant::now(), agent.process.cpu_time());
    pass(Duration::from_secs(long_or(30, 4)));
    let share = (agent.process.cpu_time() - used).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("an agent without descriptors takes {share:.3} of a processor");
    assert!(share < 0.7, "it turns round and round: {share:.3} of a processor");
    assert!(agent.process.exited().is_none(), "{}", agent.process.stderr_tail());

    agent.process.limit_open_files(1024);
    let runs = place.runs("n1", "pulse");
    wait::until_ok(PATIENCE, "its slots to run", || match place.runs("n1", "pulse") {
        now if now > runs + 2 => Ok(()),
        now => Err(format!("{runs} became {now}; {}", agent.process.stderr_tail())),
    });
    for name in ["pulse", "flow", "late"] {
        plane.wait_fresh(name, &["n1"]);
    }
}
