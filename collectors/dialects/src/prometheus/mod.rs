//! `prometheus`: the text that Prometheus scrapes, and OpenMetrics.
//!
//! Two formats that differ in a few rules are read by the same code: the text format 0.0.4 and OpenMetrics 1.0.
//! A text is OpenMetrics if a line of it is `# EOF` or a `# UNIT` stands before its first sample, and the text
//! format else: see [`Rules`]. A line is a record; an invalid one is left out. Rules about one sample are held to,
//! rules about all buckets of a histogram are not: those are the printing program's figures, given as they are.
//! Invariants: the work is linear in the text, and samples keep all their digits.

mod document;
mod families;
mod metadata;
mod number;
mod sample;
mod stream;

#[cfg(test)]
mod tests;

use super::build::MAX_OUTPUT_BYTES;
use super::{Dialect, DialectKind, Lines, Output, Reading, if_said};
use estimand_api::registration::Format;

pub(super) const KIND: DialectKind = DialectKind {
    name: "prometheus",
    about: "Prometheus text format, OpenMetrics",
    format: Format::Prometheus,
    dialect: &Prometheus,
};

struct Prometheus;

impl Dialect for Prometheus {
    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }

    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, |text| document::read(text, Rules::of(text)))
    }

    fn lines(&'static self) -> Box<dyn Lines> {
        Box::new(stream::Documents::new(self))
    }
}

/// The format that a text is held to.
///
/// OpenMetrics wants exactly one space between words and neither comments nor empty lines, has no comma after
/// the last label, more types, units and exemplars, times in seconds instead of milliseconds, names of samples
/// that follow from the type (`_total`), all metadata before the samples, and each family in one piece. The
/// text format is taken with the freedom that Prometheus itself allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    Classic,
    OpenMetrics,
}

impl Rules {
    fn of(text: &str) -> Rules {
        let before_samples = |line: &&str| line.is_empty() || line.starts_with('#');
        let has_unit = text.lines().take_while(before_samples).any(|line| line.starts_with("# UNIT "));
        match has_unit || text.lines().any(|line| line == END) {
            true => Rules::OpenMetrics,
            false => Rules::Classic,
        }
    }
}

/// The line that ends an OpenMetrics text.
const END: &str = "# EOF";
