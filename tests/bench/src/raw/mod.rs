//! The other side of durable writes: the databases themselves, written to with what their own drivers do
//! best, prepared statements, into the table that the service keeps its values in.

pub mod server;
pub mod sqlite;

/// The columns that one write changes in `t_data`, after the key.
pub const COLUMNS: [&str; 12] = [
    "data_name",
    "node_name",
    "data_value",
    "collected_at",
    "received_at",
    "valid_for",
    "failed",
    "lost",
    "revision",
    "epoch",
    "sequence",
    "provenance",
];

/// An upsert of one row, with `place(n)` for the n-th value and `replacing` behind the row.
fn upsert(place: impl Fn(usize) -> String, replacing: &str, new: impl Fn(&str) -> String) -> String {
    let places: Vec<String> = (1..=COLUMNS.len() + 1).map(place).collect();
    let changes: Vec<String> = COLUMNS.iter().map(|column| format!("{column} = {}", new(column))).collect();
    let (columns, places, changes) = (COLUMNS.join(", "), places.join(", "), changes.join(", "));
    format!("INSERT INTO t_data (id, {columns}) VALUES ({places}) {replacing} {changes}")
}

const ON_CONFLICT: &str = "ON CONFLICT (id) DO UPDATE SET";
const ON_DUPLICATE: &str = "ON DUPLICATE KEY UPDATE";
/// An instant of today, in microseconds, and a revision as wide. A database that is sent a row that it has
/// already writes nothing, so each row that is written takes the next one.
const FIRST: i64 = 1_700_000_000_000_000;
