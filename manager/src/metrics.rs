//! The manager's figures on `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::names::DataName;
use estimand_api::node::NodeState;
use estimand_runtime::metrics::{Counter, Exposition, Gauge, Kind};

use crate::core::RunCount;
use crate::leadership::Leadership;

#[derive(Debug, Default)]
pub struct Figures {
    pub leads: Counter,
    pub heartbeats: Counter,
    /// Questions of agents that wait.
    pub waiting: Gauge,
    pub looks: Counter,
    pub commits: Counter,
    pub failed_commits: Counter,
    pub reads: Counter,
    pub failed_reads: Counter,
    pub runs: Counter,
}

impl Figures {
    pub fn write(&self, out: &mut Exposition<'_>, leadership: Option<&Arc<Leadership>>) {
        let leading = leadership.filter(|leadership| leadership.term().is_valid());
        let help = "Whether this manager leads.";
        out.single("estimand_manager_leading", Kind::Gauge, help, f64::from(u8::from(leading.is_some())));
        for (name, help, counter) in [
            ("estimand_manager_leads_total", "Times that this manager began to lead.", &self.leads),
            ("estimand_manager_heartbeats_total", "Heartbeats answered.", &self.heartbeats),
            ("estimand_manager_reconciles_total", "Looks at the whole cluster.", &self.looks),
            ("estimand_manager_commits_total", "Changes of the cluster stored.", &self.commits),
            (
                "estimand_manager_commit_failures_total",
                "Attempts to store that failed.",
                &self.failed_commits,
            ),
            ("estimand_manager_registry_reads_total", "Times that the registry was read.", &self.reads),
            (
                "estimand_manager_registry_read_failures_total",
                "Times that the registry could not be read.",
                &self.failed_reads,
            ),
            ("estimand_manager_runs_total", "Runs asked for by hand.", &self.runs),
        ] {
            out.single(name, Kind::Counter, help, counter.get() as f64);
        }
        let help = "Questions of agents that wait for something new.";
        out.single("estimand_manager_waiting_agents", Kind::Gauge, help, self.waiting.get() as f64);
        if let Some(leadership) = leading {
            write_cluster(out, leadership);
        }
    }
}

fn write_cluster(out: &mut Exposition<'_>, leadership: &Leadership) {
    let (nodes, instances, registered, runs, counts) = leadership.with(|state| {
        let nodes = state.cluster.node_views();
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        for instance in state.cluster.instance_views(None, None) {
            *states.entry(instance.status.doing.as_str()).or_default() += 1;
        }
        (
            nodes,
            states,
            state.registrations.as_ref().map_or(0, |registrations| registrations.len()),
            state.runs.len(),
            state.cluster.run_counts(),
        )
    });
    out.single(
        "estimand_manager_epoch",
        Kind::Gauge,
        "Epoch of the current leadership.",
        leadership.term().epoch() as f64,
    );
    let help = "Registrations as read last.";
    out.single("estimand_manager_registrations", Kind::Gauge, help, registered as f64);
    out.single("estimand_manager_runs_open", Kind::Gauge, "Runs by hand under way.", runs as f64);
    let name = "estimand_nodes";
    out.family(name, Kind::Gauge, "Nodes by state.");
    for state in [NodeState::Ready, NodeState::Lost] {
        let count = nodes.iter().filter(|node| node.state == state).count();
        out.sample(name, &[("state", state.as_str())], count as f64);
    }
    let help = "Nodes that get no further instances of counted registrations.";
    let cordoned = nodes.iter().filter(|node| node.cordoned).count();
    out.single("estimand_nodes_cordoned", Kind::Gauge, help, cordoned as f64);
    let name = "estimand_instances";
    out.family(name, Kind::Gauge, "Instances by what they do.");
    for (doing, count) in instances {
        out.sample(name, &[("doing", doing)], count as f64);
    }
    write_registrations(out, &counts);
}

/// Each registration, so that one can be told of those that fail.
fn write_registrations(out: &mut Exposition<'_>, counts: &BTreeMap<DataName, (RunCount, u64)>) {
    type Count = fn(&(RunCount, u64)) -> u64;
    let families: [(&str, Kind, &str, Count); 6] = [
        (
            "estimand_registration_runs_total",
            Kind::Counter,
            "Runs that have ended, on all nodes; of a stream, values.",
            |of| of.0.runs,
        ),
        ("estimand_registration_failures_total", Kind::Counter, "Those of them that failed.", |of| {
            of.0.failures
        }),
        ("estimand_registration_timeouts_total", Kind::Counter, "Those of them that took too long.", |of| {
            of.0.timeouts
        }),
        (
            "estimand_registration_quarantined_total",
            Kind::Counter,
            "Values that were not as declared, and were kept from readers.",
            |of| of.0.quarantined,
        ),
        (
            "estimand_registration_superseded_total",
            Kind::Counter,
            "Values that were older than what the data service had.",
            |of| of.0.superseded,
        ),
        ("estimand_registration_failing_nodes", Kind::Gauge, "Nodes on which the last run failed.", |of| {
            of.1
        }),
    ];
    for (metric, kind, help, count) in families {
        out.family(metric, kind, help);
        for (name, of) in counts {
            out.sample(metric, &[("data_name", name.as_str())], count(of) as f64);
        }
    }
}
