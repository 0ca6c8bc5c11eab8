//! Files of attempts as the version before this one wrote them: they are read, and written so that it reads them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use estimand_api::task::TaskEnding;
use serde_json::Value;

use super::folder::{Accepted, AttemptFolder};
use super::order::TaskRun;
use super::promise_end::WindowEnd;

fn folders() -> Vec<AttemptFolder> {
    AttemptFolder::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tasks/before")).unwrap()
}

fn folder(name: &str) -> AttemptFolder {
    folders().into_iter().find(|folder| folder.name() == name).unwrap()
}

fn accepted(name: &str) -> Accepted {
    folder(name).accepted().unwrap().unwrap()
}

#[test]
fn an_accepted_attempt_is_read_and_written_to_the_letter() {
    for folder in folders() {
        let text = fs::read_to_string(folder.file("accepted.json")).unwrap();
        let accepted = folder.accepted().unwrap().unwrap();
        let known = (accepted.assignment.id.clone(), accepted.assignment.attempt);
        assert_eq!(folder.attempt(), Some(known));
        assert_eq!(serde_json::to_string(&accepted).unwrap() + "\n", text);
    }
    let work = accepted("files.3").assignment.work;
    let work = work.supported().unwrap();
    assert!(work.has_files() && work.port == Some(0) && work.secrets == ["TOKEN"]);
    let assignment = accepted("container.1").assignment;
    assert_eq!((assignment.leased, assignment.lease_ms), (true, Some(600_000)));
    let newer = accepted("newer.1").assignment.work;
    assert!(newer.supported().unwrap_err().contains("`sandbox`"));
}

#[test]
fn an_order_is_read_and_has_all_that_it_had() {
    for name in ["container.1", "long.2"] {
        let folder = folder(name);
        let order = folder.order().unwrap().unwrap();
        assert_eq!(order.folder, folder);
        let before: Value = serde_json::from_slice(&fs::read(folder.file("order.json")).unwrap()).unwrap();
        let mut now = serde_json::to_value(&order).unwrap();
        now.as_object_mut().unwrap().remove("folder").unwrap();
        assert_eq!(now, before);
    }
    let order = folder("container.1").order().unwrap().unwrap();
    let place = order.container.unwrap();
    assert_eq!(place.name, "estimand-container-1-7f28264145314fe9");
    assert!(matches!(order.run, Some(TaskRun::Container(run)) if run.place == place && run.gpu == Some(1)));
    let order = folder("long.2").order().unwrap().unwrap();
    assert!(matches!(order.run, Some(TaskRun::Process(run)) if run.program == Path::new("/bin/sh")));
}

#[test]
fn steps_ends_and_the_end_of_a_promise_are_read() {
    let steps = folder("process.1").steps().unwrap().unwrap();
    assert_eq!(steps.keeper.as_deref(), Some("keeper-d1877c360c1a15d4"));
    assert!(steps.running.is_some() && steps.end.is_none());
    assert_eq!(folder("ended.1").end().unwrap().unwrap().ending, TaskEnding::Exit(3));
    let ending = folder("newer.1").end().unwrap().unwrap().ending;
    assert!(matches!(ending, TaskEnding::NotStarted(reason) if reason.contains("`sandbox`")));
    let end = WindowEnd::read(&folder("files.3")).unwrap().unwrap();
    assert_eq!((end.promise.as_str(), end.hard - end.begins()), ("p-1", 30_000_000_000));
}
