//! The documents are true: their commands are typed as they stand, their links lead somewhere, the table of requests is complete.
//!
//! `docs/README.md` says how a page is written for this test. `page` finds the commands of a page, `shell` types them,
//! `lines` compares what they print, `links` looks where links lead.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use estimand_testkit::process::Estimand;
use serde_json::Value;

mod guides;
mod lines;
mod links;
mod page;
mod shell;

use page::Page;
use shell::{Home, Shell};

const BIN: &str = env!("CARGO_BIN_EXE_estimand");
const README_LINES: usize = 150;
const ARCHITECTURE_WORDS: usize = 1_500;
/// A decision is a page: its context, what was decided, what follows.
const DECISION_LINES: usize = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Types all commands of a page, one after another, in one shell and a new home folder.
#[track_caller]
fn check(name: &str) {
    type_page(name, "", &Home::new(&root(), Path::new(BIN)));
}

/// The variable that README and tutorial set, still there for the next page.
const TOKEN: &str = "export ESTIMAND_TOKEN=$(cat ~/.local/share/estimand/token)\n";

/// Types all commands of a page in a shell that ends with what it has started, as a reader does before the next page.
#[track_caller]
fn type_page(name: &str, before: &str, home: &Home) {
    let page = Page::read(&root().join(name));
    assert!(!page.commands.is_empty(), "{name} has no commands");
    let mut shell = Shell::start(home, before);
    for command in &page.commands {
        if let Err(difference) = shell.check(command) {
            panic!("{name}, line {}:\n{difference}", command.line);
        }
    }
}

/// A reader has one home: what a page registers, binds and stores is still there for the next one, and so is the token.
#[test]
fn readme_tutorial_and_guides_are_typed_one_after_the_other_in_one_home() {
    let home = Home::new(&root(), Path::new(BIN));
    type_page("README.md", "", &home);
    guides::TYPED.iter().for_each(|page| type_page(page, TOKEN, &home));
}

#[test]
fn commands_of_the_readme_print_the_output_shown() {
    check("README.md");
}

#[test]
fn commands_of_running_print_the_output_shown() {
    check("docs/running.md");
}

#[test]
fn commands_of_the_api_print_the_output_shown() {
    check("docs/api.md");
}

#[test]
fn commands_of_cluster_print_the_output_shown() {
    check("docs/cluster.md");
}

#[test]
fn commands_of_the_collectors_print_the_output_shown() {
    check("collectors/README.md");
}

#[test]
fn commands_of_the_processors_print_the_output_shown() {
    check("processors/README.md");
}

#[test]
fn commands_of_the_scheduler_demo_print_the_output_shown() {
    check("scheduler-demo/README.md");
}

#[test]
fn commands_of_reservations_print_the_output_shown() {
    check("docs/reservations.md");
}

#[test]
fn commands_of_simulate_print_the_output_shown() {
    check("docs/simulate.md");
}

#[test]
fn commands_of_tasks_print_the_output_shown() {
    check("docs/tasks.md");
}

#[test]
fn commands_of_files_print_the_output_shown() {
    check("docs/files.md");
}

#[test]
fn commands_of_reserving_print_the_output_shown() {
    check("docs/reserving.md");
}

#[test]
fn commands_of_tuning_print_the_output_shown() {
    check("docs/tuning.md");
}

#[test]
fn commands_of_the_dashboard_print_the_output_shown() {
    check("docs/dashboard.md");
}

const TYPED: [&str; 14] = [
    "README.md",
    "collectors/README.md",
    "docs/api.md",
    "docs/cluster.md",
    "docs/reservations.md",
    "docs/running.md",
    "docs/simulate.md",
    "processors/README.md",
    "scheduler-demo/README.md",
    "docs/tasks.md",
    "docs/files.md",
    "docs/reserving.md",
    "docs/tuning.md",
    "docs/dashboard.md",
];

#[test]
fn every_page_with_commands_is_typed() {
    let pages = links::markdown(&root());
    assert!(pages.len() > TYPED.len(), "{pages:?}");
    for file in pages {
        let commands = Page::read(&file).commands.len();
        let typed = TYPED.iter().chain(guides::TYPED).any(|name| root().join(name) == file);
        assert!(commands == 0 || typed, "no test types the commands of {}", file.display());
    }
}

/// Commands that stand in a page as plain indented text are typed by nobody.
#[test]
fn commands_stand_in_blocks_that_are_typed() {
    for file in links::markdown(&root()) {
        let text = fs::read_to_string(&file).unwrap();
        let untyped = text.lines().find(|line| line.starts_with("    estimand "));
        assert_eq!(untyped, None, "{}", file.display());
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let broken = links::broken(&root());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pages_are_as_short_as_they_should_be() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    assert!(read("README.md").lines().count() <= README_LINES);
    assert!(read("ARCHITECTURE.md").split_whitespace().count() <= ARCHITECTURE_WORDS);
    // Their index has a line for each of them.
    let is_page = |file: &PathBuf| !file.ends_with("README.md");
    for file in links::markdown(&root().join("docs/decisions")).into_iter().filter(is_page) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= DECISION_LINES, "{} has {lines} lines", file.display());
    }
}

#[test]
fn each_decision_is_in_the_index_once() {
    let folder = root().join("docs/decisions");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    for file in links::markdown(&folder) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let times = index.matches(&format!("({name})")).count();
        assert!(times == 1 || name == "README.md", "the index names {name} {times} times");
        let text = fs::read_to_string(&file).unwrap();
        let complete =
            ["**Context.**", "**Decision.**", "**Consequence.**"].iter().all(|part| text.contains(part));
        assert!(complete || name == "README.md", "{name} lacks a part");
    }
}

#[test]
fn the_table_of_requests_is_complete() {
    let service = Estimand::builder(BIN).args(["up", "--no-agent"]).start();
    let description: Value = service.http().get("/openapi.json").expect_status(200).json();
    let text = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let mut missing = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let request =
                format!("| `{} {path}` | {} |", method.to_uppercase(), operation["x-role"].as_str().unwrap());
            let named = rows.iter().filter(|row| row.starts_with(&request)).count();
            if named != 1 {
                missing.push(format!("{request} stands there {named} times"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/api.md:\n{}", missing.join("\n"));
}
