//! Slurm as Debian ships it: a controller and one node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_testkit::process::free_port;

use super::{AT_ONCE, TaskSystem, timed};
use crate::cores::Cores;
use crate::peer::{Peer, find};

const CONTROLLER: &str = "slurmctld";
const NODE: &str = "slurmd";
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Slurm {
    cores: Cores,
    configuration: PathBuf,
    _controller: Peer,
    _node: Peer,
}

impl Slurm {
    pub fn start(cores: Cores, folder: &Path) -> anyhow::Result<Option<Slurm>> {
        let (Some(controller), Some(node)) = (find(CONTROLLER), find(NODE)) else { return Ok(None) };
        let configuration = configure(folder)?;
        // Both stay where they are started and find the file by their option.
        let args = |file: &Path| ["-D".into(), "-f".into(), file.as_os_str().to_owned()];
        let controller = cores
            .on_load_core(|| Peer::start(&controller, args(&configuration), &folder.join(CONTROLLER)))?;
        let mut node = Peer::start(&node, args(&configuration), &folder.join(NODE))?;
        node.until("Slurm's node is idle", || {
            let output = tool("sinfo", &configuration).args(["-h", "-o", "%t"]).output();
            output.is_ok_and(|output| output.stdout.starts_with(b"idle"))
        })?;
        Ok(Some(Slurm { cores, configuration, _controller: controller, _node: node }))
    }
}

impl TaskSystem for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn many(&self, tasks: usize) -> anyhow::Result<Duration> {
        let mut command = tool("sbatch", &self.configuration);
        command.args([&format!("--array=0-{}", tasks - 1), "--output=/dev/null", "--wrap=/bin/true"]);
        self.cores.on_load_core(|| {
            let began = Instant::now();
            let output = command.output().context("sbatch")?;
            ensure!(output.status.success(), "sbatch: {}", String::from_utf8_lossy(&output.stderr));
            loop {
                let left = tool("squeue", &self.configuration).arg("-h").output().context("squeue")?;
                if left.status.success() && left.stdout.is_empty() {
                    return Ok(began.elapsed());
                }
                ensure!(
                    began.elapsed() < PATIENCE,
                    "jobs are left: {}",
                    String::from_utf8_lossy(&left.stdout)
                );
                thread::sleep(LOOK_EVERY);
            }
        })
    }

    fn single(&self) -> anyhow::Result<Duration> {
        let mut command = tool("srun", &self.configuration);
        command.arg("/bin/true");
        timed(self.cores, command)
    }
}

fn tool(name: &str, configuration: &Path) -> Command {
    let mut command = Command::new(name);
    command.env("SLURM_CONF", configuration);
    command
}

/// One node with so many processors; it schedules as soon as it can, and keeps its state in the folder.
fn configure(folder: &Path) -> anyhow::Result<PathBuf> {
    let host = Command::new("hostname").arg("-s").output().context("hostname")?;
    let host = String::from_utf8_lossy(&host.stdout).trim().to_owned();
    for name in ["state", "spool"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let (at, controller, node) = (folder.display(), free_port(), free_port());
    let text = format!(
        "ClusterName=bench\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
         SlurmUser=root\nAuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/pgid\n\
         TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
         SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,default_queue_depth=10000\n\
         SwitchType=switch/none\nMpiDefault=none\nReturnToService=2\nStateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/node.pid\n\
         SlurmdParameters=config_overrides\nMaxArraySize=20001\nMaxJobCount=50000\nMinJobAge=2\n\
         JobAcctGatherType=jobacct_gather/none\nJobCompType=jobcomp/none\n\
         AccountingStorageType=accounting_storage/none\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs={AT_ONCE} State=UNKNOWN\n\
         PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
    );
    let file = folder.join("slurm.conf");
    fs::write(&file, text)?;
    Ok(file)
}
