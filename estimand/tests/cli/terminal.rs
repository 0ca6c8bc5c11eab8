//! Output to a terminal, and to anything else.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::session::Session;

/// Sets the colour, turns the direction of writing, moves the cursor in one byte of Latin-1, and takes no room.
const HOSTILE: &str = "a\u{1b}[31mb\u{202e}c\u{9b}2Jd\u{200b}\u{2060}\u{feff}\u{e0041}";

/// The output of a command on a terminal of its own, which does not know how wide it is.
fn on_a_terminal(session: &Session, args: &str) -> String {
    let binary = estimand_testkit::process::binary();
    let mut command = estimand_testkit::process::command("script");
    command.args(["--quiet", "--command", &format!("{} {args}", binary.display()), "/dev/null"]);
    command.env("ESTIMAND_SERVER", session.base_url()).env_remove("COLUMNS").stdin(Stdio::null());
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

#[test]
fn a_table_fits_a_terminal_and_is_whole_elsewhere() {
    let session = Session::start();
    session.quietly(&["put", "long", "n1", &"x".repeat(1_100), "--text"]);
    let shown = on_a_terminal(&session, "get long");
    assert!(shown.contains("xxx…") && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(session.quietly(&["get", "long"]).contains(&"x".repeat(1_100)));
}

#[test]
fn a_value_does_not_command_a_terminal() {
    let session = Session::start();
    session.quietly(&["put", "hostile", "n1", &json!({ "a": HOSTILE }).to_string()]);
    session.quietly(&["put", "plain", "n1", HOSTILE, "--text"]);
    session.quietly(&["bind", "part", "hostile", "--field", "/a\u{1b}[31m\u{202e}\u{9b}2J"]);
    for args in
        ["get plain --raw", "get", "get --json", "get --explain", "show part", "show hostile", "bindings"]
    {
        let shown = on_a_terminal(&session, args);
        let obeyed = |c: char| {
            matches!(
                c,
                '\u{1b}' | '\u{80}'
                    ..='\u{9f}' | '\u{202e}' | '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{e0041}'
            )
        };
        assert!(!shown.contains(obeyed), "{args}: {shown:?}");
    }
    // A program reads what was written.
    assert_eq!(session.quietly(&["get", "plain", "--raw"]), format!("{HOSTILE}\n"));
    let values: Value = serde_json::from_str(&session.quietly(&["get", "plain", "--json"])).unwrap();
    assert_eq!(values[0]["dataValue"], HOSTILE);
}
