//! The order of an agent to a keeper: the program or container and everything around it, as the agent found and allowed it
//! ([142](../../../docs/decisions/142-two-kinds-of-order.md)).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use estimand_api::names::NodeName;
use estimand_api::task::{PORT_VARIABLE, TaskAssignment, TaskWork};
use estimand_exec::{LauncherOptions, Limits};
use serde::{Deserialize, Serialize};

use super::folder::AttemptFolder;
use super::tunneling::give_port;
use crate::allow::{Allow, SEARCH_PATH};
use crate::allow_env::AllowEnv;
use crate::containers::{ContainerRun, ContainerTerms, FOLDER_VARIABLE, Place};
use crate::devices::{self, DeviceIds};
use crate::runners::Runner;

/// Variables of this beginning tell a task about itself, and nothing else reads them.
const OWN_VARIABLES: &str = "ESTIMAND_TASK_";
/// A task may well be a whole program with its helpers; this only holds up a fork bomb.
const MAX_PROCESSES: u64 = 16_384;
/// A longer order goes by way of the folder: the agent waits for no keeper that does not read.
const MAX_LINE: usize = 4096;
/// How much of a log that was not delivered is kept on disk.
pub const LOG_BYTES: u64 = 64 << 20;

/// The surroundings of all attempts of a keeper: the first line on its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeeperOptions {
    /// The keeper's own launcher, but for the keeper's part of its id.
    pub launcher: LauncherOptions,
    /// The limit of a process's open files; an agent's own is higher.
    pub open_files: Option<u64>,
}

/// The order for one attempt: a line on the keeper's standard input. `order.json` in the attempt's folder has it, too, if it is long
/// or names a container, and is read by agents of the next version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeeperOrder {
    #[serde(default)]
    pub folder: AttemptFolder,
    /// The file with the lease and the lease's number, if it is leased.
    pub lease: Option<(PathBuf, u64)>,
    /// The most of its log that is kept before it is delivered.
    pub log_bytes: u64,
    /// The container that the attempt has, or may have had.
    #[serde(default)]
    pub container: Option<Place>,
    /// None: there is nothing to start any more, only to clear away.
    pub run: Option<TaskRun>,
}

/// The work that is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskRun {
    Process(ProcessRun),
    Container(Box<ContainerRun>),
}

/// A program, and everything around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessRun {
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
    /// With their threads; none: `MAX_PROCESSES`.
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
    pub gpus: DeviceIds,
}

impl Terms {
    /// The program or container of a task, or why it does not run here. It runs as this user, if not as the agent, with
    /// these GPUs.
    pub fn run_of(
        &self,
        assignment: &TaskAssignment,
        runner: Option<&Runner>,
        folder: &AttemptFolder,
        server: &str,
        gpus: &[String],
    ) -> Result<TaskRun, String> {
        let work = assignment.work.supported().map_err(|reason| {
            format!("the agent on this node does not know all that the task asks for: {reason}")
        })?;
        if let Some(dir) = work.directory.as_ref().filter(|dir| !dir.starts_with('/')) {
            return Err(format!("its directory `{dir}` is not an absolute path"));
        }
        let mut env = self.variables(assignment, &work.environment, server);
        devices::tell(&mut env, gpus, self.gpus.are_known(), work.image.is_some());
        let mut run = match (&work.image, &self.containers) {
            (Some(image), Some(containers)) => {
                let mut run = containers.run_of(assignment, work, image, env, &self.limits(work))?;
                run.devices = gpus.to_vec();
                run.user = runner.map(|runner| runner.identity.clone());
                if work.has_files() {
                    run.give_task_folder(&folder.work())?;
                }
                TaskRun::Container(Box::new(run))
            }
            (Some(image), None) => {
                return Err(format!(
                    "it is to run in a container of `{image}`, and the agent on this node runs none; `--docker` lets it"
                ));
            }
            (None, _) => TaskRun::Process(self.process(work, env, runner, folder)?),
        };
        if let Some(port) = give_port(work, folder)? {
            let env = match &mut run {
                TaskRun::Process(run) => &mut run.env,
                TaskRun::Container(run) => &mut run.env,
            };
            env.push((PORT_VARIABLE.to_owned(), port.to_string()));
        }
        Ok(run)
    }

    fn process(
        &self,
        work: &TaskWork,
        mut env: BTreeMap<String, String>,
        runner: Option<&Runner>,
        folder: &AttemptFolder,
    ) -> Result<ProcessRun, String> {
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
        let own = folder.work().display().to_string();
        let mut defaults = vec![("PATH", SEARCH_PATH), ("LANG", "C.UTF-8"), ("HOME", &own), ("TMPDIR", &own)];
        if let Some(user) = runner.and_then(|runner| runner.name.as_deref()) {
            defaults.extend([("USER", user), ("LOGNAME", user)]);
        }
        for (name, value) in defaults {
            env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        let mut env: Vec<(String, String)> = env.into_iter().collect();
        if work.has_files() {
            env.push((FOLDER_VARIABLE.to_owned(), own));
        }
        Ok(ProcessRun {
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

    /// `ESTIMAND_SERVER` (where values are read), `ESTIMAND_NODE`, `ESTIMAND_TASK_ID`, `ESTIMAND_TASK_ATTEMPT`; last what
    /// the task gives.
    fn variables(
        &self,
        assignment: &TaskAssignment,
        given: &BTreeMap<String, String>,
        server: &str,
    ) -> BTreeMap<String, String> {
        let own = [
            ("ESTIMAND_SERVER", server.trim_end_matches('/').to_owned()),
            ("ESTIMAND_NODE", self.node.to_string()),
            ("ESTIMAND_TASK_ID", assignment.id.clone()),
            ("ESTIMAND_TASK_ATTEMPT", assignment.attempt.to_string()),
        ];
        let mut all = BTreeMap::from(own.map(|(name, value)| (name.to_owned(), value)));
        all.extend(given.clone());
        all
    }
}

impl KeeperOrder {
    /// The line for a keeper. An order that is too long for it, or that names a container, which the next keeper may have to
    /// remove, is written to the attempt's folder, and the line is the folder's path.
    pub fn to_line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        if self.container.is_some() || line.len() >= MAX_LINE {
            self.folder.write_order(&line)?;
            line = serde_json::to_vec(&self.folder)?;
        }
        line.push(b'\n');
        Ok(line)
    }

    /// Reads a line; none if the order that it is about is gone.
    pub fn of_line(line: &[u8]) -> io::Result<Option<Self>> {
        if line.starts_with(b"\"") {
            return serde_json::from_slice::<AttemptFolder>(line)?.order();
        }
        Ok(Some(serde_json::from_slice(line)?))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use estimand_api::task::TaskVolume;
    use estimand_exec::Identity;

    use super::*;
    use crate::containers::Docker;

    fn terms(allow: Allow) -> Terms {
        let node = NodeName::parse("n1").unwrap();
        Terms {
            allow,
            allow_env: AllowEnv::Names(Vec::new()),
            node,
            defaults: TaskDefaults::default(),
            containers: None,
            gpus: DeviceIds::default(),
        }
    }

    fn runner() -> Runner {
        Runner { identity: Identity { uid: 7, gid: 8, groups: Vec::new() }, name: Some("u".into()) }
    }

    fn run(terms: &Terms, work: TaskWork) -> Result<TaskRun, String> {
        let assignment =
            TaskAssignment { id: "t".into(), attempt: 2, work: work.into(), ..TaskAssignment::default() };
        let folder = AttemptFolder::new(Path::new("/data/tasks"), "t", 2);
        terms.run_of(&assignment, Some(&runner()), &folder, "http://h:1/", &[])
    }

    fn variables(env: &[(String, String)]) -> Vec<String> {
        env.iter().map(|(name, value)| format!("{name}={value}")).collect()
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
        let Ok(TaskRun::Process(run)) = run(&terms(Allow::Everything), work) else { panic!() };
        assert_eq!((run.limits.cpu, run.limits.memory), (Some(1.5), Some(9)));
        assert_eq!(run.dir, Path::new("/data/tasks/t.2/work"));
        assert_eq!(
            variables(&run.env),
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
    fn a_container_finds_what_the_image_has_and_where_it_is() {
        let docker = Docker::new(Path::new("/run/d.sock"), &["python".parse().unwrap()], &[]).unwrap();
        let containers = Some(ContainerTerms::new(docker, "0a"));
        let environment = [("ESTIMAND_NODE".to_owned(), "mine".to_owned())].into();
        let work = TaskWork { image: Some("python:3".into()), environment, port: Some(80), ..command(&[]) };
        let run = run(&Terms { containers, ..terms(Allow::Folders(Vec::new())) }, work);
        let Ok(TaskRun::Container(run)) = run else { panic!("{run:?}") };
        assert_eq!((run.processes, run.user), (Some(MAX_PROCESSES), Some(runner().identity)));
        assert_eq!(
            variables(&run.env),
            [
                "ESTIMAND_NODE=mine",
                "ESTIMAND_SERVER=http://h:1",
                "ESTIMAND_TASK_ATTEMPT=2",
                "ESTIMAND_TASK_ID=t",
                "ESTIMAND_TASK_PORT=80",
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
            let work = TaskWork { environment, ..command(&["/bin/sh"]) };
            let run = Some(run(&terms(Allow::Everything), work).unwrap());
            let order =
                KeeperOrder { folder: folder.clone(), lease: None, log_bytes: 1, container: None, run };
            let line = order.to_line().unwrap();
            assert!(line.ends_with(b"\n") && line.len() <= MAX_LINE);
            assert_eq!(folder.order().unwrap().is_none(), is_in_line);
            assert_eq!(KeeperOrder::of_line(&line).unwrap(), Some(order));
        }
    }

    #[test]
    fn what_is_not_allowed_or_not_here_is_refused_with_the_reason() {
        let check = |terms: &Terms, work: TaskWork, part: &str| {
            let reason = run(terms, work).unwrap_err();
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
        let reason = all.run_of(&unknown, None, &folder, "", &[]).unwrap_err();
        assert!(reason.contains("does not know all") && reason.contains("sandbox"), "{reason}");
    }
}
