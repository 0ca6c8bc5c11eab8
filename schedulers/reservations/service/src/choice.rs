//! The choice of a predictor: the value of a name of the plane, which is usually a binding, so that a predictor is swapped
//! under the service by one call.

use estimand_api::duration::Span;
use estimand_reservations::predict::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::Settings;

/// The name whose value is the choice.
pub const NAME: &str = "reservation_predictor";
/// The time after which demand repeats itself, if nothing is said.
const DAY: u64 = 86_400;
/// The most slots of such a time.
const MAX_SLOTS: u64 = 100_000;
const SECOND: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    pub method: Method,
    /// The seconds after which demand is expected to repeat itself.
    pub period: u64,
    /// When it was chosen, in microseconds since 1970; 0: nobody chose it.
    pub since: i64,
}

impl Default for Choice {
    fn default() -> Self {
        Choice { method: Method::Nothing, period: DAY, since: 0 }
    }
}

impl Choice {
    /// Reads a value: the name of a predictor, or `{"predictor": "seasonal", "period": "24h"}`.
    pub fn of_value(value: &Value, settings: &Settings) -> Result<Choice, String> {
        let method = |value: &Value| match value {
            Value::String(text) => text.parse::<Method>(),
            other => Err(format!("`{other}` is no name of a predictor")),
        };
        let Value::Object(fields) = value else {
            return Ok(Choice { method: method(value)?, ..Choice::default() });
        };
        if let Some(unknown) = fields.keys().find(|name| !["predictor", "period"].contains(&name.as_str())) {
            return Err(format!("has `{unknown}`; it has `predictor`, and `period` if need be"));
        }
        let method = method(fields.get("predictor").unwrap_or(&Value::Null))?;
        let period = fields.get("period").map_or(Ok(DAY), |value| period(value, settings))?;
        Ok(Choice { method, period, since: 0 })
    }

    /// True if the same is chosen, whenever that was.
    pub fn is_same(&self, other: &Choice) -> bool {
        (self.method, self.period) == (other.method, other.period)
    }

    /// The period in slots.
    pub fn slots(&self, settings: &Settings) -> u64 {
        settings.slot_from(self.period).clamp(1, MAX_SLOTS)
    }
}

fn period(value: &Value, settings: &Settings) -> Result<u64, String> {
    let span: Span = serde_json::from_value(value.clone()).map_err(|error| format!("`period`: {error}"))?;
    let seconds = span.as_micros().div_ceil(SECOND);
    match settings.slot_from(seconds) {
        1..=MAX_SLOTS => Ok(seconds),
        slots => Err(format!("`period` has {slots} slots of {} s; it has 1 to {MAX_SLOTS}", settings.slot)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_choice_is_a_name_or_has_a_period() {
        let settings = Settings::default();
        let read = |value: Value| Choice::of_value(&value, &settings);
        let seasonal = Choice { method: Method::Seasonal, period: DAY, since: 0 };
        assert_eq!(read(json!("seasonal")), Ok(seasonal));
        assert_eq!(read(json!({ "predictor": "seasonal" })), Ok(seasonal));
        let weekly = Choice { period: 7 * DAY, ..seasonal };
        assert_eq!(read(json!({ "predictor": "seasonal", "period": "168h" })), Ok(weekly));
        assert_eq!(
            (weekly.slots(&settings), seasonal.is_same(&Choice { since: 9, ..seasonal })),
            (10_080, true)
        );
        for (value, part) in [
            (json!("sesonal"), "there are nothing, spread, seasonal, optimum"),
            (json!(7), "`7` is no name"),
            (json!({}), "`null` is no name"),
            (json!({ "predictor": "spread", "perod": "1h" }), "has `perod`"),
            (json!({ "predictor": "spread", "period": "1000d" }), "it has 1 to 100000"),
            (json!({ "predictor": "spread", "period": 0 }), "it has 1 to 100000"),
            (json!({ "predictor": "spread", "period": [] }), "`period`: "),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(part), "{value}: {error}");
        }
    }
}
