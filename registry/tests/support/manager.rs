//! A manager that records the messages it gets, and answers as it was made to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{Problem, kind};
use estimand_client::Client;
use estimand_registry::manager_options;
use estimand_serving::client_with;
use estimand_web::{Body, Failure, Role, Routes};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{ANY_PORT, Running, Serving};

/// How a manager answers.
#[derive(Debug, Clone)]
pub enum Conduct {
    /// It leads; these nodes confirm nothing.
    Leads(Vec<&'static str>),
    StandsBy,
    /// It leads, and answers only once it is let go.
    Holds,
    /// It leads, and the name has been registered again.
    Contradicts,
}

pub struct Manager {
    serving: Serving,
    shared: Shared,
}

#[derive(Clone)]
struct Shared {
    conduct: Conduct,
    /// The messages it got: the registration, or the name that is gone.
    told: Arc<Mutex<Vec<Value>>>,
    let_go: Arc<watch::Sender<bool>>,
}

#[utoipa::path(post, request_body = String, path = "/api/mng", responses((status = 200)))]
async fn changed(body: Body<65_536>, shared: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    shared.answer(serde_json::from_slice(&body.0).unwrap()).await
}

#[utoipa::path(delete, path = "/api/mng/{dataName}", params(("dataName" = String, Path)), responses((status = 200)))]
async fn gone(req: HttpRequest, shared: ThinData<Shared>) -> Result<HttpResponse, Failure> {
    shared.answer(json!(req.match_info().get("dataName"))).await
}

impl Shared {
    async fn answer(&self, told: Value) -> Result<HttpResponse, Failure> {
        let name = told.get("dataName").unwrap_or(&told).clone();
        self.told.lock().unwrap().push(told);
        let unreachable = match &self.conduct {
            Conduct::Leads(unreachable) => unreachable.clone(),
            Conduct::StandsBy => {
                let detail = "http://manager.example leads";
                return Err(Problem::new(503, kind::STANDING_BY, "Another one leads", detail).into());
            }
            Conduct::Holds => {
                self.let_go.subscribe().wait_for(|let_go| *let_go).await.unwrap();
                Vec::new()
            }
            Conduct::Contradicts => return Err(Problem::conflict("it is registered").into()),
        };
        Ok(HttpResponse::Ok().json(json!({
            "dataName": name, "nodes": [], "ended": [], "unreachable": unreachable,
        })))
    }
}

impl Manager {
    pub fn start(conduct: Conduct) -> Self {
        let shared = Shared { conduct, told: Arc::default(), let_go: Arc::new(watch::Sender::new(false)) };
        let given = shared.clone();
        let serving = Serving::start(ANY_PORT, |_, _, _| {
            Routes::new("manager")
                .add(Role::Operate, changed, __path_changed)
                .add(Role::Operate, gone, __path_gone)
                .share(given)
        });
        Manager { serving, shared }
    }

    pub fn client(&self) -> Client {
        client(self.serving.address)
    }

    pub fn told(&self) -> Vec<Value> {
        self.shared.told.lock().unwrap().clone()
    }

    /// Waits for a message that is as wished, and returns it.
    #[track_caller]
    pub fn wait_for(&self, what: &str, wished: impl Fn(&Value) -> bool) -> Value {
        estimand_testkit::wait::until(Duration::from_secs(60), what, || {
            self.told().into_iter().find(|told| wished(told))
        })
    }

    /// It answers from now on, also the requests from before.
    pub fn let_go(&self) {
        self.shared.let_go.send_replace(true);
    }

    pub fn stop(mut self) {
        self.let_go();
        self.serving.stop();
    }
}

pub fn client(address: SocketAddr) -> Client {
    client_with(address, manager_options())
}

impl Running {
    pub fn tells_managers(&self, managers: &[&Manager]) {
        self.registry.set_managers(managers.iter().map(|manager| manager.client()).collect());
    }
}
