//! Databases that cannot be used: what does not heal by itself ends the start, with the reason; the rest is waited for, and
//! `/readyz` says so.

use std::process::Command;
use std::time::{Duration, Instant};

use estimand_testkit::databases::{self, Server};
use estimand_testkit::disk::Disk;
use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Builder, free_port};
use estimand_testkit::proxy::Proxy;
use estimand_testkit::wait::{self, PATIENCE};
use estimand_testkit::{TOKEN, TOKEN_VARIABLE};

use crate::{put, refused};

/// A command that writes gives up by then, on a machine that does much else.
const GIVES_UP_WITHIN: Duration = Duration::from_secs(20);

fn up(store: &str) -> Builder {
    process::estimand().args(["up", "--no-agent"]).port(free_port()).store(store)
}

#[track_caller]
fn ends_with(store: &str, reason: &str) {
    let began = Instant::now();
    let said = refused(up(store));
    assert!(said.contains(reason), "{store}: {said}");
    assert!(began.elapsed() < GIVES_UP_WITHIN, "{store}: after {:?}", began.elapsed());
}

#[test]
fn what_does_not_heal_by_itself_ends_the_start_on_postgres() {
    let server = databases::postgres();
    let store = server.fresh_url();
    let database = store.rsplit('/').next().unwrap().to_owned();
    let as_user = |user: &str| store.replace("postgres@", &format!("{user}@"));
    server.query(&store, "CREATE ROLE reader LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    ends_with(&as_user("nobody_here"), "nobody_here");
    ends_with(&store.replace(&database, "no_such_database"), "no_such_database");
    ends_with(&as_user("reader"), "permission denied");
    ends_with(&format!("{store}?sslmode=require"), "TLS");
}

#[test]
fn what_does_not_heal_by_itself_ends_the_start_on_mariadb() {
    let server = databases::mariadb();
    let store = server.fresh_url();
    let database = store.rsplit('/').next().unwrap().to_owned();
    let as_user = |user: &str| store.replace("root@", &format!("{user}@"));
    server.query(&store, "CREATE USER 'writer'@'%' IDENTIFIED BY 'right'; CREATE USER 'reader'@'%'");
    server.query(&store, &format!("GRANT SELECT ON {database}.* TO 'reader'@'%'"));
    ends_with(&as_user("writer:wrong"), "Access denied");
    ends_with(&as_user("writer:right"), "Access denied");
    ends_with(&store.replace(&database, "no_such_database"), "no_such_database");
    ends_with(&as_user("reader"), "denied");
    ends_with(&format!("{store}?ssl-mode=REQUIRED"), "SSL");
}

#[test]
fn documented_privileges_suffice() {
    let server = databases::postgres();
    let store = server.fresh_url();
    let database = store.rsplit('/').next().unwrap().to_owned();
    server.query(&store, "CREATE ROLE estimand_pg LOGIN");
    server.query(&store, &format!("GRANT CONNECT ON DATABASE {database} TO estimand_pg"));
    server.query(&store, "GRANT USAGE, CREATE ON SCHEMA public TO estimand_pg");
    put(&up(&store.replace("postgres@", "estimand_pg@")).start().http(), "a", 1).expect_status(201);

    let server = databases::mariadb();
    let store = server.fresh_url();
    let database = store.rsplit('/').next().unwrap().to_owned();
    server.query(&store, "CREATE USER 'estimand_my'@'%' IDENTIFIED BY 'secret'");
    let rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX";
    server.query(&store, &format!("GRANT {rights} ON {database}.* TO 'estimand_my'@'%'"));
    put(&up(&store.replace("root@", "estimand_my:secret@")).start().http(), "a", 1).expect_status(201);
}

fn behind_proxy(server: &Server) -> (Proxy, String) {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let store = server.fresh_url();
    let store = store.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.address().port()));
    (proxy, store)
}

#[track_caller]
fn until_ready(http: &Http, is_ready: bool) {
    wait::until_ok(PATIENCE, "/readyz to say how it is", || {
        match http.try_request("GET", "/readyz", &[], b"").map_err(|error| error.to_string())? {
            answer if is_ready && answer.status == 200 => Ok(()),
            answer if !is_ready && answer.status == 503 && answer.text().contains("store") => Ok(()),
            answer => Err(answer.to_string()),
        }
    });
}

fn says_when_nothing_can_be_stored(server: &Server) {
    let (proxy, store) = behind_proxy(server);
    // Away at the start, too: it is waited for.
    proxy.refuse();
    let port = free_port();
    let starting = up(&store).port(port);
    let http = Http::new(&format!("http://127.0.0.1:{port}")).with_deadline(Duration::from_secs(5));
    let service = std::thread::scope(|scope| {
        let starting = scope.spawn(|| starting.start());
        until_ready(&http, false);
        proxy.accept();
        starting.join().unwrap()
    });
    put(&service.http(), "a", 1).expect_status(201);
    proxy.refuse();
    until_ready(&http, false);
    proxy.accept();
    until_ready(&http, true);
    proxy.pause();
    until_ready(&http, false);
    // A command gives up in seconds, and says that it may have been stored.
    let began = Instant::now();
    let mut command = Command::new(process::binary());
    command.args(["--server", service.base_url(), "put", "a", "n", "2"]).env(TOKEN_VARIABLE, TOKEN);
    let output = command.output().unwrap();
    let took = began.elapsed();
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(took < GIVES_UP_WITHIN, "a write gave up after {took:?}");
    proxy.resume();
    until_ready(&http, true);
}

/// More than the services themselves hold.
const WATCHES: usize = 8;

/// A standard `EventSource` that is refused once never comes again.
#[test]
fn a_watch_at_a_start_is_held_until_there_is_something_to_begin_with() {
    let (proxy, store) = behind_proxy(databases::postgres());
    proxy.refuse();
    let port = free_port();
    let starting = up(&store).port(port);
    let http = &Http::new(&format!("http://127.0.0.1:{port}")).with_deadline(PATIENCE);
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| starting.start());
        until_ready(http, false);
        let watches = [("/api/data/watch", "?dataName=*", "snapshot"), ("/api/tasks/watch", "", "start")];
        let all = watches.into_iter().flat_map(|watch| [watch; WATCHES]);
        let watching: Vec<_> = all
            .map(|(path, query, first)| {
                scope.spawn(move || {
                    let event = http.sse(&format!("{path}{query}"), &[]).next_event(PATIENCE);
                    assert_eq!(event.event, first, "{path}");
                })
            })
            .collect();
        wait::until(PATIENCE, "the watches to be held", || {
            let figures = http.get("/metrics");
            let held = |path: &str| {
                let route = format!("path=\"{path}\"");
                let mut lines = figures.text().lines().filter(|line| line.contains(&route));
                let line = lines.find(|line| line.starts_with("estimand_http_requests_in_flight"))?;
                line.rsplit(' ').next()?.parse::<usize>().ok()
            };
            watches.iter().all(|(path, ..)| held(path) >= Some(WATCHES)).then_some(())
        });
        proxy.accept();
        watching.into_iter().for_each(|watch| watch.join().unwrap());
        starting.join().unwrap();
    });
}

/// Longer than the longest pause between two attempts.
const OUTAGE: Duration = Duration::from_secs(5);

#[test]
fn an_outage_is_told_once_by_each_that_waits() {
    let (proxy, store) = behind_proxy(databases::postgres());
    proxy.refuse();
    let starting = up(&store);
    let mut service = std::thread::scope(|scope| {
        let starting = scope.spawn(|| starting.start());
        wait::pass(OUTAGE);
        proxy.accept();
        starting.join().unwrap()
    });
    service.terminate();
    let log = service.stderr_tail();
    let told = log.lines().filter(|line| line.contains(" WARN "));
    // The same task tells the same once; the reason stands in it once.
    let mut told: Vec<&str> =
        told.filter_map(|line| line.split_once(" WARN ")).map(|(_, text)| text).collect();
    assert!(told.iter().any(|text| text.contains("the store cannot be used yet")), "{log}");
    assert!(told.iter().all(|text| text.matches("the database connection is lost").count() <= 1), "{log}");
    let count = told.len();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), count, "{log}");
    // The tasks of one process that keep something in the store are fewer.
    assert!(count <= 10, "{log}");
}

#[test]
fn readiness_says_when_nothing_can_be_stored_on_postgres() {
    says_when_nothing_can_be_stored(databases::postgres());
}

#[test]
fn readiness_says_when_nothing_can_be_stored_on_mariadb() {
    says_when_nothing_can_be_stored(databases::mariadb());
}

#[test]
fn readiness_says_when_the_disk_is_full() {
    let disk = Disk::in_memory("32m");
    let service = process::estimand().args(["up", "--no-agent"]).data_dir(disk.path().join("data")).start();
    let http = service.http();
    let full = disk.fill();
    until_ready(&http, false);
    drop(full);
    until_ready(&http, true);
    put(&http, "a", 1).expect_status(201);
}
