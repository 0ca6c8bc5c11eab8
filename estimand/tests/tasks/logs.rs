//! Logs as a task wrote them: lines that have not ended yet, each byte, and more of them than anybody keeps.

use std::path::Path;

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

/// The shell's words for waiting until a file is there.
fn until(folder: &Path, name: &str) -> String {
    format!("while [ ! -e {}/{name} ]; do sleep 0.05; done", folder.display())
}

fn shell(script: &str) -> Value {
    json!({ "command": ["/bin/sh", "-c", script] })
}

impl Plane {
    fn put(&self, name: &str) {
        std::fs::write(self.folder.path().join(name), "").unwrap();
    }

    /// Follows a log from its beginning until such a line is unfinished, and gives the texts of the lines before it.
    #[track_caller]
    fn until_open(&self, id: &str, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut from = json!(0);
        let mut open = json!(0);
        wait::until(PATIENCE, &format!("the unfinished line {text:?}"), || {
            let query = format!("from={from}&open={open}&waitMs=1000");
            let page = self.http.get(&format!("/api/tasks/{id}/logs?{query}")).expect_status(200).json();
            (from, open) = (page["next"].clone(), page["openRevision"].clone());
            let some = page["lines"].as_array().unwrap().iter();
            lines.extend(some.map(|line| line["text"].as_str().unwrap().to_owned()));
            let shown = page["open"].as_array().into_iter().flatten();
            shown.into_iter().any(|open| open["text"] == text).then_some(())
        });
        lines
    }

    fn raw(&self, path: &str) -> Vec<u8> {
        self.http.get(path).expect_status(200).body
    }
}

/// A bar of progress as it is drawn, and a question, are seen before their lines end; afterwards each is there once.
#[test]
fn an_unfinished_line_is_seen_before_it_ends() {
    let plane = Plane::start(&["n1"]);
    let folder = plane.folder.path();
    let script = [
        "echo begun; printf '\\r 10%%' >&2".to_owned(),
        until(folder, "more"),
        "printf '\\r 50%%' >&2".to_owned(),
        until(folder, "all"),
        "printf '\\r100%%\\n' >&2; printf 'Really? '".to_owned(),
        until(folder, "yes"),
        "echo yes; printf 'no end'".to_owned(),
    ];
    let id = plane.submit(&shell(&script.join("; ")));
    assert_eq!(plane.until_open(&id, " 10%"), ["begun"]);
    plane.put("more");
    assert_eq!(plane.until_open(&id, " 50%"), ["begun"]);
    plane.put("all");
    let bar = "\r 10%\r 50%\r100%";
    assert_eq!(plane.until_open(&id, "Really? "), ["begun", bar]);
    plane.put("yes");
    assert_eq!(plane.over(&id)["state"], "SUCCEEDED");
    assert_eq!(plane.log(&id), ["begun", bar, "Really? yes", "no end"]);
    let page = plane.http.get(&format!("/api/tasks/{id}/logs")).expect_status(200).json();
    assert_eq!((&page["open"], &page["openRevision"]), (&Value::Null, &json!(0)));
}

/// Also NUL, what is no UTF-8, lines longer than a piece, and a last one without its end.
#[test]
fn raw_is_each_byte_that_was_written() {
    let plane = Plane::start(&["n1"]);
    let script = "printf '%040000d' 7; i=0; while [ $i -lt 256 ]; do printf '%b' \"\\\\0$(printf %03o $i)\"; i=$((i + 1)); done; \
                  printf '\\n\\n\\303'";
    let id = plane.submit(&shell(script));
    assert_eq!(plane.over(&id)["state"], "SUCCEEDED");
    let bytes: Vec<u8> = (0..=255).collect();
    let written = [format!("{:040000}", 7).as_bytes(), &bytes, b"\n\n\xc3"].concat();
    for query in ["format=raw", "stream=RAW", "stream=stdout&format=raw"] {
        assert_eq!(plane.raw(&format!("/api/tasks/{id}/logs?{query}")), written, "{query}");
    }
    let tail = plane.raw(&format!("/api/tasks/{id}/logs?stream=RAW&tail=2"));
    assert_eq!(tail, b"\n\xc3");
    let said = plane.cli(&["tasks", "logs", &id, "--stream", "raw"]).output().unwrap();
    assert_eq!(said.stdout, written);
}

/// A submission does not wait until all lines of a deleted task are gone.
#[test]
fn a_flood_of_empty_lines_goes_beside_other_work() {
    let plane = Plane::start(&["n1"]);
    let id = plane.submit(&shell("yes '' | head -n 30000"));
    assert_eq!(plane.over(&id)["lines"], 30_000);
    plane.http.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    let next = plane.submit(&shell("echo after"));
    assert_eq!(plane.over(&next)["state"], "SUCCEEDED");
    assert_eq!(plane.log(&next), ["after"]);
}
