//! Services and agents together, as processes: registry, manager and data service on the load's core, agents
//! and their runs on the core of the measured processes.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail, ensure};
use estimand_api::node::Node;
use estimand_api::slot::Instance;
use estimand_testkit::http::Http;
use estimand_testkit::process::{Builder, Estimand};
use estimand_testkit::processes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cores::Cores;
use crate::holder::LAUNCHER;
use crate::served::program;
use crate::usage::Cpu;

/// The longest wait for anything that should take a moment.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a heartbeat, which come once a second. A look costs the core of the services.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The services, in one process with one worker.
pub struct Plane {
    pub services: Estimand,
    cores: Cores,
}

/// One agent and its launcher.
pub struct Agent {
    pub process: Estimand,
    pub node: String,
    /// The process that starts and reaps the agent's runs.
    pub launcher: u32,
}

/// A heartbeat as the manager reports it.
#[derive(Debug)]
pub struct Beat {
    /// When the manager took it, in microseconds since 1970.
    pub at_us: i64,
    pub node: Node,
    pub instances: Vec<Instance>,
}

impl Plane {
    pub fn start(cores: Cores, data_dir: &Path) -> anyhow::Result<Self> {
        Plane::start_with(cores, data_dir, "none")
    }

    /// With these default registrations.
    pub fn start_with(cores: Cores, data_dir: &Path, defaults: &str) -> anyhow::Result<Self> {
        let args = ["up", "--no-agent", "--workers", "1", "--defaults", defaults];
        let builder = on_core(cores.load)?.args(args).data_dir(data_dir);
        let services = builder.try_start().map_err(anyhow::Error::msg)?;
        Ok(Plane { services, cores })
    }

    /// An agent of its own, which runs all registrations.
    pub fn agent(&self, node: &str, more: &[&str]) -> anyhow::Result<Agent> {
        let args = ["agent", "--allow-all", "--server", self.services.base_url(), "--node", node];
        Agent::start(Estimand::builder(program()?).args(args).args(more.iter().copied()), node)
    }

    /// The same in a process that holds so much memory.
    pub fn holding_agent(&self, node: &str, mib: usize, max_runs: usize) -> anyhow::Result<Agent> {
        let own = std::env::current_exe().context("where this program is")?;
        let (mib, max_runs) = (mib.to_string(), max_runs.to_string());
        let args = ["holder", "--server", self.services.base_url(), "--node", node];
        let more = ["--mib", &mib, "--max-runs", &max_runs];
        Agent::start(Estimand::builder(own).args(args).args(more), node)
    }

    pub fn http(&self) -> Http {
        self.services.http()
    }

    /// Registers all of these, one after the other.
    pub fn register(&self, bodies: impl IntoIterator<Item = Value>) -> anyhow::Result<()> {
        let http = self.http();
        bodies.into_iter().try_for_each(|body| register(&http, &body))
    }

    /// Waits until each of so many registrations has ended a run on the node, or said a value.
    pub fn until_run(&self, agent: &Agent, registrations: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        self.cores.on_load_core(|| {
            loop {
                let beat = self.next_beat(&agent.node, now_us())?;
                let run = beat.instances.iter().filter(|instance| instance.status.runs > 0).count();
                if run >= registrations {
                    return Ok(());
                }
                ensure!(began.elapsed() < PATIENCE, "{run} of {registrations} ran in {PATIENCE:?}");
            }
        })
    }

    /// The sum over a node's slots of the number of the run that gave the value which is stored.
    pub fn runs_stored(&self, node: &str, beat: &Beat) -> anyhow::Result<u64> {
        let http = self.http();
        let stored = |instance: &Instance| -> anyhow::Result<u64> {
            let name = &instance.status.data_name;
            let value: estimand_api::value::Value =
                get(&http, &format!("/api/data/{name}/{node}?explain=1"))?;
            let run = value.provenance.as_ref().and_then(|provenance| provenance["run"].as_u64());
            run.with_context(|| format!("of which run is the value of {name} on {node}"))
        };
        beat.instances.iter().map(stored).sum()
    }

    /// The next heartbeat of a node that the manager takes after an instant.
    pub fn next_beat(&self, node: &str, after_us: i64) -> anyhow::Result<Beat> {
        let http = self.http();
        let look = || get::<Node>(&http, &format!("/api/nodes/{node}"));
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            // An agent that was just started is not known until its first heartbeat.
            let before = look().ok().filter(|node| node.last_heartbeat.timestamp_micros() > after_us);
            if let Some(before) = before {
                let instances = get(&http, &format!("/api/mng/instances?dataNode={node}"))?;
                let after = look()?;
                // Both belong to one heartbeat if none came between them.
                if before.last_heartbeat == after.last_heartbeat {
                    let at_us = after.last_heartbeat.timestamp_micros();
                    return Ok(Beat { at_us, node: after, instances });
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("no heartbeat of {node} within {PATIENCE:?}")
    }
}

impl Agent {
    pub fn start(builder: Builder, node: &str) -> anyhow::Result<Self> {
        let process = builder.without_http().try_start().map_err(anyhow::Error::msg)?;
        let children = processes::descendants(process.pid());
        let launcher = children.iter().find(|child| child.cmdline.iter().any(|word| word == LAUNCHER));
        let launcher = launcher.context("the agent has no launcher")?.pid;
        Ok(Agent { process, node: node.to_owned(), launcher })
    }

    /// The processor time of the agent, of its launcher, and of all that has run.
    pub fn cpu(&self) -> anyhow::Result<(Duration, Cpu)> {
        Ok((self.process.cpu_time(), Cpu::of(self.launcher)?))
    }
}

impl Beat {
    /// How many runs have ended since the agent's start. None of them may have failed.
    pub fn runs(&self) -> anyhow::Result<u64> {
        let delivery = &self.node.delivery;
        if delivery.refused > 0 || delivery.dropped > 0 || delivery.failing.is_some() {
            bail!("deliveries fail: {delivery:?}");
        }
        let mut runs = 0;
        for Instance { status, .. } in &self.instances {
            if status.failures > 0 || status.timeouts > 0 {
                bail!("{} failed: {:?}", status.data_name, status.last_error);
            }
            runs += status.runs;
        }
        Ok(runs)
    }

    /// Due times that passed while a slot still ran or waited.
    pub fn overruns(&self) -> u64 {
        self.instances.iter().map(|instance| instance.status.overruns).sum()
    }
}

/// The program under measurement, on a core of its own choice instead of that of the thread which starts it.
pub fn on_core(core: usize) -> anyhow::Result<Builder> {
    let program = program()?.into_os_string();
    let core = core.to_string();
    Ok(Estimand::builder("taskset").args(["--cpu-list".into(), core.into(), program]))
}

pub fn register(http: &Http, body: &Value) -> anyhow::Result<()> {
    let answer = http.send_json("POST", "/api/registry", body);
    ensure!(answer.status == 201, "registering {body}: {answer}");
    Ok(())
}

pub fn unregister(http: &Http, name: &str) -> anyhow::Result<()> {
    let answer = http.request("DELETE", &format!("/api/registry/{name}"), &[], b"");
    ensure!((200..300).contains(&answer.status), "unregistering {name}: {answer}");
    Ok(())
}

fn get<T: DeserializeOwned>(http: &Http, path: &str) -> anyhow::Result<T> {
    let answer = http.get(path);
    ensure!(answer.status == 200, "GET {path}: {answer}");
    serde_json::from_slice(&answer.body).with_context(|| format!("the answer to GET {path}"))
}

/// Microseconds since 1970.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64
}
