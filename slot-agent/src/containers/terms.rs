//! The container of a task as its agent allows it, or the reason why it does not run here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use estimand_api::image::ImageDigest;
use estimand_api::task::{TaskAssignment, TaskVolume, TaskWork};
use estimand_exec::{Identity, Limits};
use serde::{Deserialize, Serialize};

use super::{AGENT_LABEL, ATTEMPT_LABEL, Docker, FOLDER_VARIABLE, TASK_FOLDER, TASK_LABEL};

/// The place of a container: whoever has it can end and remove that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub socket: PathBuf,
    pub name: String,
}

/// All that a keeper needs to have a container run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRun {
    pub place: Place,
    pub labels: BTreeMap<String, String>,
    pub image: String,
    /// The one content of it that may run; none: what its name means here.
    #[serde(default)]
    pub digest: Option<ImageDigest>,
    /// Empty: what the image runs by itself.
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    /// None: the image's own.
    pub dir: Option<String>,
    /// None: the image's own.
    pub user: Option<Identity>,
    /// Their sources are real paths of this node.
    pub volumes: Vec<TaskVolume>,
    /// Thousandths of a processor.
    pub cpu: Option<u64>,
    /// Bytes.
    pub memory: Option<u64>,
    pub gpu: Option<u64>,
    /// The ids of its GPUs; none in an order of before, where the engine takes the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    pub processes: Option<u64>,
    pub timeout_ms: Option<u64>,
}

impl ContainerRun {
    /// Gives it the folder of its inputs and outputs, in which it runs unless the task says otherwise.
    pub fn give_task_folder(&mut self, folder: &Path) -> Result<(), String> {
        // Only root removes the files that an image's own user leaves in it.
        if self.user.is_none() && !rustix::process::geteuid().is_root() {
            return Err(
                "it has files and runs in a container, which needs an agent that is root, or `--run-as`"
                    .to_owned(),
            );
        }
        if let Some(volume) =
            self.volumes.iter().find(|volume| Path::new(&volume.target).starts_with(TASK_FOLDER))
        {
            return Err(format!(
                "its volume at `{}` is where its inputs and outputs are; give it another target",
                volume.target
            ));
        }
        let source = folder.to_str().ok_or("the folder of the agent has a path that is no text")?;
        self.volumes.push(TaskVolume {
            source: source.to_owned(),
            target: TASK_FOLDER.to_owned(),
            read_only: false,
        });
        self.dir.get_or_insert_with(|| TASK_FOLDER.to_owned());
        self.env.push((FOLDER_VARIABLE.to_owned(), TASK_FOLDER.to_owned()));
        Ok(())
    }
}

/// The rights and means that an agent gives containers.
#[derive(Debug)]
pub struct ContainerTerms {
    pub docker: Docker,
    /// Names the agent.
    pub agent: String,
}

impl ContainerTerms {
    pub fn new(docker: Docker, agent: &str) -> Self {
        ContainerTerms { docker, agent: agent.to_owned() }
    }

    /// The container of a task with this image and these variables, within these limits.
    pub fn run_of(
        &self,
        TaskAssignment { id, attempt, .. }: &TaskAssignment,
        work: &TaskWork,
        image: &str,
        env: BTreeMap<String, String>,
        limits: &Limits,
    ) -> Result<ContainerRun, String> {
        self.check_image(image)?;
        let volumes = work.volumes.iter().map(|volume| self.resolve(volume)).collect::<Result<_, _>>()?;
        let labels = [
            (AGENT_LABEL, self.agent.clone()),
            (TASK_LABEL, id.clone()),
            (ATTEMPT_LABEL, attempt.to_string()),
        ];
        Ok(ContainerRun {
            place: Place {
                socket: self.docker.socket.clone(),
                name: format!("estimand-{id}-{attempt}-{}", self.agent),
            },
            labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
            image: image.to_owned(),
            digest: work.image_digest,
            command: work.command.clone(),
            env: env.into_iter().collect(),
            dir: work.directory.clone(),
            user: None,
            volumes,
            cpu: work.cpu,
            memory: limits.memory,
            gpu: work.gpu,
            devices: Vec::new(),
            processes: limits.processes,
            timeout_ms: work.timeout_ms,
        })
    }

    fn check_image(&self, image: &str) -> Result<(), String> {
        let Docker { images, .. } = &self.docker;
        if images.iter().any(|pattern| pattern.allows(image)) {
            return Ok(());
        }
        let allowed = listed(images.iter().map(ToString::to_string), "none");
        Err(format!(
            "the agent on this node does not run the image `{image}`, only {allowed}; `--allow-image {image}` allows it"
        ))
    }

    /// The volume with the real path of its source.
    fn resolve(&self, volume: &TaskVolume) -> Result<TaskVolume, String> {
        let TaskVolume { source, target, .. } = volume;
        if !source.starts_with('/') || !target.starts_with('/') {
            return Err(format!("its volume `{source}:{target}` is not made of absolute paths"));
        }
        let real = Path::new(source)
            .canonicalize()
            .map_err(|error| format!("its volume `{source}` cannot be found on this node: {error}"))?;
        let Docker { volumes, .. } = &self.docker;
        if !volumes.iter().any(|folder| real.starts_with(folder)) {
            let allowed = listed(volumes.iter().map(|folder| folder.display().to_string()), "nothing");
            return Err(format!(
                "its volume `{source}` is {} on this node, and the agent here allows only what lies in {allowed}; \
                 `--allow-volume {0}` allows it",
                real.display()
            ));
        }
        let real =
            real.to_str().ok_or_else(|| format!("its volume `{source}` has a path that is no text"))?;
        Ok(TaskVolume { source: real.to_owned(), ..volume.clone() })
    }
}

fn listed(all: impl Iterator<Item = String>, none: &str) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() { none.to_owned() } else { all.join(", ") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn run(terms: &ContainerTerms, work: &TaskWork) -> Result<ContainerRun, String> {
        let assignment = TaskAssignment { id: "t".into(), attempt: 2, ..TaskAssignment::default() };
        terms.run_of(&assignment, work, work.image.as_ref().unwrap(), BTreeMap::new(), &Limits::default())
    }

    fn terms(volumes: &[PathBuf]) -> ContainerTerms {
        let images = ["python".parse().unwrap()];
        let docker = Docker::new(Path::new("/run/d.sock"), &images, volumes).unwrap();
        ContainerTerms::new(docker, "0a")
    }

    fn image(name: &str) -> TaskWork {
        TaskWork { image: Some(name.to_owned()), ..TaskWork::default() }
    }

    #[test]
    fn a_container_is_named_for_its_attempt_and_agent() {
        let run = run(&terms(&[]), &image("python:3")).unwrap();
        assert_eq!(run.place, Place { socket: "/run/d.sock".into(), name: "estimand-t-2-0a".into() });
        let labels: Vec<String> = run.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["estimand.agent=0a", "estimand.attempt=2", "estimand.task=t"]);
    }

    #[test]
    fn a_refusal_says_which_option_would_allow_it() {
        let reason = run(&terms(&[]), &image("evil:1")).unwrap_err();
        assert!(reason.contains("only python;") && reason.contains("`--allow-image evil:1`"), "{reason}");
        let volume = TaskVolume { source: "/".into(), target: "/x".into(), read_only: false };
        let reason = run(&terms(&[]), &TaskWork { volumes: vec![volume], ..image("python") }).unwrap_err();
        assert!(reason.contains("in nothing;") && reason.contains("`--allow-volume /`"), "{reason}");
    }

    /// A link below what is allowed may lead out of it.
    #[test]
    fn a_volume_is_where_it_really_is() {
        let place = tempfile::tempdir().unwrap();
        let (data, secret) = (place.path().join("data"), place.path().join("secret"));
        for folder in [&data, &secret, &data.join("in")] {
            fs::create_dir(folder).unwrap();
        }
        symlink(&secret, data.join("out")).unwrap();
        symlink(data.join("in"), place.path().join("linked")).unwrap();
        let terms = terms(std::slice::from_ref(&data));
        let check = |source: &Path| {
            let volume =
                TaskVolume { source: source.display().to_string(), target: "/x".into(), read_only: true };
            run(&terms, &TaskWork { volumes: vec![volume], ..image("python") })
        };
        let inside = check(&place.path().join("linked")).unwrap().volumes.remove(0);
        let real = data.join("in").canonicalize().unwrap();
        assert_eq!((inside.source.as_str(), inside.read_only), (real.to_str().unwrap(), true));
        for out in [data.join("out"), data.join("in/../../secret"), secret] {
            assert!(check(&out).unwrap_err().contains("allows only what lies in"), "{}", out.display());
        }
        assert!(check(&data.join("none")).unwrap_err().contains("cannot be found"));
        assert!(check(Path::new("data")).unwrap_err().contains("absolute"));
    }

    #[test]
    fn a_container_runs_in_the_folder_of_its_files() {
        let user = Identity { uid: 7, gid: 8, groups: vec![] };
        let given = |work: &TaskWork| {
            let mut run = run(&terms(&[PathBuf::from("/")]), work).unwrap();
            run.user = Some(user.clone());
            run.give_task_folder(Path::new("/data/tasks/t.2/work")).map(|()| run)
        };
        let run = given(&image("python")).unwrap();
        assert_eq!(run.dir.as_deref(), Some("/task"));
        assert!(run.env.contains(&(FOLDER_VARIABLE.to_owned(), "/task".to_owned())), "{:?}", run.env);
        let volume = run.volumes.last().unwrap();
        assert_eq!((volume.source.as_str(), volume.target.as_str()), ("/data/tasks/t.2/work", "/task"));
        let elsewhere = TaskWork { directory: Some("/app".into()), ..image("python") };
        assert_eq!(given(&elsewhere).unwrap().dir.as_deref(), Some("/app"));
        let volume = TaskVolume { source: "/".into(), target: "/task/in".into(), read_only: true };
        let reason = given(&TaskWork { volumes: vec![volume], ..image("python") }).unwrap_err();
        assert!(reason.contains("`/task/in`"), "{reason}");
    }
}
