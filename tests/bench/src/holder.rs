//! An agent in a process that holds memory: the product's own agent, linked as a library, in a process that
//! first takes as much memory as it was told to and writes to all of it. The cost of an agent's size for its runs
//! is measured with it, so the product needs no switch for that.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use estimand_api::names::NodeName;
use estimand_client::Credentials;
use estimand_runtime::SystemClock;
use estimand_slot_agent::{
    Agent, AgentOptions, Allow, AllowEnv, Bounds, Capabilities, Reserve, TaskDefaults, UploadPolicy,
};

/// The first argument with which this program is the launcher of such an agent.
pub const LAUNCHER: &str = "slot-launcher";
/// and of the keeper of a task.
pub const KEEPER: &str = "task-keeper";
const PAGE: usize = 4096;
/// Far more than a benchmark that is delivered can leave behind.
const SPOOL_BYTES: u64 = 64 << 20;

#[derive(Debug, Args)]
pub struct HolderArgs {
    /// How much memory to hold
    #[arg(long)]
    mib: usize,
    #[arg(long)]
    server: String,
    #[arg(long)]
    node: NodeName,
    #[arg(long)]
    max_runs: usize,
    #[arg(long)]
    data_dir: PathBuf,
}

/// Runs until it is killed.
pub fn serve(args: HolderArgs) -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut held = vec![0_u8; args.mib << 20];
    held.chunks_mut(PAGE).zip(1..).for_each(|(page, number)| page[0] = number as u8 | 1);
    let held = std::hint::black_box(held);
    let credentials = Credentials::of_environment()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let node = args.node.clone();
        let agent = Agent::start(options(args, credentials)).await.context("starting the agent")?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "running as node {node}, holding {} bytes", held.len())?;
        out.flush()?;
        drop(out);
        std::future::pending::<()>().await;
        agent.stop().await;
        anyhow::Ok(())
    })
}

fn options(args: HolderArgs, credentials: Credentials) -> AgentOptions {
    AgentOptions {
        allow_env: AllowEnv::Everything,
        bounds: Bounds::default(),
        uploads: UploadPolicy::Nothing,
        servers: vec![args.server],
        credentials,
        node: args.node,
        renamed: false,
        devices: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        allow: Allow::Everything,
        docker: None,
        run_as: None,
        run_as_range: None,
        allow_users_as_agent: true,
        task_defaults: TaskDefaults::default(),
        keep: Capabilities::NONE,
        data_dir: args.data_dir,
        slots_dir: None,
        reserve: Reserve::Standard,
        turns: Some(args.max_runs),
        max_spool_bytes: SPOOL_BYTES,
        max_task_file_bytes: 0,
        cgroups: true,
        launcher: (PathBuf::from("/proc/self/exe"), vec![LAUNCHER.into()]),
        keeper: (PathBuf::from("/proc/self/exe"), vec![KEEPER.into()]),
        clock: Arc::new(SystemClock),
        leaves: true,
        on_fatal: Arc::new(|reason| {
            eprintln!("error: {reason}");
            std::process::exit(1);
        }),
    }
}
