//! Translates between rows of the store and promises.

use estimand_api::promise::{PromiseRequest, PromiseState};
use estimand_store::{PromiseGroup, PromiseRevisionRow, PromiseRow, StoredPromises};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rows::{column, known, text, value};
use crate::change::Change;
use crate::core::promise::Promise;
use crate::core::usage::Tally;

/// The names of the revisions.
const LEDGER: &str = "ledger";
const BASE: &str = "base";

/// How far a promise is, as it is stored.
#[derive(Serialize, Deserialize)]
struct Progress {
    state: PromiseState,
    from: u64,
    until: u64,
    units: Vec<String>,
    cause: String,
    #[serde(default)]
    tally: Tally,
}

/// The promises that were loaded, with the revision of the ledger, and that up to which some may be gone.
pub struct LoadedPromises {
    pub promises: Vec<Promise>,
    pub revision: u64,
    pub base: u64,
}

/// The rows of changes, as they are after all of them.
pub fn group(changes: &[Change]) -> PromiseGroup {
    let mut rows = std::collections::BTreeMap::new();
    let mut group = PromiseGroup::default();
    let (mut revision, mut base) = (0, 0);
    for change in changes.iter().map(|change| &change.promises).filter(|change| change.revision > 0) {
        rows.extend(change.promises.iter().map(|promise| (promise.number, row(promise))));
        for number in &change.removed {
            rows.remove(number);
            group.removed.push(column(*number));
        }
        (revision, base) = (change.revision, base.max(change.base));
    }
    group.rows = rows.into_values().collect();
    let revisions = [(LEDGER, revision), (BASE, base)].into_iter().filter(|(_, revision)| *revision > 0);
    let named = |(name, revision): (&str, u64)| PromiseRevisionRow {
        name: name.to_owned(),
        revision: column(revision),
    };
    group.revisions = revisions.map(named).collect();
    group
}

fn row(promise: &Promise) -> PromiseRow {
    let Promise { state, from, until, units, cause, tally, .. } = promise.clone();
    PromiseRow {
        number: column(promise.number),
        id: promise.id.clone(),
        idempotency_key: promise.key.clone(),
        asked: Value::Object(promise.asked.to_map()).to_string(),
        progress: text(&Progress { state, from, until, units, cause, tally }),
        revision: column(promise.revision),
        made_at: column(promise.made_at),
        made_by: estimand_store::actor(&promise.made_by),
    }
}

pub fn loaded(stored: StoredPromises) -> LoadedPromises {
    let revision = |name: &str| {
        let row = stored.revisions.iter().find(|row| row.name == name);
        row.map_or(0, |row| known(row.revision))
    };
    let (ledger, base) = (revision(LEDGER), revision(BASE));
    let promises = stored.rows.into_iter().filter_map(|row| {
        let id = row.id.clone();
        parse(row)
            .inspect_err(|cause| {
                tracing::error!(id, cause, "a stored promise cannot be read; it is left alone");
            })
            .ok()
    });
    LoadedPromises { promises: promises.collect(), revision: ledger, base }
}

fn parse(row: PromiseRow) -> Result<Promise, String> {
    let Progress { state, from, until, units, cause, tally } = value(&row.progress)?;
    Ok(Promise {
        number: known(row.number),
        id: row.id,
        key: row.idempotency_key,
        asked: PromiseRequest::from_json(value(&row.asked)?)?,
        state,
        from,
        until,
        units,
        cause,
        tally,
        revision: known(row.revision),
        made_at: known(row.made_at),
        made_by: row.made_by,
    })
}
