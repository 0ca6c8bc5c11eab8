//! Reads from the data service, by watch, the predictor that is chosen. If the name has values of several nodes, the one that
//! was written last is the choice.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_client::Event;
use serde_json::Value;

use crate::choice::{Choice, NAME};
use crate::shared::Shared;

pub struct ChoiceReader {
    shared: Arc<Shared>,
    /// The values, each with its revision.
    values: BTreeMap<NodeName, (u64, Value)>,
}

impl ChoiceReader {
    pub fn new(shared: Arc<Shared>) -> Self {
        ChoiceReader { shared, values: BTreeMap::new() }
    }

    pub async fn run(mut self) {
        let data_service = self.shared.data_service().await;
        let names: Vec<DataName> = DataName::parse(NAME).into_iter().collect();
        let take = |event| self.take(event);
        data_service.follow(&names, "the choice of a predictor", take).await;
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Snapshot { values, .. } => {
                let values =
                    values.into_iter().map(|value| (value.node_name, (value.revision, value.data_value)));
                self.values = values.collect();
            }
            Event::Change(value) => {
                self.values.insert(value.node_name, (value.revision, value.data_value));
            }
            Event::Delete { node_name, .. } => drop(self.values.remove(&node_name)),
        }
        let last = self.values.values().max_by_key(|(revision, _)| *revision);
        let choice =
            last.map_or(Ok(Choice::default()), |(_, value)| Choice::of_value(value, &self.shared.settings));
        self.shared.figures.wrong_choice.set(i64::from(choice.is_err()));
        match choice {
            Ok(choice) => {
                self.shared.heard_choice.send_replace(Some(choice));
                self.shared.training.ask();
            }
            Err(error) => tracing::error!(
                error,
                "the value of `{NAME}` is no choice of a predictor; the last one stays"
            ),
        }
    }
}
