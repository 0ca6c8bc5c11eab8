//! Reads the labels that follow from values: the value of `label:gpu` on a node is its label `gpu`.
//!
//! All of them are read every second, from the data service's memory. A read that fails changes nothing, and neither
//! does a value that is stale or whose run failed: a label that came and went with each hiccup would move what runs
//! there. It goes when the value says so, or is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::labels::MAX_LABELS;
use estimand_api::labels::{LABEL_NAMES, LabelMap, label_of_value};
use estimand_api::names::{NamePattern, NodeName};
use estimand_api::selector::is_label_key;
use estimand_api::value::Value;
use estimand_client::{Client, PeerError, Query, within};
use estimand_runtime::{Driver, Next, Rounds, Work};

use super::LeaderWork;
use crate::leadership::Leadership;
use crate::{Peers, Shared};

const READ_EVERY: Duration = Duration::from_secs(1);
const READ_WITHIN: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub struct LabelReader {
    leadership: Arc<Leadership>,
    data_service: Client,
    query: Query,
}

impl LeaderWork for LabelReader {
    const TASK: &'static str = "manager-labels";
    const ACTIVITY: &'static str = "reading the labels that follow from values";

    fn schedule(_: &Shared, driver: Driver) -> Driver {
        driver.every(READ_EVERY).pauses(READ_EVERY, LONGEST_PAUSE)
    }

    fn new(_: &Arc<Shared>, leadership: &Arc<Leadership>, peers: &Peers) -> Self {
        let patterns = NamePattern::parse(&format!("{LABEL_NAMES}*")).into_iter().collect();
        LabelReader {
            leadership: Arc::clone(leadership),
            data_service: peers.data_service.clone(),
            query: Query { patterns, ..Query::default() },
        }
    }

    fn rounds(leadership: &Leadership) -> &Rounds {
        &leadership.label_reads
    }
}

impl Work for LabelReader {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let (values, _) = within(READ_WITHIN, self.data_service.values(&self.query)).await?;
        let labels = labels_of(&values);
        self.leadership.with(|state| state.cluster.set_labels_of_values(&labels));
        Ok(Next::Period)
    }
}

/// The labels of each node; a value that no label can have is none.
fn labels_of(values: &[Value]) -> BTreeMap<NodeName, LabelMap> {
    let mut labels: BTreeMap<NodeName, LabelMap> = BTreeMap::new();
    for value in values {
        let key = value.data_name.as_str().strip_prefix(LABEL_NAMES).filter(|key| is_label_key(key));
        let (Some(key), Some(label)) = (key, label_of_value(&value.data_value)) else { continue };
        let of_node = labels.entry(value.node_name.clone()).or_default();
        if of_node.len() < MAX_LABELS {
            of_node.insert(key.to_owned(), label);
        }
    }
    labels
}
