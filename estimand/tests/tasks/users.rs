//! Tasks of users run where an agent has them run as somebody else than itself, or its operator says so.

use estimand_testkit::http::Http;
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::plane::Plane;

#[test]
fn a_users_task_waits_for_a_node_that_runs_those() {
    let plane = Plane::with_only(&["n1"], &[]);
    let fields = json!({ "name": "alice", "role": "user" });
    let issued = plane.http.send_json("POST", "/api/tokens", &fields).expect_status(201).json();
    let alice = Http::new(plane.services.base_url()).showing(issued["token"].as_str());
    let document = json!({ "id": "hers", "command": ["/bin/sh", "-c", "echo $ESTIMAND_NODE"] });
    alice.send_json("POST", "/api/tasks", &document).expect_status(201);
    let waits = wait::until(PATIENCE, "a reason", || {
        let waits = plane.task("hers")["waits"].as_str()?.to_owned();
        waits.contains("it is the task of a user").then_some(waits)
    });
    assert!(waits.contains("fits on no node") && waits.contains("`--run-as USER`"), "{waits}");
    // On behalf of a user it is theirs.
    plane.submit(&json!({ "id": "for-her", "command": ["/bin/true"], "user": "alice" }));
    plane.submit(&json!({ "id": "own", "command": ["/bin/true"] }));
    assert_eq!(plane.over("own")["node"], "n1");
    assert_eq!(plane.task("for-her")["state"], "QUEUED");
    let args = ["agent", "--server", plane.services.base_url(), "--node", "n2", "--allow-all"];
    let args = args.into_iter().chain(["--allow-users-as-agent"]);
    let data = plane.folder.path().join("n2");
    let _second = process::estimand().args(args).data_dir(data).without_http().start();
    for id in ["hers", "for-her"] {
        assert_eq!(plane.over(id)["node"], "n2", "{}", plane.task(id));
    }
    assert_eq!(plane.log("hers"), ["n2"]);
    let nodes = plane.http.get("/api/nodes").expect_status(200).json();
    let said = |node: usize| nodes[node]["facts"]["usersTasks"].clone();
    assert_eq!((said(0), said(1)), (json!("refused"), json!("asAgent")));
}
