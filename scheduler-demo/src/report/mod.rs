//! Presentation of runs: bars while they go on; then `report.json` with everything, a table, and a self-contained page.
//!
//! Pure functions of the runs: no clock, no file, no network. The JSON has everything that is drawn.

mod bars;
mod chart;
mod page;
#[cfg(test)]
mod tests;
mod text;

use serde_json::{Value, json};

use crate::run::Run;

pub use bars::{LiveBars, bars};
pub use page::{figure8, page};
pub use text::text;

/// The runs with all their figures.
pub fn to_json(runs: &[Run]) -> Value {
    let runs: Vec<Value> = runs
        .iter()
        .map(|run| {
            let mut value = json!(run);
            value["overIdeal"] = json!(run.over_ideal());
            value
        })
        .collect();
    json!({ "version": 1, "runs": runs })
}

/// The runs in what [`to_json`] gave.
pub fn from_json(report: &Value) -> Result<Vec<Run>, serde_json::Error> {
    serde_json::from_value(report["runs"].clone())
}
