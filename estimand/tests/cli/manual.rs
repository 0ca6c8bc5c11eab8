//! The manual pages: one for each command, which groff renders without a warning.

use std::collections::BTreeSet;
use std::process::Command;

use estimand_testkit::process;

#[test]
fn each_command_has_a_page_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    let output = process::command(process::binary()).arg("man").arg(&dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let pages: BTreeSet<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in
        ["estimand.1", "estimand-get.1", "estimand-nodes.1", "estimand-nodes-cordon.1", "estimand-up.1"]
    {
        assert!(pages.contains(page), "{page} is not in {pages:?}");
    }
    for page in &pages {
        let rendered = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(dir.join(page)).output();
        let rendered = rendered.expect("groff is there: tests/setup installs it");
        assert!(rendered.status.success(), "{page}: {rendered:?}");
        assert_eq!(String::from_utf8_lossy(&rendered.stderr), "", "{page}");
    }
    let top = Command::new("groff")
        .args(["-man", "-Tascii", "-P-cbou"])
        .arg(dir.join("estimand.1"))
        .output()
        .unwrap();
    let top = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(top.contains("estimand-get(1)") && top.contains("no such thing"), "{top}");
}
