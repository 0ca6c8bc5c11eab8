//! Reservations, prices and credits as readers see them.
//!
//! Credits are written as decimal texts, such as `"2.5"`, so that no reader rounds them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::is_zero;

/// A promise of a time at a price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationRecord {
    pub id: String,
    /// `PENDING` (being promised), `PROMISED`, `ACTIVE` (its time has come), `OVER`, `CANCELLED`, `BROKEN` (the capacity was
    /// lost) or `REFUSED` (it was never promised).
    pub state: String,
    /// The account that pays.
    pub user: String,
    /// How many units it has.
    #[serde(default)]
    pub width: u64,
    /// In credits.
    pub price: String,
    /// The cost of its changes beside the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fees: Option<String>,
    /// The first reservation of the list that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The part of the price that was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<String>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub start: DateTime<Utc>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub end: DateTime<Utc>,
    /// The promise in the ledger of capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// The task, or the array of tasks, that runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The start that goes to a worker of Celery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celery: Option<CeleryRecord>,
    /// Why it is in its state, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub made_at: DateTime<Utc>,
    pub made_by: String,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<DateTime<Utc>>,
    /// As it was asked for, with instants in place of spans.
    #[schema(value_type = Object)]
    pub document: Map<String, Value>,
}

impl ReservationRecord {
    /// Nothing more happens to it.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "OVER" | "CANCELLED" | "BROKEN" | "REFUSED")
    }
}

/// The message of a start for Celery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CeleryRecord {
    /// The id of the task there, however often it is published.
    pub id: String,
    /// `DUE` (it is published when its time has come), `PUBLISHED` (the broker has it) or `MISSED` (its time was over before).
    pub state: String,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub published_at: Option<DateTime<Utc>>,
    /// How much later than its start that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_milliseconds: Option<u64>,
    /// The reason that it is or was not published in its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<String>,
}

/// The capacity that was promised, and how much of it was delivered so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Guarantee {
    /// Of each unit: `cpu` in thousandths of a processor, `memory` in bytes.
    pub resources: BTreeMap<String, u64>,
    pub units: u64,
    pub promised_seconds: u64,
    /// The part of them that was there for its task, or for the tasks of others. Of several units the mean.
    pub delivered_seconds: u64,
    /// The time that its task was on a node, as the task service has it, of all units together; absent without a task of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had_seconds: Option<u64>,
    /// The time in which its task could have run and did not, of all units together. It costs nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_seconds: u64,
    /// The rest of its time after its task had ended, or it was cancelled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_back_seconds: u64,
    /// The node of each unit.
    pub nodes: Vec<String>,
    /// How often units were moved to other nodes before its start or while it ran.
    pub moves: u32,
    /// All that was not given back was delivered; absent until it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<bool>,
}

/// Reservations, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationPage {
    pub reservations: Vec<ReservationRecord>,
    /// The value of `before` that gives the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The price of a request now. Nothing is promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceQuote {
    /// In credits.
    pub price: String,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub start: DateTime<Utc>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub end: DateTime<Utc>,
    /// How many units it would have.
    #[serde(default)]
    pub width: u64,
    /// The value that was given covers the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<bool>,
    /// Of a change: the credits that would be held beyond the present price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    /// Of a change that costs less: the credits that would be given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<String>,
    /// The revision of the ledger for which it was made.
    pub revision: u64,
}

/// Reservations of which all were made, or none would have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationsMade {
    /// Of all together, in credits.
    pub price: String,
    /// In the order in which they were asked for.
    pub reservations: Vec<ReservationRecord>,
}

/// The prices of a list of requests now, each with those before it promised. Nothing is promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceQuotes {
    /// Of all together, in credits.
    pub price: String,
    /// The value that was given covers the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<bool>,
    pub quotes: Vec<PriceQuote>,
}

/// The price of a request by its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceCurve {
    /// The seconds between two starts.
    pub slot: u64,
    /// The seconds that it takes.
    pub duration: u64,
    pub points: Vec<PricePoint>,
    /// The revision of the ledger for which it was made.
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor: Option<PredictorRecord>,
}

/// The predictor of demand that prices count on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PredictorRecord {
    /// `nothing`, `spread`, `seasonal` or `optimum`.
    pub name: String,
    /// When it was chosen; absent if nobody chose one.
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<DateTime<Utc>>,
    /// The seconds after which demand is expected to repeat itself.
    pub period: u64,
    /// When it was trained; absent: nothing was trained, and no demand is expected.
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub trained_at: Option<DateTime<Utc>>,
    /// How many requests of the period before it was trained on.
    pub bids: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PricePoint {
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub start: DateTime<Utc>,
    /// In credits; absent where too little is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
}

/// The credits of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditAccount {
    pub user: String,
    /// Credits that can be spent.
    pub balance: String,
}

/// The accounts that the caller sees. Of all accounts the sum, with what is held and what is income, is what was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditAccounts {
    pub accounts: Vec<CreditAccount>,
    /// All together; absent for a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<String>,
    /// Of reservations that are not over: the user's own, or for an operator those of all.
    pub held: String,
    /// The operator's, of reservations that are over; absent for a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub income: Option<String>,
}

/// A movement of credits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditEntry {
    pub number: u64,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    /// Absent: the credits are new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub to: String,
    pub amount: String,
    /// `grant`, `hold`, `refund`, `fee` or `payment`.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    pub by: String,
}

/// A part of the journal, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditJournal {
    pub entries: Vec<CreditEntry>,
    /// The value of `before` that gives the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// New credits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditGrant {
    pub user: String,
    /// More than 0, such as `"100"`.
    pub amount: String,
}
