//! Each event of the feed reaches RabbitMQ at least once, whoever of both is killed; what comes twice has the same id.

use std::collections::BTreeMap;

use estimand_testkit::process;
use estimand_testkit::rabbitmq::RabbitMq;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::reader::Reader;

#[test]
fn everything_is_published_whoever_is_killed() {
    let mq = RabbitMq::start();
    let reader = Reader::open(&mq);
    let folder = tempfile::tempdir().unwrap();
    let args = ["up", "--no-agent", "--defaults", "none"];
    let mut services =
        process::estimand().args(args).env("ESTIMAND_PUBLISH", mq.url()).port(process::free_port()).start();
    let agent = ["agent", "--server", services.base_url(), "--node", "n1", "--allow-all"];
    let _agent = process::estimand().args(agent).data_dir(folder.path()).without_http().start();
    let http = services.http();
    let submit = |document: &Value| drop(http.send_json("POST", "/api/tasks", document).expect_status(201));
    let cancel = |id: &str| {
        drop(http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200));
    };
    let waits = |id: &str| json!({ "id": id, "command": "/bin/true", "resources": { "gpu": 1 } });

    let mut known = BTreeMap::new();
    submit(&json!({ "id": "runs", "command": ["/bin/sh", "-c", "exit 7"], "labels": { "study": "x" } }));
    reader.read_until(&mut known, "runs", "FAILED");
    let result = known.values().next_back().unwrap();
    assert_eq!((&result["ending"], &result["labels"]), (&json!({ "exit": 7 }), &json!({ "study": "x" })));

    // The broker is away: nobody waits for it, and nothing is lost.
    mq.kill9();
    submit(&waits("meanwhile"));
    cancel("meanwhile");
    let figures = || http.get("/metrics").expect_status(200).text().to_owned();
    wait::until(PATIENCE, "the breaker to open", || {
        figures().contains("estimand_calls_breaker{service=\"rabbitmq\",state=\"open\"} 1").then_some(())
    });
    // Neither is anything if the service is killed then.
    services.kill9();
    services.restart_on_same_port();
    submit(&waits("after"));
    mq.start_again();
    let reader = Reader::open(&mq);
    cancel("after");
    reader.read_until(&mut known, "after", "CANCELLED");

    // A service that is killed while it publishes goes on where it was.
    for round in 0..3 {
        let id = format!("round{round}");
        submit(&waits(&id));
        services.kill9();
        services.restart_on_same_port();
        cancel(&id);
    }
    reader.read_until(&mut known, "round2", "CANCELLED");
    let page = http.get("/api/tasks/events?after=0&limit=1000").expect_status(200).json();
    let all: Vec<Value> = page["events"].as_array().unwrap().clone();
    assert_eq!(known.into_values().collect::<Vec<Value>>(), all, "every event, as the feed has it");
    wait::until(PATIENCE, "nothing to be left", || {
        figures().contains("estimand_task_events_unpublished 0\n").then_some(())
    });
}
