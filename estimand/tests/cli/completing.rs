//! Completions in a real bash, whose completion function is driven as a key press drives it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use estimand_testkit::process;
use estimand_testkit::processes;

use crate::session::{NODE, Session};

/// The words that bash offers for the last word of a line, by the script that `estimand completions bash` prints.
fn offered(server: &str, script: &str, line: &[&str]) -> Vec<String> {
    let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
    let driver = format!(
        "{script}\n\
         spec=$(complete -p estimand); spec=${{spec#*-F }}; function=${{spec%% *}}\n\
         COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9; COMP_POINT=0; COMP_LINE=\n\
         \"$function\" estimand \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" ")
    );
    let mut bash: Command = process::command("bash");
    let binary = process::binary();
    let folder = binary.parent().unwrap_or(Path::new("/")).display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    bash.args(["--norc", "-c", &driver])
        .env("PATH", format!("{folder}:{path}"))
        .env("ESTIMAND_SERVER", server);
    let output = bash.output().unwrap();
    let (said, wrong) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(wrong, "", "{line:?}");
    said.lines().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

#[test]
fn bash_completes_commands_options_and_names() {
    let session = Session::with_node();
    session.quietly(&["register", "zebra_stripes", "--every", "1h", "--", "x"]);
    session.quietly(&["bind", "zebra_bound", "zebra_stripes"]);
    session.plane().until_instance("load", NODE, "to be there", |_| true);
    let submitted = session.quietly(&["tasks", "submit", "--nodes", "zone=nowhere", "--", "/bin/true"]);
    let task = submitted.split('`').nth(1).unwrap();
    let script = session.quietly(&["completions", "bash"]);
    let offered = |line: &[&str]| offered(session.base_url(), &script, line);
    assert_eq!(offered(&["estimand", "unreg"]), ["unregister"]);
    assert_eq!(offered(&["estimand", "register", "--history-m"]), ["--history-max"]);
    assert_eq!(offered(&["estimand", "get", "zebra"]), ["zebra_bound", "zebra_stripes"]);
    assert_eq!(offered(&["estimand", "unregister", "zebra_s"]), ["zebra_stripes"]);
    assert_eq!(offered(&["estimand", "nodes", "cordon", "no"]), [NODE]);
    assert_eq!(offered(&["estimand", "get", "--node", "no"]), [NODE]);
    assert_eq!(offered(&["estimand", "tasks", "cancel", task]), [task]);
    assert_eq!(offered(&["estimand", "get", "--state", "fre"]), ["fresh"]);
    assert_eq!(offered(&["estimand", "get", "nothing_begins_so"]), [""; 0]);
    // The service that the line names is asked.
    let line = ["estimand", "--server", "http://127.0.0.1:1", "get", "zebra"];
    assert_eq!(offered(&line), [""; 0]);
}

#[test]
fn a_service_that_is_away_or_silent_offers_nothing_soon() {
    let session = Session::start();
    let script = session.quietly(&["completions", "bash"]);
    assert_eq!(offered("http://127.0.0.1:1", &script, &["estimand", "get", "z"]), [""; 0]);
    session.service.pause();
    let began = Instant::now();
    let found = offered(session.base_url(), &script, &["estimand", "get", "z"]);
    let took = began.elapsed();
    session.service.resume();
    assert_eq!(found, [""; 0]);
    // The limit is 400 ms; bash and a machine with much to do take their time as well.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(processes::is_alive(session.service.pid()));
}
