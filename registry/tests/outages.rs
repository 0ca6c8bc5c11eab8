//! A database that is not there, goes away, is taken over, or has rows that cannot be read.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use estimand_store::{Connection, HistoryEntry, RegistrationChange, RegistrationRow, StoreUrl};
use estimand_testkit::databases::{Kind, Server};
use estimand_testkit::wait;
use serde_json::json;
use support::{PATIENCE, Running, refused, simple, sqlite};

#[test]
fn it_starts_without_its_database_and_loads_when_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("store");
    std::fs::write(&in_the_way, "a file where a folder should be").unwrap();
    let service = Running::launch(&format!("sqlite://{}", in_the_way.join("store.db").display()));
    let said = wait::until(PATIENCE, "the reason", || {
        let detail = refused(service.get("/readyz"), 503);
        detail.contains("database").then_some(detail)
    });
    assert!(said.contains("registry: "), "{said}");
    for path in ["/api/registry", "/api/registry/a", "/api/registry/a/history"] {
        refused(service.get(path), 503);
    }
    refused(service.post(&simple("a")), 503);
    std::fs::remove_file(&in_the_way).unwrap();
    service.wait_ready();
    service.post(&simple("a")).expect_status(201);
    service.stop();
}

#[test]
fn a_registry_that_was_taken_over_changes_nothing_and_says_so() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    service.post(&simple("a")).expect_status(201);
    let mut other = Connection::open(&store.parse::<StoreUrl>().unwrap()).unwrap();
    other.claim("registry", 0).unwrap();
    for _ in 0..2 {
        assert!(refused(service.post(&simple("b")), 503).contains("taken over"));
    }
    assert!(refused(service.delete("a"), 503).contains("taken over"));
    assert!(refused(service.get("/readyz"), 503).contains("taken over"));
    assert_eq!(*service.fatal.lock().unwrap(), ["another registry has taken over this store"]);
    service.get("/api/registry/a").expect_status(200);
    assert_eq!(other.load_registrations().unwrap().len(), 1);
    service.stop();
}

#[test]
fn a_stored_registration_that_cannot_be_read_can_be_replaced_or_deleted() {
    let (_folder, store) = sqlite();
    let mut connection = Connection::open(&store.parse::<StoreUrl>().unwrap()).unwrap();
    connection.migrate().unwrap();
    let claim = connection.claim("registry", 0).unwrap();
    for (name, spec) in
        [("a", r#"{"dataName": "a", "mode": "quantum"}"#), ("b", "not JSON"), ("no name", "{}")]
    {
        let row = RegistrationRow {
            data_name: name.to_owned(),
            cmd: String::new(),
            time_max: None,
            spec: spec.to_owned(),
            version: 4,
            created_at: 1_000_000,
            updated_at: 1_000_000,
        };
        let entry = HistoryEntry {
            data_name: name.to_owned(),
            version: 4,
            action: "created".to_owned(),
            at: 1_000_000,
            actor: "test".to_owned(),
            spec: spec.to_owned(),
        };
        connection.change_registrations(&claim, &[RegistrationChange { row: Some(row), entry }]).unwrap();
    }
    let service = Running::start(&store);
    assert_eq!(service.get("/api/registry").expect_status(200).text(), "[]");
    assert!(refused(service.get("/api/registry/a"), 500).contains("mode"));
    assert!(refused(service.post(&simple("a")), 409).contains("version 4"));
    let replaced = service.put(&simple("a")).expect_status(200).json();
    assert_eq!(
        (&replaced["version"], &replaced["createdAt"]),
        (&json!(5), &json!("1970-01-01T00:00:01.000000Z"))
    );
    service.delete("b").expect_status(204);
    let trail = service.get("/api/registry/b/history").expect_status(200).json();
    assert_eq!((&trail[0]["action"], &trail[0]["registration"]), (&json!("deleted"), &json!("not JSON")));
    assert_eq!(connection.load_registrations().unwrap().len(), 2);
    service.stop();
}

#[test]
fn postgres_may_be_killed_at_any_moment() {
    survives_kills(Kind::Postgres);
}

#[test]
fn mariadb_may_be_killed_at_any_moment() {
    survives_kills(Kind::Mariadb);
}

/// Registers without a pause while the server is killed and comes back; then nothing that was promised may be
/// otherwise, and memory, store and audit trail must agree.
fn survives_kills(kind: Kind) {
    let server = Server::start_own(kind);
    let store = server.fresh_url();
    let service = Running::start(&store);
    let (enough, registered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let promised = std::thread::scope(|scope| {
        let registering = scope.spawn(|| {
            let mut promised = Vec::new();
            for place in 0.. {
                if enough.load(Ordering::SeqCst) {
                    break;
                }
                let name = format!("n{place}");
                if register(&service, &name) {
                    registered.fetch_add(1, Ordering::SeqCst);
                    promised.push(name);
                }
            }
            promised
        });
        let some_more = |what| {
            let before = registered.load(Ordering::SeqCst);
            wait::until(PATIENCE, what, || {
                assert!(!registering.is_finished(), "the registering thread has failed");
                (registered.load(Ordering::SeqCst) > before + 3).then_some(())
            });
        };
        for _ in 0..3 {
            some_more("registrations before the kill");
            server.kill9();
            server.start_again();
        }
        some_more("registrations after the last kill");
        enough.store(true, Ordering::SeqCst);
        registering.join().unwrap()
    });

    for name in &promised {
        let one = service.get(&format!("/api/registry/{name}")).expect_status(200).json();
        assert_eq!(one["version"], 1, "{name}");
        assert_eq!(service.trail(name), [(1, "created".to_owned())], "{name}");
    }
    let before = service.get("/api/registry");
    service.stop();
    let service = Running::start(&store);
    assert_eq!(service.get("/api/registry").text(), before.text());
    service.stop();
}

/// Registers a name; `false` if the outcome is unknown. An answer that says that nothing was done
/// is put to the test by sending the same again: it would be a 409 if something was.
fn register(service: &Running, name: &str) -> bool {
    wait::until(PATIENCE, "an answer to a registration", || {
        // Reads are answered in every state of the database.
        service.get("/api/registry").expect_status(200);
        let response = service.post(&simple(name));
        if response.status == 201 {
            return Some(true);
        }
        let detail = refused(response, 503);
        match detail.contains("nothing was done") {
            true => None,
            false if detail.contains("unknown") => Some(false),
            false => panic!("{detail}"),
        }
    })
}
