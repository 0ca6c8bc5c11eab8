//! How a service begins and ends: one writer a store, orderly shutdown, and clear words when it cannot start.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::databases;
use estimand_testkit::http::{Http, Response};
use estimand_testkit::process::{self, Builder};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// The service's promise for an orderly stop, and some more for a busy machine.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

fn service(args: &[&str], store: &str) -> Builder {
    process::estimand().args(args).store(store)
}

fn write(http: &Http, value: impl Into<Value>) -> Response {
    http.send_json(
        "PUT",
        "/api/data",
        &json!({"dataName": "cpu", "nodeName": "n", "dataValue": value.into()}),
    )
}

fn values(http: &Http) -> Vec<Value> {
    let all: Vec<Value> =
        serde_json::from_slice(&http.get("/api/data?dataName=cpu").expect_status(200).body).unwrap();
    all.into_iter().map(|mut one| one["dataValue"].take()).collect()
}

/// The second data service over a store takes over, if it is told to; the first one ends itself and writes no more.
fn the_later_data_service_wins(store: &str) {
    let mut first = service(&["data"], store).start();
    write(&first.http(), "first").expect_status(201);
    let mut second = service(&["data", "--take-over"], store).start();
    assert_eq!(values(&second.http()), ["first"], "it begins with everything that was acknowledged");
    write(&second.http(), "second").expect_status(200);

    // The first one does not know yet. Its write must not be stored, and it must not be acknowledged.
    let answer = first.http().try_request(
        "PUT",
        "/api/data",
        &[],
        b"{\"dataName\":\"cpu\",\"nodeName\":\"n\",\"dataValue\":\"late\"}",
    );
    assert!(answer.as_ref().map_or(true, |answer| answer.status == 503), "{answer:?}");
    let ended = wait::until(PATIENCE, "the first one to end", || first.exited());
    assert!(ended.code().is_some_and(|code| code != 0), "it ended with {ended}");
    let said = first.stderr_tail();
    assert!(said.contains("another data service has taken over"), "{said}");

    assert_eq!(values(&second.http()), ["second"]);
    second.restart_on_same_port();
    assert_eq!(values(&second.http()), ["second"], "nor is it in the store");
}

#[test]
fn the_later_data_service_wins_on_postgres() {
    the_later_data_service_wins(&databases::postgres().fresh_url());
}

#[test]
fn the_later_data_service_wins_on_mariadb() {
    the_later_data_service_wins(&databases::mariadb().fresh_url());
}

/// Neither does a registry write that was overtaken by another one.
#[test]
fn the_later_registry_wins() {
    let store = databases::postgres().fresh_url();
    let register = |http: &Http, name: &str| {
        let body = json!({"dataName": name, "cmd": "true", "max-Time": 5}).to_string();
        http.try_request("POST", "/api/registry", &[], body.as_bytes())
    };
    let mut first = service(&["registry"], &store).start();
    assert_eq!(register(&first.http(), "one").unwrap().status, 201);
    let second = service(&["registry", "--take-over"], &store).start();
    assert_eq!(register(&second.http(), "two").unwrap().status, 201);
    let late = register(&first.http(), "late");
    assert!(late.as_ref().map_or(true, |answer| answer.status == 503), "{late:?}");
    let ended = wait::until(PATIENCE, "the first one to end", || first.exited());
    assert!(ended.code().is_some_and(|code| code != 0), "it ended with {ended}");
    let all = second.http().get("/api/registry").expect_status(200).json();
    let names: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["dataName"]).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn an_orderly_stop_waits_for_nobody_who_only_listens() {
    let mut up = process::estimand().start();
    let (idle, busy) = (up.http(), up.http());
    write(&busy, 1).expect_status(201);
    // Stays open, and unused.
    idle.get("/healthz").expect_status(200);
    let mut watch = up.http().sse("/api/data/watch?dataName=*", &[]);
    watch.next_news(PATIENCE);
    let began = Instant::now();
    let status = up.terminate();
    let took = began.elapsed();
    assert_eq!(status.code(), Some(0), "{}", up.stderr_tail());
    assert!(took < STOP_DEADLINE, "it took {took:?}");
    assert!(watch.try_next(PATIENCE).unwrap().is_none(), "the watch ends in good order");
    up.restart_on_same_port();
    assert_eq!(values(&up.http()), [1]);
}

#[test]
fn a_request_accepted_before_a_stop_is_answered() {
    let mut up = process::estimand().start();
    let base = up.base_url().to_owned();
    let acknowledged = AtomicU64::new(0);
    let last = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let http = Http::new(&base);
            for value in 1_u64.. {
                let body = format!("{{\"dataName\":\"cpu\",\"nodeName\":\"n\",\"dataValue\":{value}}}");
                match http.try_request("PUT", "/api/data", &[], body.as_bytes()) {
                    Ok(answer) if answer.status < 300 => {
                        acknowledged.store(value, Ordering::Release);
                    }
                    _ => return value,
                }
            }
            unreachable!("the numbers end later than the service")
        });
        wait::until(PATIENCE, "some writes", || {
            (acknowledged.load(Ordering::Acquire) > 50 || writer.is_finished()).then_some(())
        });
        assert_eq!(up.terminate().code(), Some(0));
        writer.join().unwrap()
    });
    up.restart_on_same_port();
    let stored = values(&up.http())[0].as_u64().unwrap();
    let acknowledged = acknowledged.into_inner();
    assert!((acknowledged..=last).contains(&stored), "{acknowledged} was acknowledged, {stored} is stored");
}

#[test]
fn a_watch_from_before_a_restart_begins_anew() {
    let mut up = process::estimand().start();
    write(&up.http(), "before").expect_status(201);
    let id = up.http().sse("/api/data/watch?dataName=cpu", &[]).next_news(PATIENCE).id.unwrap();
    up.restart_on_same_port();
    write(&up.http(), "after").expect_status(200);
    let mut watch = up.http().sse("/api/data/watch?dataName=cpu", &[("Last-Event-ID", &id)]);
    let first = watch.next_news(PATIENCE);
    assert_eq!((first.event.as_str(), &first.json()["reason"]), ("snapshot", &json!("gone")));
    assert_eq!(first.json()["values"][0]["dataValue"], "after");
}

/// Why a service did not come up, which it must not.
#[track_caller]
fn refused(builder: Builder) -> String {
    let failure = builder.try_start().err().expect("it came up");
    assert!(failure.contains("exit status"), "it ended by itself: {failure}");
    assert!(!failure.contains("panicked"), "{failure}");
    failure
}

#[test]
fn an_address_that_others_reach_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(process::binary());
        command.args(["up", "--listen", address, "--data-dir"]).arg(folder.path().join("data"));
        let mut service = Ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let status = wait::until(PATIENCE, "the service to refuse", || service.0.try_wait().unwrap());
        let [mut stdout, mut said] = [String::new(), String::new()];
        service.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        service.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.code().is_some_and(|code| code != 0), "it ended with {status}");
        assert_eq!(stdout, "", "it says that it listens only if it does");
        assert!(said.contains("--insecure") && said.contains("127.0.0.1"), "{said}");
    }
    let open = process::estimand().args(["up", "--insecure"]).start();
    open.http().get("/healthz").expect_status(200);
}

/// A process that is not left behind, whatever becomes of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    for part in ["up", "data", "registry"] {
        let said = refused(process::estimand().args([part]).port(taken.port()));
        assert!(said.contains(&taken.to_string()) && said.contains("in use"), "{said}");
    }
}

#[test]
fn a_store_that_cannot_be_is_refused_at_once() {
    for (store, says) in [
        ("nonsense", "sqlite://"),
        ("redis://localhost/0", "sqlite://"),
        ("postgres://localhost", "database"),
        ("sqlite:///proc/nowhere/store.db", "/proc/nowhere"),
    ] {
        let said = refused(service(&["up"], store));
        assert!(said.contains(says), "{store}: {said}");
    }
    let said = refused(service(&["up"], "postgres://u:secret@127.0.0.1:x/d"));
    assert!(!said.contains("secret"), "a password is never shown: {said}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "this is no database, and longer than the header of one: ".repeat(20);
    std::fs::write(file.path(), &text).unwrap();
    let said = refused(service(&["up"], &format!("sqlite://{}", file.path().display())));
    assert!(said.contains("not a database"), "{said}");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text, "the file is left alone");
}

#[test]
fn a_database_that_is_away_is_waited_for() {
    let server = databases::Server::start_own(databases::Kind::Postgres);
    let store = server.fresh_url();
    let mut up = service(&["up"], &store).start();
    write(&up.http(), 1).expect_status(201);
    up.kill9();
    server.kill9();
    // It comes up all the same, says that it is not ready, and why, and is ready when the database is.
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| up.restart_on_same_port());
        scope.spawn(|| server.start_again());
        starting.join().unwrap();
    });
    assert_eq!(values(&up.http()), [1]);
}
