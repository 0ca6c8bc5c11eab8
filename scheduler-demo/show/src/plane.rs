//! The demo's registrations and bindings, through the public interface, and its waits for their values.
//!
//! The three estimators are the ones that ship in the box. The demo chooses their inputs: the machine's processors for
//! the first, the node's part of them for the second, the worker's log for the third.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::names::{DataName, NameError};
use estimand_api::value::{BindingTarget, State, Value};
use estimand_client::{Client, Query};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use crate::Error;

/// Period of the collectors, in seconds.
const EVERY: f64 = 1.0;
const LOG_EVERY: f64 = 0.5;
/// The images of a node do not change here.
const IMAGES_EVERY: f64 = 5.0;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The names that a scheduler reads.
pub const CAPABILITY: &str = "node_capability";
const DISTRIBUTION: &str = "data_distribution";
const LOAD: &str = "data_load";
const RUN_LOG: &str = "run_log";

/// The node that is overestimated, and the factor.
pub const MISJUDGED: (&str, f64) = ("node-2", 1.2);

/// The estimates that are bound in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    Configuration,
    Load,
    History,
    /// History, and wrong about one node.
    Mistaken,
}

impl Estimate {
    /// The name of its registration.
    pub fn name(self) -> &'static str {
        match self {
            Estimate::Configuration => "capability_config",
            Estimate::Load => "capability_cpu",
            Estimate::History => "capability_history",
            Estimate::Mistaken => "capability_mistaken",
        }
    }
}

/// Inputs of the registrations.
pub struct Sources<'a> {
    /// A folder that agents allow.
    pub scripts: &'a Path,
    pub distribution: Distribution,
    /// The folder with the free part of each node, if their load is not measured.
    pub free_folder: Option<&'a Path>,
    /// The workers' logs, with `{node}` for the node.
    pub log: &'a str,
}

/// The source of the distribution of images.
pub enum Distribution {
    /// A folder with a folder for each node.
    Folders(PathBuf),
    /// The parameters of the collector `hdfs`.
    Hdfs(Json),
}

/// The plane, by its public interface.
pub struct Plane {
    client: Client,
    nodes: usize,
}

impl Plane {
    pub fn new(client: Client, nodes: usize) -> Plane {
        Plane { client, nodes }
    }

    /// Registers everything, and binds the name that never changes.
    pub async fn register(&self, sources: &Sources<'_>) -> Result<(), Error> {
        for registration in registrations(sources).map_err(|cause| Error::file(sources.scripts, cause))? {
            let Json::Object(map) = registration else { continue };
            self.client.register_map(map).await?;
        }
        let distribution = match sources.distribution {
            Distribution::Folders(_) => "images_here",
            Distribution::Hdfs(_) => "hdfs_images",
        };
        self.bind(DISTRIBUTION, distribution).await
    }

    /// The one call by which an estimator is swapped.
    pub async fn bind(&self, name: &str, to: &str) -> Result<(), Error> {
        let served = BindingTarget { to: parse(to)?, field: None };
        self.client.bind(&parse(name)?, &served, None, false).await?;
        Ok(())
    }

    /// Waits until each node has its images, its load and its configuration.
    pub async fn wait_for_first_values(&self) -> Result<(), Error> {
        let names = [DISTRIBUTION, LOAD, Estimate::Configuration.name()];
        for name in names {
            self.until(name, &format!("`{name}` of each node"), |_| true).await?;
        }
        Ok(())
    }

    /// Waits until the estimate by load was measured after a moment.
    pub async fn wait_for_load_after(&self, then: DateTime<Utc>) -> Result<(), Error> {
        // It covers the time between two collections. The first must come after the load that was made up for after the run.
        let since = then + chrono::Duration::milliseconds(((1.0 + EVERY) * 1000.0) as i64);
        let name = Estimate::Load.name();
        let is_after = |value: &Value| value.state == State::Fresh && value.collected_at >= since;
        self.until(name, "the load of each node after the last run", is_after).await
    }

    /// Waits until the estimate by history includes a job on each node.
    pub async fn wait_for_history_of(&self, job: &str) -> Result<(), Error> {
        let is_of =
            |value: &Value| value.data_value.pointer("/matched/job").and_then(Json::as_str) == Some(job);
        let logs = self.until_values(RUN_LOG, &format!("the log of {job} on each node"), is_of).await?;
        let fps = |value: &Value| {
            let log = logs.iter().find(|log| log.node_name == value.node_name);
            log.and_then(|log| log.data_value.pointer("/matched/fps")?.as_f64())
        };
        for name in [Estimate::History, Estimate::Mistaken].map(Estimate::name) {
            let knows = |value: &Value| {
                let factor =
                    match value.node_name.as_str() == MISJUDGED.0 && name == Estimate::Mistaken.name() {
                        true => MISJUDGED.1,
                        false => 1.0,
                    };
                let estimate = value.data_value.get("value").and_then(Json::as_f64);
                estimate.zip(fps(value)).is_some_and(|(estimate, fps)| (estimate - fps * factor).abs() < 1e-6)
            };
            self.until(name, &format!("`{name}` after {job}"), knows).await?;
        }
        Ok(())
    }

    async fn until(&self, name: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<(), Error> {
        self.until_values(name, what, is_it).await.map(drop)
    }

    /// Waits until there is such a value of each node.
    async fn until_values(
        &self,
        name: &str,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, Error> {
        let (query, deadline) = (Query::of(parse(name)?), Instant::now() + PATIENCE);
        loop {
            let (values, _) = self.client.values(&query).await?;
            if values.iter().filter(|value| is_it(value)).count() == self.nodes {
                return Ok(values);
            }
            if Instant::now() >= deadline {
                let instances = self.client.instances(query.names.first(), None).await?;
                let why = instances.iter().find_map(|instance| instance.trouble());
                let seen: Vec<String> =
                    values.iter().map(|value| format!("{}: {}", value.node_name, value.data_value)).collect();
                let last = why
                    .unwrap_or_else(|| if seen.is_empty() { "nothing".to_owned() } else { seen.join("; ") });
                return Err(Error::TimedOut { what: what.to_owned(), last });
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

fn parse(name: &str) -> Result<DataName, NameError> {
    DataName::parse(name)
}

fn script(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = folder.join(name);
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path.display().to_string())
}

/// As they are posted.
fn registrations(sources: &Sources<'_>) -> io::Result<Vec<Json>> {
    let mut all = Vec::new();
    match &sources.distribution {
        Distribution::Folders(nodes) => {
            let cmd = script(sources.scripts, "images_here", include_str!("../scripts/images_here.sh"))?;
            let params = json!({ "nodes": nodes });
            all.push(json!({ "dataName": "images_here", "cmd": [cmd], "format": "json", "params": params, "max-Time": IMAGES_EVERY }));
            all.push(expression(LOAD, "images_here", "size(images_here)"));
        }
        Distribution::Hdfs(params) => {
            all.push(json!({
                "dataName": "hdfs_images", "mode": "builtin", "cmd": "hdfs", "params": params, "replicas": 1,
                "max-Time": IMAGES_EVERY,
            }));
            all.push(expression(LOAD, "hdfs_images", "hdfs_images.primaryFiles"));
        }
    }
    all.push(builtin("cpu", "cpu", &json!({}), EVERY));
    match sources.free_folder {
        // The collector of groups under another name: the first estimate is to see processors alone.
        None => {
            all.push(builtin("node_slice", "cgroup", &json!({}), EVERY));
            let free = r#"{"freeFraction": clamp(1 - node_slice.usageCores / node_slice.cpuLimit, 0, 1)}"#;
            all.push(expression("node_cpu", "node_slice", free));
        }
        Some(folder) => {
            let cmd = script(sources.scripts, "node_cpu", include_str!("../scripts/node_cpu.sh"))?;
            let params = json!({ "pace": folder });
            all.push(json!({ "dataName": "node_cpu", "cmd": [cmd], "format": "json", "params": params, "max-Time": EVERY }));
        }
    }
    let pattern = r"job=(?<job>\S+) .*avg_fps=(?<fps>[0-9.]+)";
    all.push(builtin(RUN_LOG, "log_tail", &json!({ "path": sources.log, "pattern": pattern }), LOG_EVERY));
    all.push(estimator(Estimate::Configuration, "cpu", &json!({})));
    all.push(estimator(Estimate::Load, "node_cpu", &json!({ "cpu": "node_cpu" })));
    all.push(estimator(Estimate::History, RUN_LOG, &json!({})));
    let (node, factor) = MISJUDGED;
    let history = Estimate::History.name();
    let mistaken = format!(
        r#"{{"value": {history}.value * (node() == "{node}" ? {factor} : 1), "spread": 0, "samples": 1}}"#
    );
    all.push(expression(Estimate::Mistaken.name(), history, &mistaken));
    Ok(all)
}

fn builtin(name: &str, collector: &str, params: &Json, every: f64) -> Json {
    json!({ "dataName": name, "mode": "builtin", "cmd": collector, "params": params, "max-Time": every })
}

fn estimator(estimate: Estimate, input: &str, params: &Json) -> Json {
    json!({
        "dataName": estimate.name(), "kind": "processor", "mode": "builtin", "cmd": estimate.name(), "inputs": [input],
        "params": params, "replicas": "all", "max-Time": EVERY,
    })
}

fn expression(name: &str, input: &str, text: &str) -> Json {
    json!({
        "dataName": name, "kind": "processor", "mode": "expr", "cmd": text, "inputs": [input], "replicas": "all",
        "max-Time": EVERY,
    })
}
