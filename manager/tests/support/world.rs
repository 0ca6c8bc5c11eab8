//! The services that a manager speaks to: a registry whose content a test sets, and a data service that
//! writes down the requests that it gets. Each can be made to answer nothing but 503.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_testkit::wait;
use estimand_web::{Body, Failure, Query, Role, Routes};
use serde_json::{Value, json};

use super::{ANY_PORT, PATIENCE, Serving};

/// A registration as a registry gives it.
pub fn registration(name: &str, version: u64, more: &Value) -> Value {
    let at = "2026-01-31T23:59:59.000001Z";
    let mut body = json!({
        "dataName": name, "cmd": "cat /proc/loadavg", "max-Time": 5,
        "version": version, "createdAt": at, "updatedAt": at,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub struct World {
    pub serving: Serving,
    state: Shared,
}

type Shared = Arc<Mutex<State>>;

#[derive(Default)]
struct State {
    registry_away: bool,
    data_away: bool,
    registrations: Vec<Value>,
    /// Announcements of what runs where wait, and are refused as soon as this is false again.
    holds_producers: bool,
    /// How often it was told what runs where.
    producers: u64,
    reads: u64,
    marks: Vec<(String, String)>,
    values: BTreeSet<(String, String)>,
    label_values: Vec<Value>,
    labels: Value,
}

impl World {
    pub fn start() -> Self {
        let state = Shared::default();
        let shared = Arc::clone(&state);
        let serving = Serving::start(ANY_PORT, |_, _, _| {
            Routes::new("world")
                .add(Role::Read, registrations, __path_registrations)
                .add(Role::Operate, mark, __path_mark)
                .add(Role::Read, values, __path_values)
                .add(Role::Write, delete, __path_delete)
                .add(Role::Service, labels, __path_labels)
                .add(Role::Service, producers, __path_producers)
                .add(Role::Service, speakers, __path_speakers)
                .add(Role::Service, epochs, __path_epochs)
                .share(shared)
        });
        World { serving, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Replaces all that is registered.
    pub fn register(&self, all: &[Value]) {
        self.state().registrations = all.to_vec();
    }

    pub fn take_registry_away(&self, away: bool) {
        self.state().registry_away = away;
    }

    pub fn take_data_away(&self, away: bool) {
        self.state().data_away = away;
    }

    /// Lets the announcements of what runs where wait, and refuses them in the end.
    pub fn hold_producers(&self, hold: bool) {
        self.state().holds_producers = hold;
    }

    pub fn wait_for_producers(&self) {
        wait::until(PATIENCE, "what runs where to be announced", || {
            (self.state().producers > 0).then_some(())
        });
    }

    pub fn has(&self, name: &str, node: &str) {
        self.state().values.insert((name.to_owned(), node.to_owned()));
    }

    /// Gives nodes the values of `label:…` names.
    pub fn has_label_values(&self, all: &[(&str, &str, Value)]) {
        let at = "2026-01-31T23:59:59.000001Z";
        let value = |(name, node, value): &(&str, &str, Value)| {
            json!({
                "dataName": name, "nodeName": node, "dataValue": value, "collectedAt": at, "receivedAt": at,
                "validFor": null, "state": "fresh", "revision": 1,
            })
        };
        self.state().label_values = all.iter().map(value).collect();
    }

    /// The labels of all nodes, as the data service was told last.
    pub fn labels(&self) -> Value {
        self.state().labels.clone()
    }

    pub fn values(&self) -> Vec<(String, String)> {
        self.state().values.iter().cloned().collect()
    }

    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    pub fn wait_for_mark(&self, node: &str, state: &str) {
        let wanted = (node.to_owned(), state.to_owned());
        wait::until_ok(PATIENCE, "a node to be marked", || match self.state().marks.last() {
            Some(last) if *last == wanted => Ok(()),
            last => Err(format!("{last:?}")),
        });
    }
}

fn there(away: bool) -> Result<(), Problem> {
    if away { Err(Problem::unavailable("away", 1)) } else { Ok(()) }
}

#[utoipa::path(get, path = "/api/secrets", responses((status = 200)))]
async fn registrations(state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let mut state = state.lock().unwrap();
    state.reads += 1;
    there(state.registry_away)?;
    Ok(HttpResponse::Ok().json(&state.registrations))
}

#[utoipa::path(put, request_body = String, path = "/api/data/state", responses((status = 200)))]
async fn mark(body: Body<65_536>, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let mut state = state.lock().unwrap();
    there(state.data_away)?;
    let body: Value = serde_json::from_slice(&body.0).unwrap();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    state.marks.push((text("nodeName"), text("state")));
    Ok(HttpResponse::Ok().json(json!({ "changed": 1, "revision": 1 })))
}

#[utoipa::path(
    get,
    path = "/api/data",
    params(("dataName" = String, Query), ("dataNode" = String, Query)),
    responses((status = 200))
)]
async fn values(req: HttpRequest, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let state = state.lock().unwrap();
    there(state.data_away)?;
    let query = Query::parse(req.query_string(), &["dataName", "dataNode"])?;
    if query.get("dataName") == Some("label:*") {
        return Ok(HttpResponse::Ok().json(&state.label_values));
    }
    assert_eq!(query.get("dataName"), Some("*"));
    let of_node = state.values.iter().filter(|(_, node)| Some(node.as_str()) == query.get("dataNode"));
    let at = "2026-01-31T23:59:59.000001Z";
    let value = |(name, node): &(String, String)| {
        json!({
            "dataName": name, "nodeName": node, "dataValue": 1, "collectedAt": at, "receivedAt": at,
            "validFor": null, "state": "fresh", "revision": 1,
        })
    };
    Ok(HttpResponse::Ok().json(of_node.map(value).collect::<Vec<_>>()))
}

#[utoipa::path(put, request_body = String, path = "/api/data/labels", responses((status = 200)))]
async fn labels(body: Body<65_536>, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let mut state = state.lock().unwrap();
    there(state.data_away)?;
    state.labels = serde_json::from_slice(&body.0).unwrap();
    Ok(HttpResponse::Ok().finish())
}

#[utoipa::path(put, request_body = String, path = "/api/data/producers", responses((status = 200)))]
async fn producers(_body: Body<65_536>, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let held = |state: &Shared| state.lock().unwrap().holds_producers;
    state.lock().unwrap().producers += 1;
    let was_held = held(&state);
    while held(&state) {
        actix_web::rt::time::sleep(Duration::from_millis(5)).await;
    }
    there(was_held || state.lock().unwrap().data_away)?;
    Ok(HttpResponse::Ok().json(json!({ "dropped": 0, "revision": 1 })))
}

#[utoipa::path(put, request_body = String, path = "/api/data/speakers", responses((status = 200)))]
async fn speakers(_body: Body<65_536>, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    there(state.lock().unwrap().data_away)?;
    Ok(HttpResponse::Ok().finish())
}

#[utoipa::path(put, request_body = String, path = "/api/data/epochs", responses((status = 200)))]
async fn epochs(_body: Body<65_536>, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    there(state.lock().unwrap().data_away)?;
    Ok(HttpResponse::Ok().finish())
}

#[utoipa::path(
    delete,
    path = "/api/data",
    params(("dataName" = String, Query), ("dataNode" = String, Query)),
    responses((status = 200))
)]
async fn delete(req: HttpRequest, state: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    let mut state = state.lock().unwrap();
    there(state.data_away)?;
    let query = Query::parse(req.query_string(), &["dataName", "dataNode"])?;
    let key = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let gone = state.values.remove(&(key("dataName"), key("dataNode")));
    Ok(HttpResponse::Ok().json(json!({ "deleted": u8::from(gone), "revision": 1 })))
}
