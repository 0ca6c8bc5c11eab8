#![allow(clippy::unwrap_used)]

use super::*;
use crate::services::SERVICES;

/// The text of `--help` on a terminal of a hundred columns.
fn help(subcommand: Option<&str>) -> String {
    let line = ["estimand"].into_iter().chain(subcommand).chain(["--help"]);
    groups::command().term_width(100).try_get_matches_from(line).unwrap_err().to_string()
}

fn usage_error(line: &[&str]) -> ErrorKind {
    groups::parse([&["estimand"], line].concat()).unwrap_err().kind()
}

#[test]
fn the_definition_is_consistent() {
    groups::command().debug_assert();
}

#[test]
fn help_reads_well() {
    insta::assert_snapshot!("help", help(None));
    insta::assert_snapshot!("help_up", help(Some("up")));
    insta::assert_snapshot!("help_register", help(Some("register")));
    insta::assert_snapshot!("help_get", help(Some("get")));
    insta::assert_snapshot!("help_bind", help(Some("bind")));
    insta::assert_snapshot!("help_compare", help(Some("compare")));
    insta::assert_snapshot!("help_nodes", help(Some("nodes")));
    insta::assert_snapshot!("help_instances", help(Some("instances")));
    insta::assert_snapshot!("help_logs", help(Some("logs")));
    insta::assert_snapshot!("help_run", help(Some("run")));
    insta::assert_snapshot!("help_job", help(Some("job")));
}

#[test]
fn common_options_may_stand_before_the_command_and_after_it() {
    let remote = |line: &[&str]| {
        let cli = groups::parse([&["estimand"], line].concat()).unwrap();
        let Command::Client(ClientCommand::List(args)) = cli.command else { panic!("another command") };
        args.remote.or(&cli.remote)
    };
    let expected = Remote { server: vec!["http://a".to_owned()], json: true, ..Remote::default() };
    assert_eq!(remote(&["--server", "http://a", "list", "--json"]), expected);
    assert_eq!(remote(&["--json", "list", "--server", "http://a"]), expected);
    assert_eq!(remote(&["--server", "http://b", "list", "--server", "http://a", "--json"]), expected);
    assert_eq!(remote(&["list"]), Remote::default());
}

#[test]
fn a_node_is_shown_or_something_is_done_with_it() {
    let nodes = |line: &[&str]| {
        let cli = groups::parse([&["estimand"], line].concat()).unwrap();
        let Command::Client(ClientCommand::Nodes(args)) = cli.command else { panic!("another command") };
        args
    };
    assert!(nodes(&["nodes"]).own.name.is_none());
    assert_eq!(nodes(&["nodes", "n1", "--json"]).own.name.unwrap().as_str(), "n1");
    let args = nodes(&["--json", "nodes", "cordon", "n1", "--server", "http://a"]);
    assert_eq!(args.own.inner().unwrap().server, ["http://a"]);
    assert_eq!(usage_error(&["nodes", "cordon"]), ErrorKind::MissingRequiredArgument);
    let args = nodes(&["nodes", "--json", "uncordon", "n1"]);
    assert!(args.own.name.is_none() && args.own.inner().unwrap().or(&args.remote).json);
}

#[test]
fn what_contradicts_itself_or_says_too_little_is_wrong_usage() {
    use ErrorKind::*;

    assert_eq!(usage_error(&["register", "a", "--", "x"]), MissingRequiredArgument);
    assert_eq!(usage_error(&["register", "--every", "1s", "--", "x"]), MissingRequiredArgument);
    assert_eq!(usage_error(&["register", "a", "--every", "1s"]), MissingRequiredArgument);
    assert_eq!(
        usage_error(&["register", "a", "--every", "1s", "--schedule", "@daily", "--", "x"]),
        ArgumentConflict
    );
    assert_eq!(usage_error(&["register", "a", "--every", "1s", "--gap", "1s", "--", "x"]), ArgumentConflict);
    assert_eq!(usage_error(&["register", "a", "--file", "f"]), ArgumentConflict);
    assert_eq!(usage_error(&["register", "--file", "f", "--history", "1h"]), ArgumentConflict);
    assert_eq!(usage_error(&["register", "a b", "--every", "1s", "--", "x"]), ValueValidation);
    assert_eq!(usage_error(&["get", "a", "--state", "old"]), InvalidValue);
    assert_eq!(usage_error(&["get", "a", "--raw", "--json"]), ArgumentConflict);
    assert_eq!(usage_error(&["history", "a", "--since", "yesterday"]), ValueValidation);
    assert_eq!(usage_error(&["up", "--listen", "7070"]), ValueValidation);
    assert_eq!(usage_error(&["get", "a", "--field", "value"]), ValueValidation);
    assert_eq!(usage_error(&["get", "a", "--field", "/value", "--explain"]), ArgumentConflict);
    assert_eq!(usage_error(&["bind", "a"]), MissingRequiredArgument);
    assert_eq!(usage_error(&["bind", "a", "b", "--rollback"]), ArgumentConflict);
    assert_eq!(usage_error(&["bind", "a", "--rollback", "--field", "/x"]), ArgumentConflict);
    assert_eq!(usage_error(&["bindings", "--history"]), MissingRequiredArgument);
    assert_eq!(usage_error(&["compare", "a", "b"]), TooFewValues);
    assert_eq!(usage_error(&["job", "a"]), MissingRequiredArgument);
    assert_eq!(usage_error(&["job", "a b", "--", "x"]), ValueValidation);
    assert_eq!(usage_error(&["job", "a", "--policy", "fast", "--", "x"]), InvalidValue);
    assert_eq!(usage_error(&["job", "a", "--param", "job=b", "--", "x"]), ValueValidation);
}

#[test]
fn a_negative_number_is_a_value() {
    let cli = groups::parse(["estimand", "put", "temperature", "node-1", "-4.5"]).unwrap();
    let Command::Client(ClientCommand::Put(args)) = cli.command else { panic!("another command") };
    assert_eq!(args.own.value, "-4.5");
}

/// The commands that print no JSON, with the reason.
const WITHOUT_JSON: &[(&str, &str)] = &[
    ("up", "it serves until it is ended; its log is for people; so do the services alone"),
    ("agent", "the same"),
    ("completions", "it prints a script for a shell"),
];

/// Calls `visit` for each command that can be run, with its words.
fn each_command(command: &clap::Command, above: &[&str], visit: &mut impl FnMut(&[&str], &clap::Command)) {
    if !command.is_subcommand_required_set() {
        visit(above, command);
    }
    for inner in command.get_subcommands() {
        each_command(inner, &[above, &[inner.get_name()]].concat(), visit);
    }
}

#[test]
fn each_command_prints_json_or_has_a_reason_not_to() {
    let mut without = Vec::new();
    each_command(&groups::command(), &[], &mut |words, command| {
        if !command.get_arguments().any(|arg| arg.get_long() == Some("json")) {
            without.push(words.join(" "));
        }
    });
    let mut expected: Vec<&str> = WITHOUT_JSON.iter().map(|(command, _)| *command).collect();
    expected.extend(SERVICES.map(|kind| kind.command));
    without.sort_by_key(|command| expected.iter().position(|one| one == command));
    assert_eq!(without, expected);
}

#[test]
fn no_text_about_a_command_begins_with_a_question_word() {
    each_command(&groups::command(), &[], &mut |words, command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty(), "{words:?} has no sentence");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for text in [about, after] {
            let first = text.split(' ').next().unwrap_or_default();
            assert!(!["What", "Who", "Which", "How"].contains(&first), "{words:?}: {text}");
        }
    });
}

#[test]
fn arguments_that_take_names_are_told_apart() {
    let mut lines = String::new();
    each_command(&groups::command(), &[], &mut |words, command| {
        for arg in command.get_arguments() {
            if let Some(taken) = estimand_cli::names::of_argument(words, arg) {
                lines.push_str(&format!("{} {}: {taken:?}\n", words.join(" "), arg.get_id()));
            }
        }
    });
    insta::assert_snapshot!("names", lines);
}
