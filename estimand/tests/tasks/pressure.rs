//! A task is placed by the pressure that the plane has at that moment, and by none when it has none.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

#[test]
fn a_pressure_that_is_deleted_does_not_count_any_more() {
    let plane = Plane::start(&["n1", "n2"]);
    let write = |node: &str, pressure: f64| {
        let value = json!({ "dataName": "node_pressure", "nodeName": node, "dataValue": pressure });
        let stored = plane.http.send_json("POST", "/api/data", &value);
        assert!([200, 201].contains(&stored.status), "{stored}");
    };
    // The planner hears of a fact a moment after it is stored.
    let placed_by = |what: &str, expected: &dyn Fn(&Value) -> bool| {
        wait::until_ok(PATIENCE, what, || {
            let task = plane.submit(&json!({ "command": "/bin/true", "policy": "least-pressure" }));
            let why = plane.over(&task)["why"].clone();
            if expected(&why) { Ok(()) } else { Err(why) }
        });
    };
    let chose = |why: &Value, node: &str, thousandths: u64| {
        let fact = &why["chosen"]["fact"]["thousandths"];
        why["nodes"] == 2 && why["chosen"]["node"] == node && *fact == thousandths
    };

    write("n1", 0.5);
    write("n2", 3.0);
    placed_by("the idle node", &|why| chose(why, "n1", 500));
    write("n1", 9.0);
    placed_by("the other one", &|why| chose(why, "n2", 3000));
    plane.http.request("DELETE", "/api/data?dataName=node_pressure", &[], b"").expect_status(200);
    placed_by("a node without a fact", &|why| why["nodes"] == 2 && why["chosen"].get("fact").is_none());
    write("n2", 4.0);
    placed_by("the one node with a fact, or the other", &|why| {
        let alternatives =
            [vec![why["chosen"].clone()], why["others"].as_array().cloned().unwrap_or_default()].concat();
        alternatives.iter().any(|one| one["node"] == "n2" && one["fact"]["thousandths"] == 4000)
    });
}
