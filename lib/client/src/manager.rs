//! Nodes and instances: the manager's part of the client, for people and for agents.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Client, Error, Repeat};
use estimand_api::labels::LabelChanges;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{DesiredState, Heartbeat, HeartbeatAnswer, Node};
use estimand_api::notice::{Placement, Termination};
use estimand_api::slot::{Instance, RunOutcome, RunReport};
use estimand_api::task::{NodeTasks, NodesTold};

/// The question of an agent for its desired state.
#[derive(Debug, Clone, Copy)]
pub struct DesiredQuery<'a> {
    pub node: &'a NodeName,
    pub agent: &'a str,
    pub boot: u64,
    /// The revision that it has already.
    pub revision: u64,
    /// How long the manager may take until there is something newer.
    pub wait: Duration,
}

impl Client {
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        let answer = self.get(self.url(&["api", "nodes"], &[])).await?;
        self.read(&answer)
    }

    pub async fn node(&self, node: &NodeName) -> Result<Node, Error> {
        let answer = self.get(self.url(&["api", "nodes", node.as_str()], &[])).await?;
        self.read(&answer)
    }

    /// Forgets a lost node and deletes its values; 409 while its agent is heard of.
    pub async fn remove_node(&self, node: &NodeName) -> Result<(), Error> {
        let url = self.url(&["api", "nodes", node.as_str()], &[]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }

    /// Changes the labels that operators have set on a node.
    pub async fn label(&self, node: &NodeName, changes: &LabelChanges) -> Result<Node, Error> {
        let url = self.url(&["api", "nodes", node.as_str(), "labels"], &[]);
        let body = Bytes::from(changes.to_json().to_string());
        let answer = self.send(Method::PATCH, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Keeps further instances away from a node, or lets them come again.
    pub async fn cordon(&self, node: &NodeName, cordoned: bool) -> Result<Node, Error> {
        let url = self.url(&["api", "nodes", node.as_str(), "cordon"], &[]);
        let method = if cordoned { Method::PUT } else { Method::DELETE };
        let answer = self.send(method, url, None, Repeat::Safe).await?;
        self.read(&answer)
    }

    /// The instances; all of them, or those of a data name, or of a node.
    pub async fn instances(
        &self,
        name: Option<&DataName>,
        node: Option<&NodeName>,
    ) -> Result<Vec<Instance>, Error> {
        let mut query: Vec<(&str, &str)> = Vec::new();
        query.extend(name.map(|name| ("dataName", name.as_str())));
        query.extend(node.map(|node| ("dataNode", node.as_str())));
        let answer = self.get(self.url(&["api", "mng", "instances"], &query)).await?;
        self.read(&answer)
    }

    /// Runs a registration once on a node, now, and waits for the outcome.
    pub async fn run_by_hand(&self, name: &DataName, node: &NodeName) -> Result<RunReport, Error> {
        let url = self.url(&["api", "mng", "instances", name.as_str(), node.as_str(), "run"], &[]);
        let answer = self.send(Method::POST, url, None, Repeat::OnlyIfNotTaken).await?;
        self.read(&answer)
    }

    /// Runs a registration once on a node that need not be registered, and waits for the outcome.
    pub async fn try_registration(
        &self,
        registration: &Map<String, Value>,
        node: &NodeName,
    ) -> Result<RunReport, Error> {
        let url = self.url(&["api", "mng", "nodes", node.as_str(), "try"], &[]);
        let body = Bytes::from(Value::Object(registration.clone()).to_string());
        let answer = self.send(Method::POST, url, Some(body), Repeat::OnlyIfNotTaken).await?;
        self.read(&answer)
    }

    /// Tells the manager that a registration is new or changed.
    pub async fn tell_manager(&self, registration: &Map<String, Value>) -> Result<Placement, Error> {
        let answer = self.post(&["api", "mng"], registration).await?;
        self.read(&answer)
    }

    /// Tells the manager that a registration is gone; the answer comes when its slots are.
    pub async fn tell_manager_gone(&self, name: &DataName) -> Result<Termination, Error> {
        let url = self.url(&["api", "mng", name.as_str()], &[]);
        let answer = self.send(Method::DELETE, url, None, Repeat::Safe).await?;
        self.read(&answer)
    }

    /// An agent's request for its desired state; none if it has the latest already.
    pub async fn desired(&self, query: DesiredQuery<'_>) -> Result<Option<DesiredState>, Error> {
        let DesiredQuery { node, agent, boot, revision, wait } = query;
        let (boot, revision, wait) = (boot.to_string(), revision.to_string(), wait.as_millis().to_string());
        let query = [("agent", agent), ("boot", &boot), ("revision", &revision), ("waitMs", &wait)];
        let answer = self.get(self.url(&["api", "nodes", node.as_str(), "slots"], &query)).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(None),
            _ => self.read(&answer).map(Some),
        }
    }

    pub async fn heartbeat(&self, node: &NodeName, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
        let answer = self.post(&["api", "nodes", node.as_str(), "heartbeat"], heartbeat).await?;
        self.read(&answer)
    }

    /// An agent's answer to a [`RunRequest`](estimand_api::node::RunRequest).
    pub async fn report_run(&self, node: &NodeName, id: u64, outcome: &RunOutcome) -> Result<(), Error> {
        let id = id.to_string();
        self.post(&["api", "nodes", node.as_str(), "runs", &id], outcome).await.map(drop)
    }

    /// Tells the manager all tasks that belong on a node; 404 if it does not know the node.
    pub async fn tell_tasks(&self, node: &NodeName, tasks: &NodeTasks) -> Result<NodesTold, Error> {
        let url = self.url(&["api", "mng", "nodes", node.as_str(), "tasks"], &[]);
        let body = serde_json::to_vec(tasks)
            .map_err(|e| Error::Unexpected { url: url.to_string(), cause: e.to_string() })?;
        let answer = self.send(Method::PUT, url, Some(Bytes::from(body)), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// The nodes whose tasks the manager was told since it leads.
    pub async fn nodes_told(&self) -> Result<NodesTold, Error> {
        let answer = self.get(self.url(&["api", "mng", "nodes", "tasks"], &[])).await?;
        self.read(&answer)
    }

    /// Sends a request that is safe to repeat.
    async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<crate::Answer, Error> {
        let url = self.url(path, &[]);
        let body = serde_json::to_vec(body)
            .map_err(|e| Error::Unexpected { url: url.to_string(), cause: e.to_string() })?;
        self.send(Method::POST, url, Some(Bytes::from(body)), Repeat::Safe).await
    }
}
