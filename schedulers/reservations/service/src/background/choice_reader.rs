//! Reads from the data service, by watch, the predictor that is chosen. If the name has values of several nodes, the one that
//! was written last is the choice.

use std::sync::Arc;

use estimand_api::names::DataName;
use estimand_client::Facts;

use crate::choice::{Choice, NAME};
use crate::shared::Shared;

pub async fn run(shared: Arc<Shared>) {
    let data_service = shared.facts.wait().await;
    let names: Vec<DataName> = DataName::parse(NAME).into_iter().collect();
    data_service.follow(&names, "the choice of a predictor", |facts, _| choose(&shared, facts)).await;
}

fn choose(shared: &Shared, facts: &Facts) {
    let last = facts.of_name(NAME).max_by_key(|value| value.revision);
    let choice =
        last.map_or(Ok(Choice::default()), |value| Choice::of_value(&value.data_value, &shared.settings));
    shared.figures.wrong_choice.set(i64::from(choice.is_err()));
    match choice {
        Ok(choice) => {
            shared.heard_choice.send_replace(Some(choice));
            shared.training.ask();
        }
        Err(error) => {
            tracing::error!(error, "the value of `{NAME}` is no choice of a predictor; the last one stays");
        }
    }
}
