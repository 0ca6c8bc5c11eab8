//! `estimand job` as its user sees it.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use estimand_scheduler_demo::report;
use estimand_testkit::{process, processes, wait};
use serde_json::{Value, json};

use crate::cluster::{Cluster, SOON, binary};
use crate::{check, images};

/// A cluster with the facts of a plan: 60 images, of which `n1` does two thirds.
fn cluster() -> (Cluster, Vec<String>) {
    let cluster = Cluster::start(&["n1", "n2"]);
    let images = images(60);
    cluster.distribute(&images);
    cluster.write("node_capability", "n1", &json!(2));
    cluster.write("node_capability", "n2", &json!({ "value": 1 }));
    (cluster, images)
}

/// The command, with everything but what differs.
fn command(cluster: &Cluster, name: &str, rates: &Value, options: &[&str]) -> Command {
    let mut command = process::command(binary());
    command.args(["job", name, "--server", cluster.services.base_url()]).args(options);
    command.args(["--param", &format!("rates={rates}")]).arg("--").arg(&cluster.worker);
    command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn out(cluster: &Cluster) -> String {
    format!("out={}", cluster.out().display())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn ended_with(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Waits until a job that was started has done something.
fn until_it_works(process: &mut Child) -> BufReader<std::process::ChildStderr> {
    let mut lines = BufReader::new(process.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before it had done anything");
        if line.contains(" working") && !line.contains(": 0 of") {
            return lines;
        }
    }
}

fn interrupt(process: &Child) {
    let status = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[track_caller]
fn unregister(cluster: &Cluster, name: &str) {
    let server = cluster.services.base_url();
    let ended = process::command(binary()).args(["unregister", name, "--server", server]).output();
    ended_with(&ended.unwrap(), 0);
}

#[test]
fn a_job_ends_with_its_report() {
    let (cluster, images) = cluster();
    let folder = cluster.folder.path().join("a/report");
    let rates = json!({ "n1": 60, "n2": 30 });
    let options = ["--json", "--param", &out(&cluster), "--report", &folder.display().to_string()];
    let output = command(&cluster, "whole", &rates, &options).output().unwrap();
    ended_with(&output, 0);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut runs = report::from_json(&said).unwrap();
    assert_eq!(runs.len(), 1);
    let run = runs.remove(0);
    check(&cluster, &run, &images);
    assert_eq!((run.job.as_str(), run.conflicts, run.notes.as_slice()), ("whole", Some(0), &[][..]));
    assert_eq!(run.nodes.iter().map(|node| node.target).collect::<Vec<_>>(), [40, 20]);
    let written = std::fs::read(folder.join("report.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), said);
    assert!(std::fs::read_to_string(folder.join("report.html")).unwrap().contains("</html>"));
    // Where there is no terminal, the progress is plain lines, of which the last one tells of the end.
    let progress = text(&output.stderr);
    assert!(!progress.contains('\x1b') && progress.trim_end().contains(": 60 of 60, 2 ready"), "{progress}");
}

#[test]
fn a_person_sees_plan_progress_and_report() {
    let (cluster, _) = cluster();
    let rates = json!({ "n1": 200, "n2": 200 });
    let output = command(&cluster, "shown", &rates, &["--param", &out(&cluster)]).output().unwrap();
    ended_with(&output, 0);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("NODE  CAPABILITY  STATE  HAS  DOES  SECONDS\n"), "{shown}");
    assert!(shown.contains("\nshown (static, 60 images, facts of revision "), "{shown}");
    assert!(!shown.contains("note: ") && text(&output.stderr).starts_with("starting: 0 of 60, "), "{shown}");
}

#[test]
fn results_that_are_not_visible_here_are_not_merged() {
    let (cluster, _) = cluster();
    let rates = json!({ "n1": 200, "n2": 200 });
    let output = command(&cluster, "hidden", &rates, &["--param", "out=below/the/agent"]).output().unwrap();
    ended_with(&output, 0);
    let note = "note: results were not merged: below/the/agent/hidden is not a folder here\n";
    assert!(text(&output.stdout).ends_with(note), "{}", text(&output.stdout));
    cluster.nothing_is_left_of("hidden");
}

#[test]
fn images_without_a_result_fail_the_job_and_are_named() {
    let (cluster, mut images) = cluster();
    images.push("forgotten".to_owned());
    cluster.distribute(&images);
    let rates = json!({ "n1": 200, "n2": 200 });
    let output = command(&cluster, "gaps", &rates, &["--param", &out(&cluster)]).output().unwrap();
    ended_with(&output, 1);
    assert!(text(&output.stdout).ends_with("note: 1 image has no result: forgotten\n"));
    assert!(text(&output.stderr).ends_with("error: 1 image has no result: forgotten\n"));
    cluster.nothing_is_left_of("gaps");
}

#[test]
fn an_interrupted_job_ends_in_order() {
    let (cluster, _) = cluster();
    let mut command =
        command(&cluster, "stopped", &json!({ "n1": 5, "n2": 5 }), &["--param", &out(&cluster)]);
    let mut process = command.spawn().unwrap();
    let mut stderr = until_it_works(&mut process);
    interrupt(&process);
    let code = wait::until(SOON, "the end of the job", || process.try_wait().unwrap()).code();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(1), "{rest}");
    let end = "error: the job was cancelled; only its results so far are left\n";
    assert!(
        rest.contains("ending the job; a second interrupt leaves it as it is\n") && rest.ends_with(end),
        "{rest}"
    );
    cluster.nothing_is_left_of("stopped");
}

#[test]
fn a_second_interrupt_names_the_registration_that_is_left() {
    let (cluster, _) = cluster();
    let options = ["--param", &out(&cluster)];
    let mut process = command(&cluster, "left", &json!({ "n1": 5, "n2": 5 }), &options).spawn().unwrap();
    let mut stderr = until_it_works(&mut process);
    let workers = ["n1", "n2"].map(|node| cluster.worker_of(node));
    // The end of the workers is not confirmed.
    cluster.services.pause();
    interrupt(&process);
    let mut line = String::new();
    while !line.starts_with("ending the job") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended at once");
    }
    interrupt(&process);
    let status = wait::until(SOON, "the end of the command", || process.try_wait().unwrap());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    cluster.services.resume();
    assert_eq!(status.code(), Some(1), "{status}: {rest}");
    assert!(rest.ends_with("hint: `estimand unregister left.work` ends its workers\n"), "{rest}");
    unregister(&cluster, "left.work");
    assert!(workers.iter().all(|worker| !processes::is_alive(*worker)));
}

#[test]
fn the_job_of_a_killed_scheduler_is_ended_by_hand_and_completed_later() {
    let (cluster, images) = cluster();
    let options = ["--json", "--param", &out(&cluster)];
    let slow = json!({ "n1": 5, "n2": 5 });
    let mut process = command(&cluster, "orphan", &slow, &options).spawn().unwrap();
    drop(until_it_works(&mut process));
    process.kill().unwrap();
    process.wait().unwrap();
    // The workers go on with what they have, and their name is not another's.
    let again = command(&cluster, "orphan", &slow, &options).output().unwrap();
    ended_with(&again, 4);
    assert!(text(&again.stderr).contains("end it with `estimand unregister orphan.work`"));
    let workers = ["n1", "n2"].map(|node| cluster.worker_of(node));
    unregister(&cluster, "orphan.work");
    assert!(
        workers.iter().all(|worker| !processes::is_alive(*worker)),
        "it was answered before they had ended"
    );
    let before = answers(&cluster.out().join("orphan"));
    assert!(before > 0);
    let last = command(&cluster, "orphan", &json!({ "n1": 100, "n2": 100 }), &options).output().unwrap();
    ended_with(&last, 0);
    let run = report::from_json(&serde_json::from_slice(&last.stdout).unwrap()).unwrap().remove(0);
    check(&cluster, &run, &images);
    assert_eq!(answers(&cluster.out().join("orphan")), images.len(), "nothing was done a second time");
}

/// How many lines results have.
fn answers(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let results = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    results.map(|path| std::fs::read_to_string(path).unwrap().lines().count()).sum()
}
