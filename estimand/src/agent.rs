//! The agent of a node as a process of its own, and the parts that it shares with the one that `up` starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use estimand_client::Credentials;
use estimand_pki::UploadPublicKey;
use estimand_runtime::Signals;
use estimand_runtime::{SystemClock, Tasks, stop};
use estimand_slot_agent::{
    Agent, Allow, AllowEnv, AllowLibraries, AllowNet, AllowRead, Bounds, Capabilities, Docker, ImagePattern,
    Reserve, RunAs, TaskDefaults, UploadPolicy,
};

use estimand_cli::output::say;

use crate::fate::Fate;
use crate::joining::{self, Shown};
use crate::options::{AgentOptions, AllowedPrograms};
use crate::telemetry;

/// The hidden first argument with which this program is the launcher of an agent.
pub const LAUNCHER: &str = "slot-launcher";
/// The hidden first argument with which it is a keeper of tasks; the path that names it follows.
pub const KEEPER: &str = "task-keeper";

/// How much undeliverable data is kept on disk, unless said otherwise.
const SPOOL_BYTES: u64 = 256 << 20;
/// The most that the inputs of a task may have, and so its outputs, unless said otherwise.
const TASK_FILE_BYTES: u64 = 16 << 30;
/// How long the renewal of a certificate may take to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Runs an agent until a signal or a fatal error ends it.
pub async fn run(options: AgentOptions, log: telemetry::Log) -> anyhow::Result<()> {
    telemetry::init(&log)?;
    let (trigger, stop) = stop::pair();
    let signals = Signals::listen(trigger.clone())?;
    if !options.renamed {
        // Before it joins under a name that is not this folder's.
        estimand_slot_agent::check_node(&options.data_dir, &options.node)?;
    }
    let Shown { credentials, renewal } = joining::shown(&options, &stop).await?;
    let fate = Fate { reason: Arc::default(), trigger };
    let sealed = fate.clone();
    let fatal = Arc::new(move |reason: &str| sealed.seal(reason));
    let agent =
        Agent::start(self::options(&options, options.servers.clone(), credentials, true, fatal)?).await?;
    say(&format!(
        "running as node {} for {}\n{}",
        options.node,
        options.servers.join(", "),
        greeting(&options)
    ));
    let tasks = Tasks::new();
    if let Some(renewal) = renewal.map(Arc::new) {
        tasks.spawn("renewal", move |stop| {
            let renewal = Arc::clone(&renewal);
            async move { renewal.run(&stop).await }
        });
    }
    stop.requested().await;
    agent.stop().await;
    tasks.stop_all(END_WITHIN).await?;
    drop(signals);
    fate.outcome()
}

/// The options of the agent itself.
pub fn options(
    options: &AgentOptions,
    servers: Vec<String>,
    credentials: Credentials,
    leaves: bool,
    on_fatal: Arc<dyn Fn(&str) + Send + Sync>,
) -> anyhow::Result<estimand_slot_agent::AgentOptions> {
    let allow = match &options.allow {
        AllowedPrograms::Everything => Allow::Everything,
        AllowedPrograms::Folders(folders) => Allow::folders(folders).context("--allow")?,
    };
    let run_as = options.run_as.as_deref().map(RunAs::find).transpose().context("--run-as")?;
    let mut keep = options.keep.iter().map(|name| name.parse::<Capabilities>().map_err(anyhow::Error::msg));
    let keep = keep.try_fold(Capabilities::NONE, |all, one| Ok::<_, anyhow::Error>(all.with(one?)));
    let keep = keep.context("--keep-capability")?;
    let allow_env = match &options.allow {
        AllowedPrograms::Everything => AllowEnv::Everything,
        AllowedPrograms::Folders(_) => AllowEnv::Names(options.allow_env.clone()),
    };
    let bounds = match &options.allow {
        AllowedPrograms::Everything => Bounds::default(),
        AllowedPrograms::Folders(_) => Bounds {
            read: AllowRead::these(&options.allow_read),
            net: AllowNet::These(options.allow_net.clone()),
            libraries: AllowLibraries::Nothing,
        },
    };
    let uploads = match (options.allow_uploads, &options.upload_key) {
        (false, _) => UploadPolicy::Nothing,
        (true, None) => UploadPolicy::Everything,
        (true, Some(file)) => {
            UploadPolicy::Signed(UploadPublicKey::read(file).context("--upload-key")?.bytes())
        }
    };
    Ok(estimand_slot_agent::AgentOptions {
        docker: docker(options)?,
        allow_env,
        bounds,
        uploads,
        servers,
        credentials,
        node: options.node.clone(),
        renamed: options.renamed,
        labels: options.labels.clone(),
        devices: options.devices.clone(),
        allow,
        run_as,
        run_as_range: options.run_as_range,
        allow_users_as_agent: options.allow_users_as_agent,
        task_defaults: TaskDefaults { memory: options.task_memory, processes: options.task_processes },
        keep,
        data_dir: options.data_dir.clone(),
        slots_dir: options.slots_dir.clone(),
        reserve: options.reserve_mib.map_or(Reserve::Standard, |mib| Reserve::Bytes(mib << 20)),
        max_task_file_bytes: options.task_files_mib.map_or(TASK_FILE_BYTES, |mib| mib << 20),
        turns: options.max_runs.map(|runs| runs as usize),
        max_spool_bytes: options.max_spool_bytes.unwrap_or(SPOOL_BYTES),
        cgroups: options.cgroups,
        // Still this program when its file was replaced.
        launcher: (PathBuf::from("/proc/self/exe"), vec![LAUNCHER.into()]),
        keeper: (PathBuf::from("/proc/self/exe"), vec![KEEPER.into()]),
        clock: Arc::new(SystemClock),
        leaves,
        on_fatal,
    })
}

/// The engine that runs containers, and which.
fn docker(options: &AgentOptions) -> anyhow::Result<Option<Docker>> {
    let Some(socket) = &options.docker else { return Ok(None) };
    let docker = match &options.allow {
        AllowedPrograms::Everything => {
            Docker::new(socket, &[ImagePattern::everything()], &[PathBuf::from("/")])
        }
        AllowedPrograms::Folders(_) => Docker::new(socket, &options.allow_images, &options.allow_volumes),
    };
    Ok(Some(docker.context("--allow-volume")?))
}

/// A greeting for people: it says what the agent may run.
pub fn greeting(options: &AgentOptions) -> String {
    let runs = match &options.allow {
        AllowedPrograms::Everything => "runs whatever is registered".to_owned(),
        AllowedPrograms::Folders(none) if none.is_empty() => {
            return "runs nothing that is registered, because nothing is allowed: --allow DIR allows a folder\n"
                .to_owned();
        }
        AllowedPrograms::Folders(folders) => {
            let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            format!("runs what lies in {}", folders.join(", "))
        }
    };
    match &options.run_as {
        Some(user) => format!("{runs}, as the user {user}\n"),
        None => format!("{runs}\n"),
    }
}
