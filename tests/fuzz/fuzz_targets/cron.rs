//! Cron expressions: after their text, perhaps, a line with the second since 1970 from which on they are asked.

#![no_main]

use chrono::{DateTime, Utc};
use estimand_api::cron::CronExpr;
use estimand_fuzz::{assert_line, text};

/// How many times are asked for.
const FIRES: usize = 4;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(text) = text(data) else { return };
    let (text, second) = text.split_once('\n').unwrap_or((text, ""));
    let expr = match CronExpr::parse(text) {
        Ok(expr) => expr,
        Err(error) => return assert_line(&error.to_string()),
    };
    assert_eq!(CronExpr::parse(expr.as_str()).as_ref(), Ok(&expr));
    let mut at =
        second.parse().ok().and_then(|second| DateTime::from_timestamp(second, 0)).unwrap_or_default();
    // A schedule that was parsed fires.
    assert!(expr.next_fire(DateTime::UNIX_EPOCH).is_some());
    for _ in 0..FIRES {
        let Some(next) = expr.next_fire(at) else { return };
        assert!(next > at);
        // A question on the way has the same answer.
        let seconds = next.timestamp() - at.timestamp();
        for between in [at.timestamp() + seconds / 2, next.timestamp() - 1] {
            let between: Option<DateTime<Utc>> = DateTime::from_timestamp(between, 0);
            assert_eq!(between.and_then(|between| expr.next_fire(between)), Some(next));
        }
        at = next;
    }
});
