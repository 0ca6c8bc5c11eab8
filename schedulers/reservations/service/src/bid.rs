//! A bid: what was asked for, and the most that it was said to be worth. Demand is predicted from bids, whether they were
//! granted or not.

use std::collections::BTreeMap;

use estimand_api::promise::DEFAULT_CLASS;
use estimand_reservations::Money;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::settings::Settings;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bid {
    /// A request repeated with the same key is the same bid. Without one it is another bid each time.
    pub key: Option<String>,
    pub class: String,
    /// Of each unit.
    pub resources: BTreeMap<String, u64>,
    pub width: u64,
    /// Seconds.
    pub duration: u64,
    /// Seconds since 1970; so `by`.
    pub from: u64,
    pub by: u64,
    pub value: Money,
}

impl Bid {
    /// The bid that a document makes now, in seconds since 1970. It is worth no more than its account could pay, so nobody
    /// makes times dear for others with credits that are not there.
    pub fn of(
        document: &Document,
        key: Option<String>,
        account_has: Money,
        now: u64,
        settings: &Settings,
    ) -> Bid {
        let last = settings.instant(settings.slot_from(now).saturating_add(settings.horizon));
        Bid {
            key,
            class: document.class.clone().unwrap_or_else(|| DEFAULT_CLASS.to_owned()),
            resources: document.resources.clone(),
            width: document.width,
            duration: document.length(document.width),
            from: document.from.unwrap_or(now).max(now),
            by: document.by.unwrap_or(last),
            value: document.value.unwrap_or_default().min(account_has),
        }
    }
}
