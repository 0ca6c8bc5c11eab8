//! The script that compares trainings by policy goes on working. It judges no time.

use std::path::Path;
use std::process::Command;

use estimand_testkit::process;
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const ROWS: [&str; 5] = ["at random", "a queue", "least utilization", "least work", "estimated (default)"];

#[test]
fn trainings_are_compared_by_policy() {
    let short = ["--rounds", "1", "--trainings", "3", "--epochs", "1,1,1", "--cores", "1", "--every", "0.2"];
    let script = Path::new(ROOT).join("docs/examples/mnist/compare");
    let ran = Command::new(script)
        .arg("--program")
        .arg(process::binary())
        .args(short)
        .args(["--load", "2", "--json"])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/explanation/claim.md")).unwrap();
    for row in ROWS {
        let rounds = found["seconds"][row].as_array().unwrap_or_else(|| panic!("{row}: {found}"));
        assert_eq!(rounds.len(), 1, "{row}: {found}");
        let means = rounds[0].as_array().unwrap();
        assert!(means.len() == 4 && means.iter().all(|mean| mean.as_f64().unwrap() > 0.0), "{row}: {found}");
        assert!(page.contains(&format!("| {row} |")), "the page has no row `{row}`");
    }
}
