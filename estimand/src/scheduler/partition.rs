//! `partition`: the scheduler's plan, without carrying it out; and the making of it, for `job`, which does.

use estimand_client::Client;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::plan::{Settings, Trusts};
use estimand_scheduler_demo::planned::{Options, Planned};

use crate::cli::partition::{PartitionArgs, PlanArgs};
use estimand_cli::Session;
use estimand_cli::output::failure::Failure;

pub async fn partition(session: &mut Session, args: &PartitionArgs) -> Result<(), Failure> {
    let planned = plan(&session.client, &args.plan, Settings::default()).await?;
    match session.out.json {
        true => session.out.pretty(&planned.to_json())?,
        false => session.out.line(planned.to_string().trim_end())?,
    }
    Ok(())
}

/// Reads what is known and plans by it; `settings` are those of the policy `dynamic`.
pub(super) async fn plan(client: &Client, args: &PlanArgs, settings: Settings) -> Result<Planned, Failure> {
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
        error @ facts::Error::Wrong { .. } => Failure::NotPlanned(error.to_string()),
    })?;
    let trusts = Trusts { stale: args.stale, failed: args.failed, node_lost: args.lost };
    let options = Options { method: args.method(), trusts, settings, ..Options::default() };
    Planned::new(facts, options).map_err(|error| Failure::NotPlanned(error.to_string()))
}
