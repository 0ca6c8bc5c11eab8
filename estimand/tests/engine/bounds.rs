//! Built-in collectors read and reach what the node's operator allows, and nothing else.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::plane::{Agent, Plane};

/// A server of HTTP on this machine that counts who comes: each is sent to `next`, or answered 7.
fn server(next: Option<String>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let answer = match &next {
                Some(next) => format!("HTTP/1.1 302 On\r\nLocation: {next}\r\nContent-Length: 0\r\n\r\n"),
                None => "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7".to_owned(),
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, count)
}

fn register(plane: &Plane, name: &str, collector: &str, params: &Value) {
    let body =
        json!({ "dataName": name, "cmd": collector, "mode": "builtin", "max-Time": 0.5, "params": params });
    plane.http.send_json("POST", "/api/registry", &body).expect_status(201);
}

#[track_caller]
fn until_refused(plane: &Plane, name: &str, flag: &str) {
    let slot = plane.until_instance(name, "to be refused", |slot| slot["doing"] == "refused");
    assert!(slot["lastError"].as_str().unwrap().contains(flag), "{slot}");
}

#[test]
fn a_collector_reads_no_file_that_the_operator_does_not_allow() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().display().to_string();
    let plane = Plane::with_agent("bounds-read", Agent::Within, &["--allow-read", &folder]);
    // Programs may lie in the plane's folder; that says nothing of reading.
    let secret = plane.file("secret.log");
    fs::write(&secret, "secret=7\n").unwrap();
    fs::write(logs.path().join("own.log"), "own=1\n").unwrap();
    symlink(&secret, logs.path().join("link.log")).unwrap();
    symlink(plane.folder.path(), logs.path().join("linked")).unwrap();
    let beside = plane.folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let tail = |name: &str, path: String| {
        register(&plane, name, "log_tail", &json!({ "path": path, "pattern": "(?<n>[0-9]+)" }));
    };
    tail("plain", secret.clone());
    tail("token", plane.services.data_dir().join("token").display().to_string());
    tail("link", format!("{folder}/link.log"));
    tail("newest", format!("{folder}/li*.log"));
    tail("way", format!("{folder}/linked/secret.log"));
    tail("dots", format!("{folder}/../{beside}/secret.log"));
    tail("listed", plane.file("*.log"));
    tail("absent", plane.file("no-such.log"));
    tail("own", format!("{folder}/own.log"));
    for name in ["plain", "token", "link", "newest", "way", "dots", "listed", "absent"] {
        until_refused(&plane, name, "`--allow-read ");
    }
    plane.until_value("own", "the line of its own log", |value| value["dataValue"]["matched"]["n"] == 1);
    plane.end();
}

#[test]
fn a_collector_reaches_no_address_that_the_operator_does_not_allow() {
    let (allowed, _) = server(None);
    let (closed, asked) = server(None);
    let (leads_there, _) = server(Some(format!("http://localhost:{}/", closed.port())));
    let net = |address: SocketAddr| ["--allow-net".to_owned(), address.to_string()];
    let options = [net(allowed), net(leads_there)].concat();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let plane = Plane::with_agent("bounds-net", Agent::Within, &options);
    let http = |name: &str, host: &str, port: u16| {
        register(&plane, name, "http", &json!({ "url": format!("http://{host}:{port}/") }));
    };
    let tcp = |name: &str, host: &str, port: u16| {
        register(&plane, name, "tcp", &json!({ "address": format!("{host}:{port}") }));
    };
    http("plain", "127.0.0.1", closed.port());
    // A name that leads here, as by DNS, and other ways to write the address.
    http("name", "localhost", closed.port());
    http("number", "0x7f000001", closed.port());
    http("mapped", "[::ffff:127.0.0.1]", closed.port());
    http("redirect", "127.0.0.1", leads_there.port());
    tcp("tcp", "127.0.0.1", closed.port());
    tcp("tcp_name", "localhost", closed.port());
    let hdfs = json!({ "namenode": format!("hdfs://{closed}"), "webhdfs": format!("http://{closed}") });
    register(&plane, "hdfs_there", "hdfs", &hdfs);
    for name in ["plain", "name", "number", "mapped", "redirect", "tcp", "tcp_name", "hdfs_there"] {
        until_refused(&plane, name, "`--allow-net ");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the closed server was asked");
    http("open", "127.0.0.1", allowed.port());
    // The address is what counts, whichever name led to it.
    http("open_name", "localhost", allowed.port());
    tcp("tcp_open", "127.0.0.1", allowed.port());
    plane.until_value("open", "the answer", |value| value["dataValue"]["value"] == 7);
    plane.until_value("open_name", "the answer", |value| value["dataValue"]["value"] == 7);
    plane.until_value("tcp_open", "the port", |value| value["dataValue"]["open"] == true);
    plane.end();
}

/// It would run in the agent itself.
#[test]
fn a_collector_loads_no_library_that_a_registration_names() {
    let plane = Plane::up("bounds-library");
    register(&plane, "gpu_of_mine", "gpu", &json!({ "library": plane.file("evil.so") }));
    until_refused(&plane, "gpu_of_mine", "`library`");
    plane.end();
}

#[test]
fn a_collector_reads_with_the_rights_of_the_user_that_things_run_as() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().display().to_string();
    let plane =
        Plane::with_agent("bounds-user", Agent::Within, &["--allow-read", &folder, "--run-as", "nobody"]);
    fs::set_permissions(logs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("own", 0o600), ("open", 0o644)] {
        let path = logs.path().join(name);
        fs::write(&path, "n=3\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        register(&plane, name, "log_tail", &json!({ "path": path, "pattern": "n=(?<n>[0-9]+)" }));
    }
    plane.until_value("open", "the line", |value| value["dataValue"]["matched"]["n"] == 3);
    let failed =
        |slot: &Value| slot["lastError"].as_str().is_some_and(|error| error.contains("Permission denied"));
    plane.until_instance("own", "to fail", failed);
    plane.end();
}
