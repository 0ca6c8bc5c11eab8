//! A job, and the messages between a scheduler and its workers: parts one way, progress the other.
//!
//! Owns the names of a job's data. The README of this crate defines the duties of a worker; nothing beyond them is
//! relied on here.

use std::collections::BTreeMap;
use std::time::Duration;

use estimand_api::command::Command;
use estimand_api::names::{DataName, NameError};
use estimand_api::selector::Selector;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Work to be done by one program on many nodes.
#[derive(Debug, Clone)]
pub struct Job {
    pub names: JobNames,
    /// The worker. Agents run it only if their operators allow that.
    pub command: Command,
    /// Parameters of every worker, passed as `ESTIMAND_PARAM_*`; `job` is added.
    pub params: BTreeMap<String, Value>,
    /// The groups of nodes on which workers run; one for all nodes if nothing differs between them.
    pub groups: Vec<Group>,
    /// Period in which a worker is asked for a line.
    pub every: Duration,
}

/// Nodes whose workers have the same parameters. No node belongs to two groups of a job: it would have two workers.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Distinguishes its data name from those of other groups; none: the plain name.
    pub suffix: Option<String>,
    pub nodes: Selector,
    /// Override the job's parameters, or add to them.
    pub params: BTreeMap<String, Value>,
}

/// The data names of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobNames {
    job: String,
    part: DataName,
    work: DataName,
}

impl JobNames {
    /// A job is named as data is; two ends are added, for which there has to be room.
    pub fn new(job: &str) -> Result<JobNames, NameError> {
        let of = |end: &str| DataName::parse(&format!("{job}.{end}"));
        Ok(JobNames { part: of("part")?, work: of("work")?, job: job.to_owned() })
    }

    pub fn job(&self) -> &str {
        &self.job
    }

    /// The data name of the part of each node.
    pub fn part(&self) -> &DataName {
        &self.part
    }

    /// The data name of the progress of each node.
    pub fn work(&self) -> &DataName {
        &self.work
    }

    /// The same of one group.
    pub fn work_of(&self, group: &Group) -> Result<DataName, NameError> {
        match &group.suffix {
            None => Ok(self.work.clone()),
            Some(suffix) => DataName::parse(&format!("{}.{suffix}", self.work)),
        }
    }
}

impl Job {
    /// A job on all nodes.
    pub fn new(names: JobNames, command: Command) -> Job {
        let every = Duration::from_secs(1);
        Job { names, command, params: BTreeMap::new(), groups: vec![Group::default()], every }
    }

    /// The registration by which agents run the workers of a group. `run` tells this one from others of its name.
    pub fn registration(&self, group: &Group, run: &str) -> Result<Map<String, Value>, NameError> {
        let mut params = self.params.clone();
        params.extend(group.params.clone());
        params.insert("job".to_owned(), self.names.job.clone().into());
        params.insert("run".to_owned(), run.into());
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
        put("dataName", self.names.work_of(group)?.as_str().into());
        put("cmd", serde_json::json!(self.command));
        put("max-Time", self.every.as_secs_f64().into());
        put("mode", "stream".into());
        put("format", "json".into());
        if !group.nodes.is_empty() {
            put("nodes", group.nodes.to_string().into());
        }
        put("params", params.into_iter().collect::<Map<_, _>>().into());
        Ok(map)
    }
}

/// The images of a node, in the order in which it does them, as written for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub images: Vec<String>,
    /// Grows with each version of a node's part.
    pub revision: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// It cannot work yet.
    Starting,
    /// Nothing of its part is left.
    Waiting,
    Working,
}

/// A worker's line of progress. Lines may be missed: only the latest value is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub activity: Activity,
    /// The version of its part that it follows; none if it has no part.
    pub revision: Option<u64>,
    /// How many of that version have a durable result.
    pub done: usize,
    pub of: usize,
    /// Images a second, lately.
    #[serde(default)]
    pub fps: f64,
    /// Done since the line before.
    #[serde(default)]
    pub images: Vec<String>,
    /// Done, but not in this version of the part.
    #[serde(default)]
    pub extra: Vec<String>,
    /// A problem with the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::registration::{Mode, Registration, Timing};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_a_registration_that_a_registry_takes() {
        let mut job = Job::new(JobNames::new("birds").unwrap(), Command::line("worker work").unwrap());
        job.params = BTreeMap::from([("model".to_owned(), json!("/m")), ("throttle".to_owned(), json!("1"))]);
        let slow = Group {
            suffix: Some("slow".to_owned()),
            nodes: "pace=slow".parse().unwrap(),
            params: BTreeMap::from([("throttle".to_owned(), json!("0.25"))]),
        };
        let read = |group: &Group| {
            let map = job.registration(group, "birds-7").unwrap();
            Registration::from_map(map).unwrap().registration
        };
        let (plain, slow) = (read(&job.groups[0]), read(&slow));
        assert_eq!(
            (plain.data_name.as_str(), plain.mode, plain.nodes.is_empty()),
            ("birds.work", Mode::Stream, true)
        );
        assert_eq!(plain.timing, Timing::Every(estimand_api::duration::Span::parse("1s").unwrap()));
        assert_eq!(
            (slow.data_name.as_str(), slow.nodes.to_string().as_str()),
            ("birds.work.slow", "pace=slow")
        );
        let told =
            |of: &Registration| ["job", "run", "model", "throttle"].map(|name| of.params[name].clone());
        assert_eq!(told(&plain), [json!("birds"), json!("birds-7"), json!("/m"), json!("1")]);
        assert_eq!(told(&slow), [json!("birds"), json!("birds-7"), json!("/m"), json!("0.25")]);
    }

    #[test]
    fn a_name_has_room_for_what_is_added() {
        assert!(JobNames::new(&"j".repeat(123)).is_ok());
        assert!(JobNames::new(&"j".repeat(124)).is_err());
        assert!(JobNames::new("a job").is_err());
    }

    #[test]
    fn a_line_of_the_worker_is_parsed() {
        let line = r#"{"job":"birds","activity":"starting","revision":null,"done":0,"of":0,"fps":0.0,"avgFps":0.0,
            "images":[],"extra":[],"leftOut":3}"#;
        let progress: Progress = serde_json::from_str(line).unwrap();
        assert_eq!((progress.activity, progress.revision), (Activity::Starting, None));
    }
}
