//! `t_reservation`, the reservations; `t_credit_entry`, the journal of credits; `t_bid`, what was asked for; and `t_predictor`,
//! from what demand is predicted.
//!
//! A change is one transaction, under the claim of the reservation service: money never moves without the reservation that it
//! is for. The revision of that claim is the highest number that a reservation ever had.

use diesel::dsl::max;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::backend::{Backend, on};
use crate::owner::advance;
use crate::schema::{t_bid, t_credit_entry, t_predictor, t_reservation};
use crate::statement::{Fixed, Keys, Rows, Value, write_all};
use crate::{Claim, Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct ReservationRow {
    pub number: i64,
    pub id: String,
    pub idempotency_key: Option<String>,
    /// The account that pays.
    pub account: String,
    /// As JSON; so `progress`.
    pub document: String,
    pub progress: String,
    pub made_at: i64,
    pub made_by: String,
    pub ended_at: Option<i64>,
}

/// A movement of credits.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct CreditEntryRow {
    pub number: i64,
    pub at: i64,
    /// None: the credits are new.
    pub payer: Option<String>,
    pub payee: String,
    pub amount: i64,
    pub reason: String,
    pub reservation: Option<i64>,
    /// The key of a grant.
    pub idempotency_key: Option<String>,
    pub actor: String,
}

/// A request with its worth.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct BidRow {
    pub number: i64,
    pub at: i64,
    /// As JSON.
    pub bid: String,
}

/// Everything that one transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationGroup {
    /// New or changed.
    pub reservations: Vec<ReservationRow>,
    /// The numbers of those that are deleted.
    pub deleted: Vec<i64>,
    /// All new.
    pub entries: Vec<CreditEntryRow>,
    /// All new.
    pub bids: Vec<BidRow>,
    /// Bids up to this number are removed.
    pub removed_bids: Option<i64>,
    /// The predictor that is chosen, as JSON, if another one is.
    pub predictor: Option<String>,
    /// The highest number that a reservation ever had.
    pub highest: i64,
}

/// Everything that is kept in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredReservations {
    pub reservations: Vec<ReservationRow>,
    /// The balance of each account.
    pub balances: Vec<(String, i64)>,
    /// All that was ever granted.
    pub granted: i64,
    /// The grants that had a key.
    pub keyed_grants: Vec<CreditEntryRow>,
    /// The number of the last entry of the journal, and that of the last bid.
    pub last_entry: i64,
    pub last_bid: i64,
    /// The predictor that was chosen last, as JSON.
    pub predictor: Option<String>,
}

static RESERVATIONS: Rows = Rows {
    table: "t_reservation",
    columns: &[
        "number",
        "id",
        "idempotency_key",
        "account",
        "document",
        "progress",
        "made_at",
        "made_by",
        "ended_at",
    ],
    replaced_by: 1,
};
static ENTRIES: Rows = Rows {
    table: "t_credit_entry",
    columns: &[
        "number",
        "at",
        "payer",
        "payee",
        "amount",
        "reason",
        "reservation",
        "idempotency_key",
        "actor",
    ],
    replaced_by: 0,
};
static BIDS: Rows = Rows { table: "t_bid", columns: &["number", "at", "bid"], replaced_by: 0 };
static PREDICTOR: Rows = Rows { table: "t_predictor", columns: &["number", "choice"], replaced_by: 1 };
/// The number of the one predictor.
const THE_PREDICTOR: i64 = 1;
static NUMBERS: Keys = Keys { table: "t_reservation", columns: &["number"] };

/// An account and a sum, as a database gives it.
#[derive(QueryableByName)]
struct Sum {
    #[diesel(sql_type = Text)]
    account: String,
    #[diesel(sql_type = Nullable<BigInt>)]
    total: Option<i64>,
}

/// The journal has what was paid by each account and what was paid to it.
const BALANCES: &str = "SELECT account, CAST(SUM(amount) AS {INTEGER}) AS total FROM (\
    SELECT payee AS account, amount FROM t_credit_entry \
    UNION ALL SELECT payer AS account, -amount AS amount FROM t_credit_entry WHERE payer IS NOT NULL\
    ) movements GROUP BY account ORDER BY account";
const GRANTED: &str = "SELECT 'granted' AS account, CAST(SUM(amount) AS {INTEGER}) AS total \
    FROM t_credit_entry WHERE payer IS NULL";

impl Connection {
    /// All reservations, and the balances of all accounts.
    pub fn load_reservations(&mut self) -> Result<StoredReservations, Error> {
        self.read("loading the reservations", |backend| {
            let reservations = on!(backend, connection => t_reservation::table
                .order(t_reservation::number)
                .load(connection))?;
            let balances = sums(backend, BALANCES)?;
            let granted = sums(backend, GRANTED)?.first().map_or(0, |(_, granted)| *granted);
            let last_entry: Option<i64> = on!(backend, connection => t_credit_entry::table
                .select(max(t_credit_entry::number))
                .first(connection))?;
            let last_bid: Option<i64> =
                on!(backend, connection => t_bid::table.select(max(t_bid::number)).first(connection))?;
            let keyed_grants = on!(backend, connection => t_credit_entry::table
                .filter(t_credit_entry::idempotency_key.is_not_null())
                .order(t_credit_entry::number)
                .load(connection))?;
            let predictor: Option<String> = on!(backend, connection => t_predictor::table
                .filter(t_predictor::number.eq(THE_PREDICTOR))
                .select(t_predictor::choice)
                .first(connection)
                .optional())?;
            Ok(StoredReservations {
                reservations,
                predictor,
                keyed_grants,
                balances,
                granted,
                last_entry: last_entry.unwrap_or(0),
                last_bid: last_bid.unwrap_or(0),
            })
        })
    }

    /// Stores changes, all or nothing.
    pub fn commit_reservations(&mut self, claim: &Claim, group: &ReservationGroup) -> Result<(), Error> {
        self.write("storing reservations", |backend| {
            advance(backend, claim, group.highest)?;
            let deleted: Vec<Value<'_>> = group.deleted.iter().map(|number| Value::Int(*number)).collect();
            NUMBERS.delete(backend, &deleted)?;
            write_all(backend, &RESERVATIONS, &group.reservations, |row, values| {
                values.extend(row.values());
            })?;
            write_all(backend, &ENTRIES, &group.entries, |row, values| values.extend(row.values()))?;
            if let Some(last) = group.removed_bids {
                let sql = "DELETE FROM t_bid WHERE number <= ?";
                Fixed { sql, values: &[Value::Int(last)] }.execute_on(backend)?;
            }
            write_all(backend, &BIDS, &group.bids, |row, values| {
                values.extend([Value::Int(row.number), Value::Int(row.at), Value::Text(&row.bid)]);
            })?;
            write_all(backend, &PREDICTOR, group.predictor.as_slice(), |choice, values| {
                values.extend([Value::Int(THE_PREDICTOR), Value::Text(choice)]);
            })?;
            Ok(())
        })
    }

    /// The entries of an account's journal before a number, the newest first; of all accounts if none is given.
    pub fn credit_entries(
        &mut self,
        account: Option<&str>,
        before: i64,
        limit: i64,
    ) -> Result<Vec<CreditEntryRow>, Error> {
        self.read("reading the journal of credits", |backend| {
            on!(backend, connection => {
                let entries = t_credit_entry::table
                    .filter(t_credit_entry::number.lt(before))
                    .order(t_credit_entry::number.desc())
                    .limit(limit);
                match account {
                    None => entries.load(connection),
                    Some(account) => entries
                        .filter(t_credit_entry::payee.eq(account).or(t_credit_entry::payer.eq(account)))
                        .load(connection),
                }
            })
        })
    }

    /// The last bids from an instant on, in their order.
    pub fn bids(&mut self, since: i64, limit: i64) -> Result<Vec<BidRow>, Error> {
        self.read("reading the bids", |backend| {
            let newest: Vec<BidRow> = on!(backend, connection => t_bid::table
                .filter(t_bid::at.ge(since))
                .order(t_bid::number.desc())
                .limit(limit)
                .load(connection))?;
            Ok(newest.into_iter().rev().collect())
        })
    }
}

fn sums(backend: &mut Backend, sql: &str) -> QueryResult<Vec<(String, i64)>> {
    let integer = if matches!(backend, Backend::Mysql(_)) { "SIGNED" } else { "BIGINT" };
    let sql = sql.replace("{INTEGER}", integer);
    let sums: Vec<Sum> = on!(backend, connection => diesel::sql_query(&sql).load(connection))?;
    Ok(sums.into_iter().map(|Sum { account, total }| (account, total.unwrap_or(0))).collect())
}

impl ReservationRow {
    fn values(&self) -> [Value<'_>; 9] {
        [
            Value::Int(self.number),
            Value::Text(&self.id),
            Value::OptText(self.idempotency_key.as_deref()),
            Value::Text(&self.account),
            Value::Text(&self.document),
            Value::Text(&self.progress),
            Value::Int(self.made_at),
            Value::Text(&self.made_by),
            Value::OptInt(self.ended_at),
        ]
    }
}

impl CreditEntryRow {
    fn values(&self) -> [Value<'_>; 9] {
        [
            Value::Int(self.number),
            Value::Int(self.at),
            Value::OptText(self.payer.as_deref()),
            Value::Text(&self.payee),
            Value::Int(self.amount),
            Value::Text(&self.reason),
            Value::OptInt(self.reservation),
            Value::OptText(self.idempotency_key.as_deref()),
            Value::Text(&self.actor),
        ]
    }
}
