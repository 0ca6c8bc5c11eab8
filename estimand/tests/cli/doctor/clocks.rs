//! The clock of a service that is not that of this machine.

use estimand_testkit::clock::Clock;
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};

use super::Diagnosis;

#[test]
fn a_clock_that_is_off_is_told_by_how_much() {
    let clock = Clock::right();
    let services = clock.give_to(process::estimand().args(["up", "--no-agent"])).start();
    let diagnose = || {
        let mut command = process::command(process::binary());
        command.args(["doctor", "--json"]).env("ESTIMAND_SERVER", services.base_url());
        Diagnosis::of(&command.output().unwrap())
    };
    for (by, level, part, code) in [
        ("+0", "ok", "agree", 0),
        ("-10m", "failure", "behind the one here", 1),
        ("+10m", "failure", "ahead of the one here", 1),
        ("+20s", "warning", "ahead of the one here", 0),
        ("-20s", "warning", "behind the one here", 0),
    ] {
        clock.shift(by);
        let has = |found: &Diagnosis| found.find("clock", part).is_some_and(|one| one["level"] == level);
        let found =
            wait::until(PATIENCE, &format!("the clock to be off by {by}"), || Some(diagnose()).filter(has));
        assert_eq!(found.code, code, "{found:?}");
        let remedy = found.has(level, "clock", part);
        assert_eq!(remedy.contains("timedatectl"), level != "ok", "{found:?}");
    }
}
