//! Slots go before tasks where both want the processor.

use std::fs;

use estimand_testkit::wait::{self, PATIENCE};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::plane::Plane;

/// Says that it is there, wants the first processor until the moment that it is told, and prints how many seconds of it
/// it had.
const BUSY: &str = "
import os, sys, time
folder, name = sys.argv[1:]
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
open(folder + '/' + name, 'w').close()
while not os.path.exists(folder + '/until'):
    time.sleep(0.01)
until, before = float(open(folder + '/until').read()), time.process_time()
while time.clock_gettime(time.CLOCK_BOOTTIME) < until:
    pass
print(time.process_time() - before)
";

#[test]
fn a_slot_gets_more_of_a_processor_than_a_task_that_wants_it_all() {
    let plane = Plane::start(&["n1"]);
    let folder = plane.folder.path();
    let command = |name: &str| json!(["/usr/bin/python3", "-c", BUSY, folder, name]);
    let task = plane.submit(&json!({ "command": command("task") }));
    let registration = json!({ "dataName": "busy", "cmd": command("slot"), "max-Time": 300, "timeout": 300 });
    plane.http.send_json("POST", "/api/registry", &registration).expect_status(201);
    wait::until(PATIENCE, "both to be there", || {
        ["task", "slot"].iter().all(|name| folder.join(name).exists()).then_some(())
    });
    fs::write(folder.join("told"), (clock_gettime(ClockId::Boottime).tv_sec + 4).to_string()).unwrap();
    fs::rename(folder.join("told"), folder.join("until")).unwrap();
    let slot = wait::until(PATIENCE, "the slot's value", || {
        plane.http.get("/api/data?dataName=busy").json()[0]["dataValue"].as_f64()
    });
    assert_eq!(plane.over(&task)["state"], "SUCCEEDED");
    let task: f64 = plane.log(&task)[0].parse().unwrap();
    assert!(task < slot / 2.0, "the task had {task} s, the slot {slot} s");
}
