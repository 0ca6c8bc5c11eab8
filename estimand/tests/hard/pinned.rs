//! One write with the highest order: it keeps the values of a slot away for a moment, and not for ever.

use estimand_testkit::http::{Http, Response};
use estimand_testkit::place::Place;
use estimand_testkit::plane::{Plane, Together};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

const PINNED: &str = "pinned";

/// Writes by the highest order, or a number beyond it.
fn pin(http: &Http, name: &str, highest: u64) -> Response {
    let write = json!({"dataName": name, "nodeName": "n1", "dataValue": PINNED, "epoch": highest, "sequence": highest});
    http.send_json("PUT", "/api/data", &write)
}

/// The operator is believed, as a node was before it was taken over and as everybody was in earlier versions.
#[track_caller]
fn pin_all(plane: &Plane, names: &[&str]) {
    for name in names {
        let pinned = pin(&plane.data, name, i64::MAX as u64);
        assert_eq!(pinned.status, 200, "{pinned}");
        assert_eq!(plane.value(name, "n1").unwrap()["dataValue"], PINNED);
    }
}

#[track_caller]
fn wait_for_own(plane: &Plane, names: &[&str]) {
    for name in names {
        let value =
            plane.until_value(name, "n1", "the slot's own again", |value| value["dataValue"] != PINNED);
        assert!(value["dataValue"].is_u64(), "{value}");
        // And the next one follows.
        plane.until_value(name, "n1", "renewed", |next| next["dataValue"] != value["dataValue"]);
    }
}

fn superseded(plane: &Plane) -> f64 {
    let metrics = plane.data.get("/metrics").expect_status(200);
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("estimand_writes_superseded_total "));
    line.expect("the figure is there").parse().unwrap()
}

#[test]
fn one_write_pins_no_value_for_ever() {
    let place = Place::new("pinned");
    let mut services = Together::start(&place);
    let _agent = place.agent("n1", services.url());
    let names = ["kept", "replaced", "registered_again"];
    for name in names {
        services.plane.register(&place.counting(name));
        services.plane.wait_fresh(name, &["n1"]);
    }

    let anybody = Http::new(services.url()).showing(None);
    for (highest, status) in [(u64::MAX, 400), (i64::MAX as u64, 403)] {
        let refused = pin(&anybody, "kept", highest);
        assert_eq!(refused.status, status, "{refused}");
        assert!(refused.text().contains("epoch"), "{refused}");
    }
    wait_for_own(&services.plane, &["kept"]);

    let plane = &services.plane;
    pin_all(plane, &names);
    plane.replace(&{
        let mut changed = place.counting("replaced");
        changed["timeout"] = json!("7s");
        changed
    });
    plane.unregister("registered_again");
    plane.register(&place.counting("registered_again"));
    wait_for_own(plane, &names);
    assert!(superseded(plane) > 0.0);
    let told = |instance: &Value| instance["superseded"].as_u64().is_some_and(|count| count > 0);
    wait::until_ok(PATIENCE, "the instance to say what was older", || {
        match plane.instance("kept", "n1")? {
            instance if told(&instance) => Ok(()),
            instance => Err(instance.to_string()),
        }
    });

    pin_all(plane, &["kept"]);
    services.up.restart_on_same_port();
    wait_for_own(&services.plane, &["kept"]);
}
