//! The scheduler reads three names of data, and knows no collector, estimator or node.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use estimand_client::Client;
use estimand_scheduler_demo::facts::{self, Names};

/// A data service with one response, which records its requests.
fn asked_for(names: &Names) -> (facts::Facts, Vec<String>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let at = r#""collectedAt":"2026-11-21T12:00:00Z","receivedAt":"2026-11-21T12:00:00Z","validFor":null,"state":"fresh","revision":7"#;
    let of =
        |name: &str, data: &str| format!(r#"{{"dataName":"{name}","nodeName":"n","dataValue":{data},{at}}}"#);
    let body =
        format!("[{},{}]", of(names.distribution.as_str(), r#"["a"]"#), of(names.capability.as_str(), "2.5"));
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let mut asked = vec![lines.next().unwrap()];
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nEstimand-Revision: 7\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        // Until the client is gone: there is no other request on this connection, and no other connection.
        asked.extend(lines);
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
        asked
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let facts = runtime.block_on(facts::read(&client, names)).unwrap();
    drop((client, runtime));
    (facts, asked.join().unwrap())
}

#[test]
fn three_names_are_read_in_one_request() {
    let (facts, asked) = asked_for(&Names::new(None, None, None).unwrap());
    assert_eq!(asked, ["GET /api/data?dataName=data_distribution%2Cdata_load%2Cnode_capability HTTP/1.1"]);
    assert_eq!((facts.revision, facts.nodes[0].capability.unwrap().value), (7, 2.5));
    let (_, asked) = asked_for(&Names::new(Some("d"), Some("l"), Some("c")).unwrap());
    assert_eq!(asked, ["GET /api/data?dataName=d%2Cl%2Cc HTTP/1.1"]);
}

/// Rust files that are no tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true if name != "tests" => sources(&path, found),
            false if name.ends_with(".rs") && !["tests.rs", "fake.rs"].contains(&name.as_str()) => {
                found.push(path);
            }
            _ => {}
        }
    }
}

/// The collectors or estimators in the box: each is a file or a folder. Names of one word have other meanings too.
fn in_the_box(part: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(part).join("src");
    let entries = fs::read_dir(folder).unwrap();
    let stems = entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    stems.filter(|stem| stem.contains('_')).collect()
}

#[test]
fn no_source_names_an_estimator_or_a_collector() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    assert!(files.len() > 20, "{files:?}");
    let mut words: Vec<String> = ["collectors", "processors"].into_iter().flat_map(in_the_box).collect();
    assert!(words.iter().any(|word| word == "capability_cpu"), "{words:?}");
    words.extend(["cpu", "cpu_usage", "gpu", "hdfs", "load", "memory", "network"].map(str::to_owned));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests follow, which may name anything.
        let code = text.split("#[cfg(test)]\n#[allow").next().unwrap();
        for literal in code.split('"').skip(1).step_by(2) {
            assert!(!words.iter().any(|word| literal == word), "{} names {literal:?}", file.display());
        }
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let normal = manifest.split("[dev-dependencies]").next().unwrap();
    let ours: Vec<&str> = normal.lines().filter(|line| line.starts_with("estimand-")).collect();
    assert_eq!(ours.len(), 2, "{ours:?}: the interface and its client are all that a scheduler needs");
}
