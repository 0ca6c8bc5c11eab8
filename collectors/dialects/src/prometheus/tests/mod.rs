//! Texts that both formats accept or reject, and texts rendered from a model, read back.
#![allow(clippy::unwrap_used)]
mod classic;
mod open_metrics;
mod rendered;
mod stream;

use estimand_api::registration::Format;

use crate::build::testing::{read, shown};

/// Texts that are taken as a whole, with their values. `end` is what follows each.
fn check_accepted(end: &str, table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(shown(read(Format::Prometheus, &format!("{text}{end}"))), *expected, "{text:?}");
    }
}

/// Texts of which exactly one line is left out, for a reason that has these words.
fn check_rejected(end: &str, table: &[(&str, &str)]) {
    for (text, part) in table {
        let reading = read(Format::Prometheus, &format!("the_good_one 1\n{text}{end}")).unwrap();
        let shown = shown(Ok(reading.clone()));
        assert!(shown.starts_with(r#"{"the_good_one":{"type":"unknown","value":1}"#), "{text:?}: {shown}");
        assert_eq!(reading.rejected.count, 1, "{text:?}: {shown}");
        let reason = &reading.rejected.reasons[0];
        assert!(reason.contains(part) && reason.contains("; expected "), "{text:?}: {reason}");
    }
}
