//! The order to a keeper: the program and everything around it, as its agent found and allowed it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use estimand_api::names::NodeName;
use estimand_api::task::{PORT_VARIABLE, TaskAssignment, TaskWork};
use estimand_exec::{CgroupMode, Limits, Privileges};
use serde::{Deserialize, Serialize};

use super::folder::AttemptFolder;
use crate::allow::{Allow, SEARCH_PATH};
use crate::allow_env::AllowEnv;
use crate::containers::{ContainerOrder, ContainerTerms, FOLDER_VARIABLE, Place};
use crate::runners::Runner;

/// Variables of this beginning tell a task about itself, and nothing else reads them.
const OWN_VARIABLES: &str = "ESTIMAND_TASK_";
/// A task may well be a whole program with its helpers; this only holds up a fork bomb.
pub const MAX_PROCESSES: u64 = 16_384;
/// A longer order goes by way of the folder: the agent waits for no keeper that does not read.
const MAX_LINE: usize = 4096;
/// How much of a log that was not delivered is kept on disk.
pub const LOG_BYTES: u64 = 64 << 20;

/// The order of a keeper for all of its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeeperOrder {
    pub launcher: LauncherOrder,
    /// The pipe that wakes the agent.
    pub news: PathBuf,
    /// The limit of a process's open files; an agent's own is higher.
    pub open_files: Option<u64>,
}

/// The line with which a keeper gets an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptLine {
    pub folder: PathBuf,
    /// None: it is in the folder.
    pub order: Option<Order>,
}

/// The order for one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// The file with the lease and the lease's number, if it is leased.
    pub lease: Option<(PathBuf, u64)>,
    /// The most of its log that is kept before it is delivered.
    pub log_bytes: u64,
    /// The container that the attempt has, or may have had.
    #[serde(default)]
    pub container: Option<Place>,
    /// None: there is nothing to start any more, only to clear away.
    pub run: Option<RunOrder>,
}

/// The work that is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunOrder {
    Process(ProcessOrder),
    Container(Box<ContainerOrder>),
}

impl RunOrder {
    /// Tells it at which port it is to listen.
    pub fn give_port(&mut self, port: u16) {
        let env = match self {
            RunOrder::Process(order) => &mut order.env,
            RunOrder::Container(order) => &mut order.env,
        };
        env.push((PORT_VARIABLE.to_owned(), port.to_string()));
    }
}

/// How a keeper has a launcher of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LauncherOrder {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Names the agent.
    pub agent: String,
    pub cgroups: CgroupMode,
    pub privileges: Privileges,
}

/// The program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessOrder {
    pub program: PathBuf,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub dir: PathBuf,
    pub timeout_ms: Option<u64>,
    pub limits: Limits,
}

/// The limits of tasks that say nothing of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskDefaults {
    /// Bytes; none: no bound.
    pub memory: Option<u64>,
    /// With their threads; none: [`MAX_PROCESSES`].
    pub processes: Option<u64>,
}

/// The rights and means that an agent gives its tasks.
#[derive(Debug)]
pub struct Terms {
    pub allow: Allow,
    pub allow_env: AllowEnv,
    pub node: NodeName,
    /// The limits of those that say nothing of them.
    pub defaults: TaskDefaults,
    /// None: no containers run here.
    pub containers: Option<ContainerTerms>,
}

impl Terms {
    /// The program or container of a task, or why it does not run here. It runs as this user, if not as the agent.
    pub fn run_order(
        &self,
        assignment: &TaskAssignment,
        runner: Option<&Runner>,
        folder: &AttemptFolder,
        server: &str,
    ) -> Result<RunOrder, String> {
        let work = assignment.work.supported().map_err(|reason| {
            format!("the agent on this node does not know all that the task asks for: {reason}")
        })?;
        if let Some(dir) = work.directory.as_ref().filter(|dir| !dir.starts_with('/')) {
            return Err(format!("its directory `{dir}` is not an absolute path"));
        }
        match (&work.image, &self.containers) {
            (Some(image), Some(containers)) => {
                let limits = self.limits(work);
                let mut order = containers.order(assignment, work, image, (&self.node, server), &limits)?;
                order.user = runner.map(|runner| runner.identity.clone());
                if work.has_files() {
                    order.give_task_folder(&folder.work())?;
                }
                Ok(RunOrder::Container(Box::new(order)))
            }
            (Some(image), None) => Err(format!(
                "it is to run in a container of `{image}`, and the agent on this node runs none; `--docker` lets it"
            )),
            (None, _) => Ok(RunOrder::Process(self.process(assignment, work, runner, folder, server)?)),
        }
    }

    fn process(
        &self,
        assignment: &TaskAssignment,
        work: &TaskWork,
        runner: Option<&Runner>,
        folder: &AttemptFolder,
        server: &str,
    ) -> Result<ProcessOrder, String> {
        if !work.volumes.is_empty() {
            return Err("it has volumes, which only a container has; a process finds the node's own folders"
                .to_owned());
        }
        let word = work.command.first().ok_or("it has no command")?;
        let given = work.environment.keys().map(String::as_str);
        self.allow_env
            .check(word, given.filter(|name| !name.starts_with(OWN_VARIABLES)))
            .map_err(|error| error.to_string())?;
        let program = self.allow.resolve(word).map_err(|error| error.to_string())?;
        let mut env = self.variables(assignment, runner, &work.environment, folder, server);
        if work.has_files() {
            env.push((FOLDER_VARIABLE.to_owned(), folder.work().display().to_string()));
        }
        Ok(ProcessOrder {
            program,
            argv: work.command.clone(),
            env,
            dir: work.directory.as_ref().map_or_else(|| folder.work(), PathBuf::from),
            timeout_ms: work.timeout_ms,
            limits: self.limits(work),
        })
    }

    fn limits(&self, work: &TaskWork) -> Limits {
        Limits {
            memory: work.memory.or(self.defaults.memory),
            cpu: work.cpu.map(|thousandths| thousandths as f64 / 1e3),
            processes: Some(self.defaults.processes.unwrap_or(MAX_PROCESSES)),
            open_files: None,
        }
    }

    /// `PATH`, `LANG`, `HOME` and `TMPDIR` (its own folder), `USER` and `LOGNAME`, `ESTIMAND_SERVER` (where values are
    /// read), `ESTIMAND_NODE`, `ESTIMAND_TASK_ID`, `ESTIMAND_TASK_ATTEMPT`; last what the task gives.
    fn variables(
        &self,
        assignment: &TaskAssignment,
        runner: Option<&Runner>,
        given: &BTreeMap<String, String>,
        folder: &AttemptFolder,
        server: &str,
    ) -> Vec<(String, String)> {
        let work = folder.work().display().to_string();
        let mut all: BTreeMap<&str, String> = BTreeMap::from([
            ("PATH", SEARCH_PATH.to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("HOME", work.clone()),
            ("TMPDIR", work),
            ("ESTIMAND_SERVER", server.trim_end_matches('/').to_owned()),
            ("ESTIMAND_NODE", self.node.to_string()),
            ("ESTIMAND_TASK_ID", assignment.id.clone()),
            ("ESTIMAND_TASK_ATTEMPT", assignment.attempt.to_string()),
        ]);
        if let Some(user) = runner.and_then(|runner| runner.name.as_ref()) {
            all.extend(["USER", "LOGNAME"].map(|name| (name, user.clone())));
        }
        all.extend(given.iter().map(|(name, value)| (name.as_str(), value.clone())));
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl AttemptLine {
    /// The line, after the order was written to the folder if it is too long, or if it names a container, which the next
    /// keeper may have to remove.
    pub fn written(folder: &AttemptFolder, order: Order) -> io::Result<Vec<u8>> {
        let path = folder.path().to_owned();
        let is_lasting = order.container.is_some();
        let mut line = AttemptLine { folder: path.clone(), order: Some(order) };
        let mut text = serde_json::to_vec(&line)?;
        if is_lasting || text.len() >= MAX_LINE {
            folder.write_order(&line.order)?;
            line = AttemptLine { folder: path, order: None };
            text = serde_json::to_vec(&line)?;
        }
        text.push(b'\n');
        Ok(text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use estimand_api::task::TaskVolume;
    use estimand_exec::Identity;

    use super::*;

    fn terms(allow: Allow) -> Terms {
        let node = NodeName::parse("n1").unwrap();
        Terms {
            allow,
            allow_env: AllowEnv::Names(Vec::new()),
            node,
            defaults: TaskDefaults::default(),
            containers: None,
        }
    }

    fn runner() -> Runner {
        Runner { identity: Identity { uid: 7, gid: 8, groups: Vec::new() }, name: Some("u".into()) }
    }

    fn order(terms: &Terms, work: TaskWork) -> Result<ProcessOrder, String> {
        let assignment = TaskAssignment {
            id: "t".into(),
            attempt: 2,
            user: None,
            leased: false,
            lease_ms: None,
            stop: false,
            checkpoint: false,
            end: None,
            work: work.into(),
        };
        let folder = AttemptFolder::new(Path::new("/data/tasks"), "t", 2);
        match terms.run_order(&assignment, Some(&runner()), &folder, "http://h:1/")? {
            RunOrder::Process(order) => Ok(order),
            RunOrder::Container(order) => Err(format!("{order:?}")),
        }
    }

    fn command(words: &[&str]) -> TaskWork {
        TaskWork { command: words.iter().map(|word| (*word).to_owned()).collect(), ..TaskWork::default() }
    }

    #[test]
    fn a_task_finds_what_is_documented_and_nothing_else() {
        let given = [("LANG", "de"), ("ESTIMAND_TASK_INDEX", "7")];
        let environment = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let work =
            TaskWork { environment, cpu: Some(1500), memory: Some(9), ..command(&["/bin/sh", "-c", "x"]) };
        let order = order(&terms(Allow::Everything), work).unwrap();
        assert_eq!((order.limits.cpu, order.limits.memory), (Some(1.5), Some(9)));
        assert_eq!(order.dir, Path::new("/data/tasks/t.2/work"));
        let shown: Vec<String> = order.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [
                "ESTIMAND_NODE=n1",
                "ESTIMAND_SERVER=http://h:1",
                "ESTIMAND_TASK_ATTEMPT=2",
                "ESTIMAND_TASK_ID=t",
                "ESTIMAND_TASK_INDEX=7",
                "HOME=/data/tasks/t.2/work",
                "LANG=de",
                "LOGNAME=u",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "TMPDIR=/data/tasks/t.2/work",
                "USER=u",
            ]
        );
    }

    #[test]
    fn an_order_is_in_the_line_or_in_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "t", 2);
        std::fs::create_dir(folder.path()).unwrap();
        for (length, is_in_line) in [(10, true), (MAX_LINE, false)] {
            let environment = [("LANG".to_owned(), "x".repeat(length))].into();
            let run =
                order(&terms(Allow::Everything), TaskWork { environment, ..command(&["/bin/sh"]) }).unwrap();
            let order =
                Order { lease: None, log_bytes: 1, container: None, run: Some(RunOrder::Process(run)) };
            let text = AttemptLine::written(&folder, order.clone()).unwrap();
            assert!(text.ends_with(b"\n") && text.len() <= MAX_LINE);
            let line: AttemptLine = serde_json::from_slice(&text).unwrap();
            assert_eq!((line.folder.as_path(), line.order.is_some()), (folder.path(), is_in_line));
            assert_eq!(line.order.or(folder.order().unwrap()), Some(order));
        }
    }

    #[test]
    fn what_is_not_allowed_or_not_here_is_refused_with_the_reason() {
        let check = |terms: &Terms, work: TaskWork, part: &str| {
            let reason = order(terms, work).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        };
        let (all, none) = (terms(Allow::Everything), terms(Allow::Folders(Vec::new())));
        check(&none, command(&["/bin/sh"]), "allows nothing");
        check(&all, command(&["/no/such"]), "there is no `/no/such` on this node");
        check(&all, command(&[]), "has no command");
        check(&all, TaskWork { image: Some("i".into()), ..command(&[]) }, "a container of `i`");
        let volume = TaskVolume { source: "/a".into(), target: "/b".into(), read_only: false };
        check(&all, TaskWork { volumes: vec![volume], ..command(&["/bin/sh"]) }, "volumes");
        check(&all, TaskWork { directory: Some("x".into()), ..command(&["/bin/sh"]) }, "absolute path");
        let environment = [("LD_PRELOAD".to_owned(), "x".to_owned())].into();
        check(&all, TaskWork { environment, ..command(&["/bin/sh"]) }, "`--allow-env LD_PRELOAD`");
        let unknown: TaskAssignment = serde_json::from_str(
            r#"{"id": "t", "attempt": 1, "work": {"command": ["/bin/sh"], "sandbox": 1}}"#,
        )
        .unwrap();
        let folder = AttemptFolder::new(Path::new("/data"), "t", 1);
        let reason = all.run_order(&unknown, None, &folder, "").unwrap_err();
        assert!(reason.contains("does not know all") && reason.contains("sandbox"), "{reason}");
    }
}
