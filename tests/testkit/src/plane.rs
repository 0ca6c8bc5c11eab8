//! Registry, data service and manager as their users see them: the public interface, and waiting for an answer.

mod services;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::{Http, Response};
use crate::process::Estimand;
use crate::wait::{self, PATIENCE};

pub use services::{Apart, Together, local, up};

/// Where the services are; the same address three times, or not.
pub struct Plane {
    pub registry: Http,
    pub data: Http,
    pub manager: Http,
}

impl Plane {
    pub fn at(registry: &str, data: &str, manager: &str) -> Self {
        Plane { registry: Http::new(registry), data: Http::new(data), manager: Http::new(manager) }
    }

    /// All of them in one process.
    pub fn of(services: &Estimand) -> Self {
        let base = services.base_url();
        Plane::at(base, base, base)
    }

    #[track_caller]
    pub fn register(&self, registration: &Value) {
        self.registry.send_json("POST", "/api/registry", registration).expect_status(201);
    }

    #[track_caller]
    pub fn replace(&self, registration: &Value) {
        self.registry.send_json("PUT", "/api/registry", registration).expect_status(200);
    }

    #[track_caller]
    pub fn unregister(&self, name: &str) -> Response {
        self.registry.request("DELETE", &format!("/api/registry/{name}"), &[], b"").expect_status(204)
    }

    /// All registrations.
    #[track_caller]
    pub fn registrations(&self) -> Vec<Value> {
        array(get(&self.registry, "/api/registry")).expect("the registry answers")
    }

    pub fn values(&self, name: &str) -> Result<Vec<Value>, String> {
        array(get(&self.data, &format!("/api/data?dataName={name}")))
    }

    pub fn value(&self, name: &str, node: &str) -> Result<Value, String> {
        get(&self.data, &format!("/api/data/{name}/{node}"))
    }

    /// The numbers in a node's history, oldest first, with when they were collected.
    pub fn history(&self, name: &str, node: &str) -> Result<Vec<(u64, String)>, String> {
        let path = format!("/api/data/history?dataName={name}&dataNode={node}&limit=100000");
        let entry = |entry: Value| {
            let number = entry["dataValue"].as_u64().ok_or_else(|| format!("{entry} is no number"))?;
            Ok((number, text(&entry["collectedAt"])))
        };
        array(get(&self.data, &path))?.into_iter().map(entry).collect()
    }

    pub fn node(&self, node: &str) -> Result<Value, String> {
        get(&self.manager, &format!("/api/nodes/{node}"))
    }

    /// Waits until the manager has heard of a node.
    #[track_caller]
    pub fn until_known(&self, node: &str) {
        wait::until_ok(PATIENCE, &format!("{node} to be known"), || self.node(node).map(drop));
    }

    pub fn instances(&self) -> Result<Vec<Value>, String> {
        array(get(&self.manager, "/api/mng/instances"))
    }

    pub fn instance(&self, name: &str, node: &str) -> Result<Value, String> {
        let path = format!("/api/mng/instances?dataName={name}&dataNode={node}");
        array(get(&self.manager, &path))?.pop().ok_or_else(|| format!("no instance of {name} on {node}"))
    }

    /// The nodes where a registration belongs.
    pub fn nodes_of(&self, name: &str) -> Result<BTreeSet<String>, String> {
        let found = array(get(&self.manager, &format!("/api/mng/instances?dataName={name}")))?;
        let belongs = found.iter().filter(|instance| !instance["registered"].is_null());
        Ok(belongs.map(|instance| text(&instance["nodeName"])).collect())
    }

    pub fn remove_node(&self, node: &str) -> Response {
        self.manager.request("DELETE", &format!("/api/nodes/{node}"), &[], b"")
    }

    /// Waits until the values of `name` that are fresh are those of exactly these nodes.
    #[track_caller]
    pub fn wait_fresh(&self, name: &str, nodes: &[&str]) {
        let expected: BTreeSet<_> = nodes.iter().map(|node| (*node).to_owned()).collect();
        wait::until_ok(PATIENCE, &format!("fresh values of {name} from {nodes:?}"), || {
            let values = self.values(name)?;
            let fresh = values.iter().filter(|value| value["state"] == "fresh");
            let found: BTreeSet<_> = fresh.map(|value| text(&value["nodeName"])).collect();
            if found == expected { Ok(()) } else { Err(format!("{values:?}")) }
        });
    }

    /// Waits until a value is as it should be, and returns it.
    #[track_caller]
    pub fn until_value(
        &self,
        name: &str,
        node: &str,
        what: &str,
        right: impl FnMut(&Value) -> bool,
    ) -> Value {
        until(&format!("`{name}` of {node} to be {what}"), || self.value(name, node), right)
    }

    /// Waits until an instance is as it should be, and returns it.
    #[track_caller]
    pub fn until_instance(
        &self,
        name: &str,
        node: &str,
        what: &str,
        right: impl FnMut(&Value) -> bool,
    ) -> Value {
        until(&format!("the instance of `{name}` on {node} {what}"), || self.instance(name, node), right)
    }

    /// Waits until a node is as it should be, and returns it.
    #[track_caller]
    pub fn until_node(&self, node: &str, what: &str, right: impl FnMut(&Value) -> bool) -> Value {
        until(&format!("the node {node} {what}"), || self.node(node), right)
    }

    #[track_caller]
    pub fn wait_value_state(&self, name: &str, node: &str, state: &str) {
        self.until_value(name, node, state, |value| value["state"] == state);
    }

    #[track_caller]
    pub fn wait_node_state(&self, node: &str, state: &str) {
        self.until_node(node, &format!("to be {state}"), |node| node["state"] == state);
    }

    /// Waits until a registration that runs once runs on one of `nodes`, which is returned.
    #[track_caller]
    pub fn wait_placed(&self, name: &str, nodes: &[&str]) -> String {
        wait::until_ok(PATIENCE, &format!("{name} to run on one of {nodes:?}"), || {
            let placed = self.nodes_of(name)?;
            let on = placed.iter().find(|on| nodes.contains(&on.as_str()) && placed.len() == 1);
            let Some(on) = on else { return Err(format!("it belongs on {placed:?}")) };
            let value = self.value(name, on)?;
            if value["state"] == "fresh" { Ok(on.clone()) } else { Err(value.to_string()) }
        })
    }

    /// Waits until the history reaches the number `upto`; it must hold each number from its first on, once, in order
    /// of when they were collected.
    #[track_caller]
    pub fn check_history(&self, name: &str, node: &str, upto: u64) {
        let what = format!("the history of {name} on {node} to reach {upto}");
        let history = wait::until_ok(PATIENCE, &what, || {
            let history = self.history(name, node)?;
            match history.last() {
                Some((last, _)) if *last >= upto => Ok(history),
                last => Err(format!("it ends with {last:?}")),
            }
        });
        let numbers: Vec<u64> = history.iter().map(|(number, _)| *number).collect();
        let first = numbers[0];
        assert!(first <= 2, "{name} on {node} was kept from {first} on only");
        let expected: Vec<u64> = (first..first + numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "{name} on {node}");
        assert!(history.is_sorted_by_key(|(_, at)| at.clone()), "{name} on {node}: {history:?}");
    }

    /// The number that came last.
    #[track_caller]
    pub fn last_number(&self, name: &str, node: &str) -> u64 {
        self.history(name, node).expect("the history is served").last().map_or(0, |(number, _)| *number)
    }
}

/// Writes a value of the node `n`.
#[track_caller]
pub fn put(data: &Http, name: &str, value: impl Into<Value>) -> Response {
    let write = json!({ "dataName": name, "nodeName": "n", "dataValue": value.into() });
    data.send_json("PUT", "/api/data", &write)
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

#[track_caller]
fn until(
    what: &str,
    mut look: impl FnMut() -> Result<Value, String>,
    mut right: impl FnMut(&Value) -> bool,
) -> Value {
    wait::until_ok(PATIENCE, what, || {
        let found = look()?;
        if right(&found) { Ok(found) } else { Err(found.to_string()) }
    })
}

fn get(http: &Http, path: &str) -> Result<Value, String> {
    let answer = http.try_request("GET", path, &[], b"").map_err(|error| error.to_string())?;
    if answer.status == 200 { Ok(answer.json()) } else { Err(answer.to_string()) }
}

fn array(found: Result<Value, String>) -> Result<Vec<Value>, String> {
    match found? {
        Value::Array(items) => Ok(items),
        other => Err(format!("{other} is no array")),
    }
}
