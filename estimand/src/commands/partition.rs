//! `partition`: the scheduler's plan, without carrying it out.

use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::plan::Trusts;
use estimand_scheduler_demo::planned::{Options, Planned};

use super::Session;
use crate::cli::partition::PartitionArgs;
use crate::output::failure::Failure;

pub async fn partition(session: &mut Session, args: &PartitionArgs) -> Result<(), Failure> {
    let names = Names {
        distribution: args.distribution.clone(),
        load: args.load.clone(),
        capability: args.capability.clone(),
    };
    let facts = facts::read(&session.client, &names).await.map_err(|error| match error {
        facts::Error::Client(error) => Failure::Client(error),
        error @ (facts::Error::NoDistribution { .. } | facts::Error::NoCapability { .. }) => {
            Failure::Missing(error.to_string())
        }
        error @ facts::Error::Wrong { .. } => Failure::NotPlanned(error.to_string()),
    })?;
    let trusts = Trusts { stale: args.stale, failed: args.failed, node_lost: args.lost };
    let options = Options { method: args.method(), trusts, ..Options::default() };
    let planned = Planned::new(facts, options).map_err(|error| Failure::NotPlanned(error.to_string()))?;
    match session.out.json {
        true => session.out.pretty(&planned.to_json())?,
        false => session.out.line(planned.to_string().trim_end())?,
    }
    Ok(())
}
