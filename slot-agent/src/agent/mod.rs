//! The agent: puts its parts together, starts them and ends them in order.
//!
//! The order of the end is: slots, so that nothing runs any more; the outbox, so that what they gave is
//! delivered or on disk; the conversations with the manager, the last word of which says that nothing runs here;
//! the launcher.

mod parts;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::Delivery;
use estimand_client::{self as client, Credentials, SenderClock};
use estimand_collectors::Bounds;
use estimand_runtime::open_files::raise_open_files;
use estimand_runtime::{Clock, Tasks};
use rustix::process::{Resource, getrlimit};
use tokio::sync::{mpsc, watch};

use crate::allow::Allow;
use crate::allow_env::AllowEnv;
use crate::board::Board;
use crate::containers::{ContainerTerms, Docker};
use crate::deliver::{Outbox, OutboxOptions, Sequencer, client_options};
use crate::derive;
use crate::devices::DeviceIds;
use crate::errors::AgentError;
use crate::facts::{facts, labels};
use crate::home::Home;
use crate::link::{Link, Servers};
use crate::plane_clock::PlaneClock;
use crate::power;
use crate::program::Programs;
use crate::reserve::Reserve;
use crate::runners::{Runners, UserRange};
use crate::slots::{Context, Slots};
use crate::tasks::{self, TaskDefaults, TaskOptions};
use crate::uploads::{UploadPolicy, Uploads};
use crate::user::RunAs;
use estimand_exec::{Capabilities, CgroupMode, Launcher, LauncherOptions, Precedence, Privileges};

/// How many runs at the same time by default, for each core.
const TURNS_PER_CORE: usize = 4;
/// How many runs that last longer than a second may go on beside them, for each turn.
const LONG_PER_TURN: usize = 8;
/// How many messages of the manager may wait for the slots.
const MAX_COMMANDS: usize = 64;
const MAX_REPORTS: usize = 64;
const MAX_SETBACKS: usize = 256;
const END_SLOTS_WITHIN: Duration = Duration::from_secs(10);
const END_REST_WITHIN: Duration = Duration::from_secs(5);

/// The options of an agent.
pub struct AgentOptions {
    /// Addresses of managers; the one that answers is asked.
    pub servers: Vec<String>,
    /// Its credentials at the services. Nothing that runs in a slot is given them.
    pub credentials: Credentials,
    pub node: NodeName,
    /// The node had another name when this folder was used last: what that one had is forgotten.
    pub renamed: bool,
    pub labels: BTreeMap<String, String>,
    /// The ids of the node's devices by resource, as its operator declares them.
    pub devices: BTreeMap<String, Vec<String>>,
    pub allow: Allow,
    /// The variables that registrations may set.
    pub allow_env: AllowEnv,
    /// The files and addresses that built-in collectors may read and reach when a registration names them.
    pub bounds: Bounds,
    /// The uploaded files that may run.
    pub uploads: UploadPolicy,
    /// The engine that runs the containers of tasks; none: no containers run here.
    pub docker: Option<Docker>,
    /// The user that things in slots run as; none: the one of this process.
    pub run_as: Option<RunAs>,
    /// The numbers of which each user whose tasks run here has one; none: they run as that user, too.
    pub run_as_range: Option<UserRange>,
    /// Users' tasks run as the agent where nothing runs as another user.
    pub allow_users_as_agent: bool,
    /// The limits of tasks that say nothing of them.
    pub task_defaults: TaskDefaults,
    /// The capabilities of this process that they keep.
    pub keep: Capabilities,
    pub data_dir: PathBuf,
    /// Where the folders of slots are, if not in that one.
    pub slots_dir: Option<PathBuf>,
    /// The space without which no run begins.
    pub reserve: Reserve,
    /// The most that the inputs of a task may have, and so its outputs.
    pub max_task_file_bytes: u64,
    /// How many runs at the same time; by default by the number of cores.
    pub turns: Option<usize>,
    pub max_spool_bytes: u64,
    /// False if no cgroups may be made for slots.
    pub cgroups: bool,
    /// How the launcher is started.
    pub launcher: (PathBuf, Vec<OsString>),
    /// How a keeper of a task is started, but for the folder of the task.
    pub keeper: (PathBuf, Vec<OsString>),
    pub clock: Arc<dyn Clock>,
    /// True if the manager is told when this agent ends and nothing of the node runs on.
    pub leaves: bool,
    /// Called once, with the reason, when the agent cannot go on.
    pub on_fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

/// An agent that runs.
pub struct Agent {
    slots: Tasks,
    derive: Tasks,
    outbox: Tasks,
    talk: Tasks,
    link: Arc<Link>,
    launcher: Launcher,
    leaves: bool,
}

impl Agent {
    pub async fn start(options: AgentOptions) -> Result<Self, AgentError> {
        let privileges = Privileges {
            run_as: options.run_as.as_ref().map(|run_as| run_as.identity.clone()),
            keep: options.keep,
        };
        power::check(&privileges)?;
        let home = Arc::new(Home::open(
            &options.data_dir,
            options.slots_dir.as_deref(),
            &options.node,
            options.renamed,
            privileges.run_as.as_ref(),
        )?);
        power::check_way(
            &privileges,
            options.run_as.as_ref(),
            options.allow != Allow::Folders(Vec::new()),
            &home,
        )?;
        let numbers = options.run_as_range.map(|range| power::open_numbers(range, &privileges, &home));
        let runners = Runners {
            run_as: options.run_as.clone(),
            numbers: numbers.transpose()?,
            allow_users_as_agent: options.allow_users_as_agent,
        };
        let users_tasks = runners.users_tasks();
        let servers = Arc::new(Servers::new(&options.servers, &options.credentials)?);
        let plane_clock = Arc::new(PlaneClock::new(Arc::clone(&options.clock)));
        let clock: Arc<dyn Clock> = Arc::clone(&plane_clock) as _;
        let sequencer = Sequencer::open(home.path(), Arc::clone(&clock))?;
        let mut outbox_options = OutboxOptions::new(home.spool());
        outbox_options.clock = Arc::clone(&clock);
        outbox_options.max_spool_bytes = options.max_spool_bytes;
        let outbox = Arc::new(Outbox::open(outbox_options)?);
        let drops_root = power::drops_root(&privileges);
        let lacking = Capabilities::own().without(options.keep);
        let (program, args) = options.launcher.clone();
        let cgroups = if options.cgroups { CgroupMode::Best } else { CgroupMode::None };
        let launcher = Launcher::start(LauncherOptions {
            program,
            args,
            id: home.agent.clone(),
            first: false,
            cgroups,
            precedence: Precedence::Ordinary,
            privileges: privileges.clone(),
            measures: false,
        })
        .await?;
        // A run holds a few descriptors here. The launcher has started: its runs begin with what there was before.
        let open_files = getrlimit(Resource::Nofile).current;
        raise_open_files();
        let known = home.desired();
        let first_server = known.as_ref().and_then(|desired| desired.data_server.clone());
        let (server, server_seen) =
            watch::channel(first_server.unwrap_or_else(|| servers.current().shown_address()));
        let (board, (commands, inbox)) = (Arc::new(Board::default()), mpsc::channel(MAX_COMMANDS));
        let (lease, lease_seen) = watch::channel(None);
        let (reports, reported) = mpsc::channel(MAX_REPORTS);
        let (tell, setbacks) = mpsc::channel(MAX_SETBACKS);
        // One more or less does not matter: as long as values are not taken, setbacks come.
        outbox.on_setback(move |setback| drop(tell.try_send(setback)));

        let (derive, deriving) = derive::Task::new(
            options.node.clone(),
            server_seen.clone(),
            client_options(&options.credentials),
            Arc::clone(&outbox),
            Arc::clone(&clock),
        );
        let tasks = tasks::Tasks::open(TaskOptions {
            folder: home.tasks().to_owned(),
            agent: home.agent.clone(),
            terms: tasks::Terms {
                allow: options.allow.clone(),
                allow_env: options.allow_env.clone(),
                node: options.node.clone(),
                defaults: options.task_defaults,
                containers: options.docker.clone().map(|docker| ContainerTerms::new(docker, &home.agent)),
                gpus: DeviceIds::of(&options.devices, &options.labels),
            },
            reserve: options.reserve,
            max_file_bytes: options.max_task_file_bytes,
            runners,
            keep: options.keep,
            cgroups,
            launcher: options.launcher,
            keeper: options.keeper,
            open_files,
            server: server_seen.clone(),
            clock: Arc::clone(&options.clock),
        });
        let tasks = Arc::new(tasks.map_err(AgentError::Tasks)?);
        let uploads =
            Uploads::new(options.uploads, home.uploads(), options.node.clone(), Arc::clone(&servers));
        let uploads = Arc::new(uploads);
        let context = Context {
            uploads: Arc::clone(&uploads),
            launcher: launcher.clone(),
            programs: Arc::new(Programs::new(options.allow.clone())),
            allow_env: options.allow_env,
            bounds: options.bounds,
            file_rights: privileges.run_as.is_some().then(|| privileges.clone()),
            drops_root,
            lacking,
            run_as: options.run_as,
            node: options.node.clone(),
            home: Arc::clone(&home),
            reserve: options.reserve,
            outbox: Arc::clone(&outbox),
            sequencer,
            derive,
            server: server_seen.clone(),
            lease: lease_seen.clone(),
            clock: Arc::clone(&clock),
            machine_clock: options.clock,
        };
        let turns = options.turns.unwrap_or_else(default_turns);
        let turns = (turns, turns * LONG_PER_TURN);
        let mut slots = Slots::new(context, Arc::clone(&board), lease_seen, reports, setbacks, turns);
        let revision = known.as_ref().map_or(0, |desired| desired.revision);
        if let Some(desired) = known {
            tracing::info!(slots = desired.slots.len(), "goes on with the last desired state");
            slots.resume(desired);
        }
        let delivering = Arc::clone(&outbox);
        let moving = Arc::clone(&outbox);
        let fatal = Arc::clone(&options.on_fatal);
        let link = Arc::new(Link {
            servers,
            node: options.node,
            labels: labels(options.labels, &options.devices, options.docker.is_some()),
            facts: facts(launcher.containment(), &options.allow, users_tasks),
            home,
            board,
            slots: commands,
            tasks: Arc::clone(&tasks),
            lease,
            server,
            superseded: Box::new(move |reason| fatal(reason)),
            delivery: Box::new(move || delivery(&delivering)),
            clock: plane_clock,
            was_behind: Box::new(move |by| moving.move_collected(by)),
        });
        let agent = Agent {
            slots: Tasks::new(),
            derive: Tasks::new(),
            outbox: Tasks::new(),
            talk: Tasks::new(),
            link,
            launcher,
            leaves: options.leaves,
        };
        agent.spawn_slots(slots, inbox);
        agent.spawn_derive(deriving);
        let delivers =
            client::Options { clock: SenderClock::new(clock), ..client_options(&options.credentials) };
        agent.spawn_outbox(outbox, server_seen, delivers);
        agent.spawn_tasks(&tasks, &client_options(&options.credentials));
        agent.spawn_tunnels(&tasks, &client_options(&options.credentials));
        agent.spawn_carrying(&tasks, &tasks::file_client_options(&options.credentials));
        agent.spawn_talk(revision, reported);
        agent.spawn_uploads(uploads);
        Ok(agent)
    }

    /// Ends it; nothing of it runs when this returns.
    pub async fn stop(self) {
        let in_order = [
            (&self.slots, END_SLOTS_WITHIN),
            (&self.derive, END_REST_WITHIN),
            (&self.outbox, END_REST_WITHIN),
        ];
        for (tasks, within) in in_order {
            if let Err(error) = tasks.stop_all(within).await {
                tracing::warn!(%error, "the agent ends unfinished");
            }
        }
        let talk = self.talk.stop_all(END_REST_WITHIN);
        if let Err(error) = talk.await {
            tracing::warn!(%error, "the agent ends unfinished");
        }
        // A node that leaves is lost at once, and its tasks go on: of one with tasks the lease is waited for.
        if self.leaves && self.link.tasks.is_empty() {
            self.link.leave().await;
        }
        self.launcher.stop().await;
    }
}

fn delivery(outbox: &Outbox) -> Delivery {
    let figures = outbox.figures();
    let failing = figures.failing_since.and(figures.last_error).or(figures.spool_error);
    Delivery {
        delivered: figures.delivered,
        waiting: figures.waiting_items as u64,
        spooled_bytes: figures.spooled_bytes,
        dropped: figures.dropped,
        refused: figures.refused,
        failing,
    }
}

fn default_turns() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) * TURNS_PER_CORE
}
