//! Completions in a real bash, whose completion function is driven as a key press drives it.

use std::path::Path;
use std::time::{Duration, Instant};

use estimand_testkit::process;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};

use crate::session::{NODE, Session};

/// A token by its form, which no service has made.
const UNKNOWN_TOKEN: &str = "estimand_0123456789012345678901234567890123456789012";

/// A bash that has read the script which `estimand completions bash` prints.
struct Bash {
    script: String,
    server: String,
    token: Option<&'static str>,
}

impl Bash {
    fn of(session: &Session) -> Self {
        let script = session.quietly(&["completions", "bash"]);
        Bash { script, server: session.base_url().to_owned(), token: None }
    }

    /// The words that it offers for the last word of a line.
    #[track_caller]
    fn offers(&self, line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').flat_map(taken_apart).collect();
        let (last, before) = (&words[words.len() - 1], &words[words.len() - 2]);
        // A break is no beginning of a word: an empty one begins behind it.
        let begun = if is_break(last) { "" } else { last };
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let driver = format!(
            "{}\n\
             spec=$(complete -p estimand); spec=${{spec#*-F }}; function=${{spec%% *}}\n\
             COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}\n\
             \"$function\" estimand '{begun}' '{before}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            self.script,
            quoted.join(" "),
            words.len() - 1,
        );
        let binary = process::binary();
        let folder = binary.parent().unwrap_or(Path::new("/")).display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = process::command("bash");
        bash.args(["--norc", "-c", &driver]).env("PATH", format!("{folder}:{path}"));
        bash.env("ESTIMAND_SERVER", &self.server);
        bash.envs(self.token.map(|token| ("ESTIMAND_TOKEN", token)));
        let output = bash.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        let offered = String::from_utf8(output.stdout).unwrap();
        offered.lines().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }
}

fn is_break(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| "=:".contains(letter))
}

/// The words that bash makes of one: each `=` and `:` is a break.
fn taken_apart(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in word.chars() {
        let letter = letter.to_string();
        let last = parts.last_mut().unwrap();
        match last.is_empty() || is_break(last) == is_break(&letter) {
            true => last.push_str(&letter),
            false => parts.push(letter),
        }
    }
    parts
}

#[test]
fn bash_completes_commands_options_and_names() {
    let session = Session::with_node();
    session.quietly(&["register", "zebra_stripes", "--every", "1h", "--", "x"]);
    session.quietly(&["register", "lion", "--every", "1h", "--", "x"]);
    session.quietly(&["bind", "zebra_bound", "zebra_stripes"]);
    session.quietly(&["put", "zebra_written", NODE, "1"]);
    session.plane().until_instance("zebra_stripes", NODE, "to be there", |_| true);
    let submitted = session.quietly(&["tasks", "submit", "--nodes", "zone=nowhere", "--", "/bin/true"]);
    let task = submitted.split('`').nth(1).unwrap();
    let bash = Bash::of(&session);
    // A machine with much to do may have no answer within the limit, and then there is nothing to offer.
    let check = |line: &str, expected: &[&str]| {
        wait::until_ok(PATIENCE, line, || {
            let offered = bash.offers(line);
            if offered == expected { Ok(()) } else { Err(format!("{offered:?}")) }
        });
    };
    check("estimand unreg", &["unregister"]);
    check("estimand register --history-m", &["--history-max"]);
    check("estimand get --state fre", &["fresh"]);
    check("estimand get zebra", &["zebra_bound", "zebra_stripes", "zebra_written"]);
    check("estimand unregister zebra", &["zebra_stripes"]);
    check("estimand pause lion zebra", &["zebra_stripes"]);
    check("estimand unbind zebra", &["zebra_bound"]);
    check("estimand bind zebra", &["zebra_bound"]);
    check("estimand bind new zebra", &["zebra_bound", "zebra_stripes", "zebra_written"]);
    check("estimand rename zebra_stripes zebra", &[]);
    check("estimand nodes cordon no", &[NODE]);
    check("estimand get --node no", &[NODE]);
    check("estimand get --node=no", &[NODE]);
    check("estimand get --node=", &[NODE]);
    check(&format!("estimand tasks cancel {task}"), &[task]);
    check(&format!("estimand tasks submit --after {task}"), &[task]);
    check("estimand get nothing_begins_so", &[]);
    // The services that the line names are asked, and no others.
    check(&format!("estimand --server {} get zebra_b", session.base_url()), &["zebra_bound"]);
    check(&format!("estimand get --server={} zebra_b", session.base_url()), &["zebra_bound"]);
    check("estimand --server http://127.0.0.1:1 get zebra", &[]);
}

#[test]
fn a_service_that_is_away_refuses_or_is_silent_offers_nothing_soon() {
    let session = Session::start();
    session.quietly(&["put", "zebra", "n1", "1"]);
    let bash = Bash::of(&session);
    assert_eq!(bash.offers("estimand get z"), ["zebra"]);
    let away = Bash { server: "http://127.0.0.1:1".to_owned(), ..Bash::of(&session) };
    assert_eq!(away.offers("estimand get z"), [""; 0]);
    let refused = Bash { token: Some(UNKNOWN_TOKEN), ..Bash::of(&session) };
    assert_eq!(refused.offers("estimand get z"), [""; 0]);
    let mut read = session.command(&["get", "zebra"]);
    read.envs([("ESTIMAND_SERVER", session.base_url()), ("ESTIMAND_TOKEN", UNKNOWN_TOKEN)]);
    assert_eq!(read.output().unwrap().status.code(), Some(5), "the service does refuse it");
    session.service.pause();
    let began = Instant::now();
    let offered = bash.offers("estimand get z");
    let took = began.elapsed();
    session.service.resume();
    assert_eq!(offered, [""; 0]);
    // The limit is 400 ms, and the client's own one 15 s; bash and a machine with much to do take their time as well.
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(processes::is_alive(session.service.pid()));
}
