//! `bind` to what was just registered.

use estimand_testkit::wait::PATIENCE;

use crate::session::{NODE, Session};

#[test]
fn a_swap_waits_for_the_first_values_of_its_target() {
    let session = Session::with_node();
    session.program("old", "echo 1");
    session.quietly(&["register", "old", "--every", "1h", "--", "old"]);
    session.until_ran("old", NODE, 1);
    session.quietly(&["bind", "stable", "old"]);
    let go = session.folder().join("go");
    session.program("new", &format!("until [ -e {} ]; do sleep 0.05; done; echo 2", go.display()));
    session.quietly(&["register", "new", "--every", "1h", "--", "new"]);
    let mut swap = session.spawn(&["bind", "stable", "new"]);
    let served = || session.quietly(&["get", "stable", "--json"]);
    assert!(served().contains("\"dataValue\": 1"), "readers lose nothing meanwhile: {}", served());
    std::fs::write(go, "").unwrap();
    let status = swap.wait(PATIENCE);
    assert!(status.success(), "{status}: {}", swap.stderr());
    assert!(served().contains("\"dataValue\": 2"), "{}", served());
}
