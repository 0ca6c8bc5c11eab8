//! The same plan from another language: `python/split.py`, which has nothing but the REST interface, beside
//! `estimand partition`.

use std::path::Path;
use std::process::Command;

use estimand_testkit::http::Http;
use estimand_testkit::process::Estimand;
use estimand_testkit::wait;
use proptest::collection::{hash_set, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::cluster::{SOON, binary};

const GENERATED: usize = 12;
const NAMES: [&str; 3] = ["data_distribution", "data_load", "node_capability"];
const STATES: [&str; 3] = ["fresh", "stale", "node-lost"];

/// The facts about a node: values by name of data, and the state of its capability.
#[derive(Debug)]
struct NodeCase {
    name: String,
    values: [Option<Value>; 3],
    state: &'static str,
}

fn node(name: &str, items: Value, capability: Value) -> NodeCase {
    NodeCase { name: name.to_owned(), values: [Some(items), None, Some(capability)], state: "fresh" }
}

fn in_state(state: &'static str, node: NodeCase) -> NodeCase {
    NodeCase { state, ..node }
}

/// Makes this, and nothing else, what is known.
fn write(http: &Http, case: &[NodeCase]) {
    for name in NAMES {
        http.request("DELETE", &format!("/api/data?dataName={name}"), &[], b"").expect_status(200);
    }
    for node in case {
        for (name, value) in NAMES.iter().zip(&node.values) {
            let Some(value) = value else { continue };
            let mut body = json!({ "dataName": name, "nodeName": node.name, "dataValue": value });
            let is_stale = node.state == "stale" && *name == "node_capability";
            if is_stale {
                body["validFor"] = json!("1ms");
            }
            http.send_json("PUT", "/api/data", &body).expect_status(201);
            let path = format!("/api/data/{name}/{}", node.name);
            let is_so = || (http.get(&path).json()["state"] == "stale").then_some(());
            if is_stale {
                wait::until(SOON, "the value to be stale", is_so);
            }
        }
        let mark = if node.state == "node-lost" { "node-lost" } else { "fresh" };
        let body = json!({ "nodeName": node.name, "state": mark });
        http.send_json("PUT", "/api/data/state", &body).expect_status(200);
    }
}

fn output(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {stderr}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn in_python(server: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/split.py");
    output(Command::new("python3").arg(script).arg(server))
}

/// The output of `estimand partition`, in the form of the script.
fn in_rust(server: &str) -> Value {
    let plan = output(Command::new(binary()).args(["partition", "--json", "--server", server]));
    let each = |what: &str, of: &dyn Fn(&Value) -> Value| {
        plan[what].as_array().unwrap().iter().map(of).collect::<Vec<Value>>()
    };
    let of_node = |one: &Value| json!({ "node": one["node"], "has": one["held"], "does": one["target"] });
    let of_transfer = |one: &Value| json!({ "from": one["from"], "to": one["to"], "count": one["count"] });
    json!({ "nodes": each("nodes", &of_node), "transfers": each("transfers", &of_transfer) })
}

fn by_hand() -> Vec<(&'static str, Vec<NodeCase>)> {
    let items = |range: std::ops::Range<u32>| json!(range.map(|i| format!("{i:03}.jpg")).collect::<Vec<_>>());
    let object = |items: Value| json!({ "items": items });
    let one = |name: &str, what: usize, value: Value| {
        let mut values = [None, None, None];
        values[what] = Some(value);
        NodeCase { name: name.to_owned(), values, state: "fresh" }
    };
    vec![
        (
            "lists and objects, numbers and estimates",
            vec![
                node("a", items(0..40), json!(1)),
                node("b", object(items(40..43)), json!({ "value": 2.5, "spread": 0.5, "samples": 3 })),
            ],
        ),
        (
            "copies on several nodes, one named twice",
            vec![
                node("a", json!(["x", "y", "z", "x"]), json!(1)),
                node("b", json!(["y", "z", "ü"]), json!(1)),
                node("c", json!(["z", "w"]), json!(3)),
            ],
        ),
        (
            "equal remainders go to whom they spare a move",
            vec![
                node("a", json!([]), json!(1)),
                node("b", items(0..1), json!(1)),
                node("c", items(1..5), json!(1)),
            ],
        ),
        (
            "nobody is capable of anything",
            vec![node("a", items(0..7), json!(0)), node("b", json!([]), json!(0.0))],
        ),
        (
            "nobody who is there is capable of anything",
            vec![
                node("a", items(0..7), json!(0)),
                node("b", json!([]), json!(0)),
                in_state("node-lost", node("c", items(7..9), json!(5))),
            ],
        ),
        (
            "one that is stale, and one that is lost",
            vec![
                in_state("stale", node("a", items(0..10), json!(0.1))),
                in_state("node-lost", node("b", items(10..25), json!(0.7))),
                node("c", json!([]), json!(0.2)),
            ],
        ),
        (
            "of some nodes one thing alone is known",
            vec![
                one("a", 0, items(0..9)),
                one("b", 1, json!(3)),
                one("c", 2, json!(1.5)),
                node("d", items(9..12), json!(1)),
            ],
        ),
        ("no items", vec![node("a", json!([]), json!(1))]),
    ]
}

fn any_case() -> impl Strategy<Value = Vec<NodeCase>> {
    let items =
        hash_set(0..60u32, 0..40).prop_map(|all| json!(all.iter().map(u32::to_string).collect::<Vec<_>>()));
    let capability = prop_oneof![
        Just(json!(0)),
        Just(json!(0.1)),
        (1..5u32).prop_map(|value| json!(value)),
        (0.0..1e3f64).prop_map(|value| json!({ "value": value })),
    ];
    let any_node = (items, option::of(0..9u32), option::of(capability), 0..STATES.len());
    vec(any_node, 1..7).prop_map(|nodes| {
        let mut case: Vec<NodeCase> = (nodes.into_iter().enumerate())
            .map(|(i, (items, load, capability, state))| NodeCase {
                name: format!("n{i}"),
                values: [Some(items), load.map(|load| json!(load)), capability],
                state: STATES[state],
            })
            .collect();
        // One is needed that can be relied on.
        case.push(node("there", json!(["a"]), json!(2)));
        case
    })
}

#[test]
fn a_program_in_python_divides_as_the_scheduler_does() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let services = Estimand::builder(binary()).args(["up", "--no-agent", "--defaults", "none"]).start();
    let (http, server) = (services.http(), services.base_url());
    let check = |what: &str, case: &[NodeCase]| {
        write(&http, case);
        let (python, rust) = (in_python(server), in_rust(server));
        assert_eq!(python, rust, "{what}");
    };
    for (what, case) in by_hand() {
        check(what, &case);
    }
    let mut runner = TestRunner::deterministic();
    for i in 0..GENERATED {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        check(&format!("the generated case {i}"), &case);
    }
}

#[test]
fn the_program_is_short_and_needs_nothing_but_requests() {
    let text = include_str!("../../python/split.py");
    assert!(text.lines().count() <= 60);
    let imported =
        text.lines().filter_map(|line| line.strip_prefix("import ").or(line.strip_prefix("from ")));
    let imported: Vec<&str> = imported.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(imported, ["json", "sys", "fractions", "requests"]);
}
