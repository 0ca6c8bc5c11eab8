//! The figures of a study as people read them.

use std::fmt::Write as _;

use super::study::Figures;

/// A line for each way to price at each capacity. Parts are in hundredths.
pub fn table(figures: &[Figures]) -> String {
    let mut text = format!(
        "{:<9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>9} {:>6} {:>5}\n",
        "PRICING",
        "CAPACITY",
        "WELFARE",
        "BOUND",
        "OF BOUND",
        "OPTIMUM",
        "REVENUE",
        "USED",
        "ACCEPTED",
        "JOBS",
        "LATE"
    );
    for line in figures {
        let _ = writeln!(
            text,
            "{:<9} {:>8} {:>7.1}% {:>7.1}% {:>8} {:>7.1}% {:>7.1}% {:>5.1}% {:>9} {:>6} {:>5}",
            line.pricing,
            line.capacity,
            100.0 * line.welfare,
            100.0 * line.bound,
            line.of_bound.map_or_else(|| "-".to_owned(), |part| format!("{part:.3}")),
            100.0 * line.optimum,
            100.0 * line.revenue,
            100.0 * line.utilization,
            line.accepted,
            line.jobs,
            line.late
        );
    }
    text
}
