//! An error about a name that is unknown says the nearest one that is known.

use crate::session::{NODE, Session};

/// The standard error of a command, which must fail for want of something.
#[track_caller]
fn missing(session: &Session, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = session.command(&words).env("ESTIMAND_SERVER", session.base_url()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{line}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_unknown_name_is_told_the_nearest_one() {
    let session = Session::with_node();
    session.quietly(&["register", "zebra_stripes", "--every", "1h", "--", "x"]);
    session.quietly(&["register", "lion", "--every", "1h", "--", "x"]);
    session.quietly(&["bind", "zebra_bound", "zebra_stripes"]);
    session.quietly(&["put", "zebra_written", NODE, "1"]);
    session.quietly(&["tasks", "submit", "--id", "training-1", "--nodes", "zone=nowhere", "--", "/bin/true"]);
    session.plane().until_instance("zebra_stripes", NODE, "to be there", |_| true);
    for (line, nearest) in [
        ("get zebra_strips", "zebra_stripes"),
        ("get zebra_writen", "zebra_written"),
        ("show zebra_bond", "zebra_bound"),
        ("changes zebra_strips", "zebra_stripes"),
        ("edit zebra_strips --every 2h", "zebra_stripes"),
        ("pause zebra_strips", "zebra_stripes"),
        ("unregister zebra_strips", "zebra_stripes"),
        ("rename zebra_strips other", "zebra_stripes"),
        ("list zebra_strips", "zebra_stripes"),
        ("run zebra_strips --node node-1", "zebra_stripes"),
        ("instances zebra_strips", "zebra_stripes"),
        ("bind other zebra_strips", "zebra_stripes"),
        ("unbind zebra_bond", "zebra_bound"),
        ("nodes nod-1", NODE),
        ("nodes cordon nod-1", NODE),
        ("nodes label nod-1 a=b", NODE),
        ("tasks show trainig-1", "training-1"),
        ("tasks logs trainig-1", "training-1"),
        ("tasks cancel trainig-1", "training-1"),
        ("tasks wait trainig-1", "training-1"),
    ] {
        let said = missing(&session, line);
        let hint = format!("hint: did you mean `{nearest}`?");
        assert!(said.starts_with("error: ") && said.lines().any(|one| one == hint), "{line}: {said}");
    }
    let several = missing(&session, "unregister zebra_strips lyon --force");
    let hint = "hint: did you mean `zebra_stripes` instead of `zebra_strips`, `lion` instead of `lyon`?\n";
    assert!(several.ends_with(hint), "{several}");
    // The right service is asked, wherever the option stands.
    let line = format!("--server {} nodes cordon nod-1", session.base_url());
    let output = session.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `node-1`?"), "{output:?}");
}

#[test]
fn a_name_that_resembles_none_or_is_known_has_no_such_hint() {
    let session = Session::with_node();
    session.quietly(&["register", "zebra_stripes", "--every", "1h", "--", "x"]);
    session.plane().until_instance("zebra_stripes", NODE, "to be there", |_| true);
    for line in
        ["get elephant", "show elephant", "get zebra_stripes", "nodes cordon node-7", "tasks show t99"]
    {
        let said = missing(&session, line);
        assert!(said.starts_with("error: ") && !said.contains("did you mean"), "{line}: {said}");
    }
}
