//! `partition`: the scheduler's plan, without carrying it out; and the making of it, for `job`, which does.

use estimand_client::Client;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job_plan::{JobPlan, Options};
use estimand_scheduler_demo::plan::{DynamicSettings, TrustRules};

use crate::cli::partition::{PartitionArgs, PlanArgs};
use estimand_cli::Session;
use estimand_cli::output::failure::Failure;

pub async fn partition(session: &mut Session, args: &PartitionArgs) -> Result<(), Failure> {
    let job_plan = plan(&session.client, &args.plan, DynamicSettings::default()).await?;
    match session.out.json {
        true => session.out.pretty(&job_plan.to_json())?,
        false => session.out.line(job_plan.to_string().trim_end())?,
    }
    Ok(())
}

/// Reads the known values and plans by them; `settings` are those of the policy `dynamic`.
pub(super) async fn plan(
    client: &Client,
    args: &PlanArgs,
    settings: DynamicSettings,
) -> Result<JobPlan, Failure> {
    let names = Names {
        distribution: args.distribution.clone(),
        load: args.load.clone(),
        capability: args.capability.clone(),
    };
    let facts = facts::read(client, &names).await.map_err(|error| match error {
        facts::Error::Client(error) => Failure::Client(error),
        error @ (facts::Error::NoDistribution { .. } | facts::Error::NoCapability { .. }) => {
            Failure::Missing(error.to_string())
        }
        error @ facts::Error::InvalidValue { .. } => Failure::NotPlanned(error.to_string()),
    })?;
    let trust = TrustRules { stale: args.stale, failed: args.failed, node_lost: args.lost };
    let options = Options { policy: args.policy(), trust, settings, ..Options::default() };
    JobPlan::new(facts, options).map_err(|error| Failure::NotPlanned(error.to_string()))
}
