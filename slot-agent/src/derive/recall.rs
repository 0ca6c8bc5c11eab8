//! What was kept of the inputs whose past a formula looks at.

use std::collections::BTreeMap;

use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::{Pointer, PointerError};
use estimand_client::{Client, Error, HistoryQuery};
use estimand_expressions::PastPart;
use serde_json::Value;

use super::formula::{Reach, Spec};

/// The most earlier values that are asked for at once.
const MAX_RECALLED: u32 = 100_000;
/// The same of values that are kept whole, which may be large.
const MAX_RECALLED_WHOLE: u32 = 256;

/// The history of one part of an input, to be asked for.
pub struct Recall {
    pub input: DataName,
    pub part: PastPart,
    pub query: HistoryQuery,
}

/// Earlier values by node: the time of each in microseconds since 1970, and the value.
pub type KeptValues = BTreeMap<NodeName, Vec<(i64, Value)>>;

/// All that has to be asked for.
pub fn recalls(spec: &Spec, own: &NodeName) -> Vec<Recall> {
    let parts = spec
        .past
        .iter()
        .flat_map(|(input, past)| past.parts.iter().map(move |part| (input, past.window, part)));
    let recalls = parts.filter_map(|(input, window, part)| {
        let query = HistoryQuery {
            node: (spec.reach == Reach::Own).then(|| own.clone()),
            since: Some(format!("{}s", window.as_secs().max(1))),
            limit: Some(if part.is_number { MAX_RECALLED } else { MAX_RECALLED_WHOLE }),
            field: field_of(part).ok()?,
            ..HistoryQuery::default()
        };
        Some(Recall { input: input.clone(), part: part.clone(), query })
    });
    recalls.collect()
}

pub async fn kept(client: &Client, input: &DataName, query: &HistoryQuery) -> Result<KeptValues, Error> {
    let mut past = KeptValues::new();
    for value in client.history(input, query).await? {
        let at = value.collected_at.timestamp_micros();
        past.entry(value.node_name).or_default().push((at, value.data_value));
    }
    Ok(past)
}

/// The place of a part in a value; none for all of it. The error: no history can be asked for it.
fn field_of(part: &PastPart) -> Result<Option<Pointer>, PointerError> {
    let escaped = part.fields.iter().map(|field| format!("/{}", field.replace('~', "~0").replace('/', "~1")));
    let text: String = escaped.collect();
    (!text.is_empty()).then(|| Pointer::parse(&text)).transpose()
}
