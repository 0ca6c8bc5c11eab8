//! The rules of the layout that neither Cargo nor `deny.toml`, which says who may depend on whom, can hold.

#![allow(clippy::unwrap_used)]

#[path = "structure/circles.rs"]
mod circles;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The crates of this workspace, as the top manifest lists them.
fn folders() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, list) = manifest.split_once("members = [").unwrap();
    let list = list.split(']').next().unwrap();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The calls below the libraries that start a process.
const SPAWNS: [&str; 5] = ["posix_spawn", "libc::fork", "libc::clone", "SYS_clone", "SYS_vfork"];

/// True if a source starts processes, by a library or by a call.
fn spawns(text: &str) -> bool {
    let imports = |line: &str| line.contains("process::") && line.contains("Command");
    SPAWNS.iter().any(|way| text.contains(way)) || text.lines().any(imports)
}

#[test]
fn only_the_launcher_starts_processes() {
    // The show is a cluster's machines: it starts services and agents, as an operator does. What runs on a node is started by
    // that node's launcher there, too.
    let product = folders()
        .into_iter()
        .filter(|folder| !folder.starts_with("tests/") && folder != "scheduler-demo/show");
    let (spawning, files): (Vec<PathBuf>, Vec<PathBuf>) = product
        .flat_map(|folder| sources(&root().join(folder).join("src")))
        .filter(|file| !is_test(file))
        .partition(|file| spawns(&fs::read_to_string(file).unwrap()));
    let launch = root().join("lib/exec/src");
    let elsewhere: Vec<&PathBuf> = spawning.iter().filter(|file| !file.starts_with(&launch)).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert!(!spawning.is_empty() && !files.is_empty(), "the search finds nothing, not even in the launcher");
}

fn is_test(file: &Path) -> bool {
    // The folder that this is checked out into has nothing to do with it.
    is_of_tests(file.strip_prefix(root()).unwrap())
}

/// True for a path inside a folder that has tests only.
fn is_of_tests(inside: &Path) -> bool {
    inside.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"))
        || inside.components().any(|part| part.as_os_str() == "tests")
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

/// The crates whose top-level modules import each other in circles, with these modules. No other one may begin to, and a
/// module that is in no circle any more leaves this list.
const CIRCLES: &[(&str, &[&str])] = &[
    ("estimand", &["cli", "guard", "options", "services", "tls"]),
    ("lib/client", &["options", "tls"]),
    ("lib/exec", &["client", "link", "protocol", "run", "shared", "spec", "supervisor"]),
    ("lib/otlp", &["json", "messages"]),
    ("lib/runtime", &["background", "tasks"]),
    ("lib/store", &["data", "journal", "preparation", "url"]),
    (
        "lib/web",
        &[
            "body",
            "body_encoding",
            "browser",
            "builtin",
            "busy_body",
            "connections",
            "gate",
            "live_shares",
            "revocation",
            "role",
            "routes",
            "served_part",
            "server",
            "share_report",
            "shares",
            "site",
        ],
    ),
    ("schedulers/capacity", &["ledger", "loan"]),
    ("schedulers/placement", &["cluster", "kept", "nodes", "queue", "state", "usage"]),
];

#[test]
fn modules_import_each_other_in_no_circle() {
    let product = folders().into_iter().filter(|folder| !folder.starts_with("tests/"));
    for folder in product {
        let circles = circles::circles(&root().join(&folder).join("src"));
        let mut found: Vec<String> = circles.into_iter().flatten().collect();
        found.sort();
        let known =
            CIRCLES.iter().find(|(name, _)| *name == folder).map_or(&[] as &[&str], |(_, known)| known);
        assert_eq!(found, known, "{folder}: the modules in circles, and those that are known for it");
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

/// Pages that name tests, each with how many it has at least: `contract/access::name` below the tests of the binary, other
/// paths from the top.
#[test]
fn every_test_that_a_page_names_is_there() {
    for (name, least) in [("SECURITY.md", 40), ("docs/explanation/guarantees.md", 30)] {
        let page = fs::read_to_string(root().join(name)).unwrap();
        let coded = page.split('`').skip(1).step_by(2);
        let named = coded.filter_map(|code| code.split_once("::"));
        let named: Vec<_> = named.filter(|(file, _)| file.starts_with(char::is_alphabetic)).collect();
        let missing: Vec<_> = named.iter().filter(|(file, test)| !has_test(file, test)).collect();
        assert!(missing.is_empty(), "{name} names tests that are not there: {missing:#?}");
        assert!(named.len() > least, "only {} tests are found in {name}", named.len());
    }
}

fn has_test(file: &str, name: &str) -> bool {
    let (file, function) = (format!("{file}.rs"), format!("fn {name}("));
    let places = [root().join("estimand/tests").join(&file), root().join(&file)];
    places.iter().filter_map(|path| fs::read_to_string(path).ok()).any(|text| text.contains(&function))
}
