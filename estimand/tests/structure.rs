//! Who may know whom: the table in ARCHITECTURE.md, held against the manifests and the sources.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What a crate is built with, tests aside.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap();
    let section = rest.split("\n[").next().unwrap();
    let names = section
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The crates of this workspace, as the top manifest lists them.
fn folders() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, list) = manifest.split_once("members = [").unwrap();
    let list = list.split(']').next().unwrap();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn crates_know_only_whom_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("api", &[][..]),
        ("service", &["estimand-api"]),
        // Certificates in files; who may have one is decided elsewhere.
        ("pki", &["estimand-api"]),
        ("access", &["estimand-api", "estimand-pki", "estimand-service", "estimand-store"]),
        ("store", &[]),
        ("registry", &["estimand-api", "estimand-service", "estimand-store"]),
        ("data-service", &["estimand-api", "estimand-service", "estimand-store"]),
        ("manager", &["estimand-api", "estimand-service", "estimand-store"]),
        // Not the store: an agent knows no database.
        (
            "slot-agent",
            &[
                "estimand-api",
                "estimand-collectors",
                "estimand-dialects",
                "estimand-expressions",
                "estimand-processors",
                "estimand-service",
            ],
        ),
        // What ships in the box is functions of what it is given: no part of the system is known to it.
        ("collectors", &[]),
        ("dialects", &["estimand-api"]),
        ("expressions", &[]),
        ("processors", &["estimand-expressions"]),
        // The interface is all that a scheduler knows.
        ("scheduler-demo", &["estimand-api"]),
        // A user of the interface and of the scheduler; services and agents are processes to it.
        ("demo", &["estimand-api", "estimand-scheduler-demo"]),
        ("testkit", &[]),
    ]);
    for (folder, allowed) in allowed {
        let ours = dependencies(folder).into_iter().filter(|name| name.starts_with("estimand-"));
        let unknown: Vec<String> = ours.filter(|name| !allowed.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "{folder} depends on {unknown:?}");
    }
}

#[test]
fn only_the_store_knows_the_databases() {
    let drivers = ["diesel", "diesel-async", "libsqlite3-sys", "tokio-postgres", "mysql_async", "rusqlite"];
    for folder in folders().iter().filter(|folder| !["store", "bench"].contains(&folder.as_str())) {
        let known = dependencies(folder);
        let found: Vec<&&str> = drivers.iter().filter(|driver| known.contains(**driver)).collect();
        assert!(found.is_empty(), "{folder} depends on {found:?}");
    }
}

/// The calls below the libraries that start a process.
const SPAWNS: [&str; 5] = ["posix_spawn", "libc::fork", "libc::clone", "SYS_clone", "SYS_vfork"];

/// Whether a source starts processes, by a library or by a call.
fn spawns(text: &str) -> bool {
    let imports = |line: &str| line.contains("process::") && line.contains("Command");
    SPAWNS.iter().any(|way| text.contains(way)) || text.lines().any(imports)
}

#[test]
fn only_the_launcher_starts_processes() {
    // The demo is a cluster's machines: it starts services and agents, as an operator does. What runs on a node is started by
    // that node's launcher there, too.
    let product =
        folders().into_iter().filter(|folder| !["testkit", "bench", "demo"].contains(&folder.as_str()));
    let (spawning, files): (Vec<PathBuf>, Vec<PathBuf>) = product
        .flat_map(|folder| sources(&root().join(folder).join("src")))
        .filter(|file| !is_test(file))
        .partition(|file| spawns(&fs::read_to_string(file).unwrap()));
    let launch = root().join("slot-agent/src/launch");
    let elsewhere: Vec<&PathBuf> = spawning.iter().filter(|file| !file.starts_with(&launch)).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert!(!spawning.is_empty() && !files.is_empty(), "what is looked for is not what is in use");
}

fn is_test(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"))
        || file.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn client_commands_speak_through_the_interface_alone() {
    for file in sources(&root().join("estimand/src/commands")) {
        let text = fs::read_to_string(&file).unwrap();
        for service in [
            "estimand_registry",
            "estimand_data_service",
            "estimand_manager",
            "estimand_slot_agent",
            "estimand_store",
            "estimand_service",
        ] {
            assert!(!text.contains(service), "{} names {service}", file.display());
        }
    }
}

#[test]
fn every_module_says_what_it_is() {
    for folder in folders() {
        let files = sources(&root().join(&folder).join("src"));
        assert!(!files.is_empty(), "{folder} has no sources");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            assert!(
                is_test(&file) || text.starts_with("//! "),
                "{} does not open with what it is",
                file.display()
            );
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
