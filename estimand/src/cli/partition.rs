//! The command that plans a partition by known values and runs nothing; and the options of every command that
//! plans.

use clap::Args;
use estimand_api::names::DataName;
use estimand_scheduler_demo::job_plan::PolicyKind;
use estimand_scheduler_demo::plan::Trust;

const EXAMPLES: &str = "\
Reads which items each node holds, and what each is capable of, and says which items each of them
should process, which move for that, and how long it would take. How the capability is estimated it
does not know; `estimand job` carries the plan out.

Examples:
  estimand partition
  estimand partition --policy optimal --json
  estimand partition --capability capability_ewma --stale exclude";

// Plans a partition.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PartitionArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
}

// How to divide, by which facts, and what to trust.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// How to divide: the paper's algorithm, the least time, or the paper's algorithm as a beginning
    #[arg(long, value_name = "POLICY", default_value = "static", value_parser = ["static", "optimal", "dynamic"])]
    policy: String,
    /// Items that each node holds
    #[arg(long, value_name = "NAME", default_value = "data_distribution")]
    pub distribution: DataName,
    /// How many items wait on each node already; may have no values
    #[arg(long, value_name = "NAME", default_value = "data_load")]
    pub load: DataName,
    /// Capability of each node
    #[arg(long, value_name = "NAME", default_value = "node_capability")]
    pub capability: DataName,
    /// Treatment of a capability that is stale: exclude, last-known, or widen, which subtracts its spread
    #[arg(long, value_name = "HOW", default_value = "last-known", value_parser = trust)]
    pub stale: Trust,
    /// The same for one whose last renewal failed
    #[arg(long, value_name = "HOW", default_value = "last-known", value_parser = trust)]
    pub failed: Trust,
    /// The same for one whose node is lost
    #[arg(long, value_name = "HOW", default_value = "exclude", value_parser = trust)]
    pub lost: Trust,
}

impl PlanArgs {
    pub fn policy(&self) -> PolicyKind {
        self.policy.parse().unwrap_or_default()
    }
}

fn trust(text: &str) -> Result<Trust, String> {
    match text {
        "exclude" => Ok(Trust::Exclude),
        "last-known" => Ok(Trust::LastKnown),
        "widen" => Ok(Trust::Widen { k: 1.0 }),
        _ => Err("expected exclude, last-known or widen".to_owned()),
    }
}
