//! The output: a table that grows while it is measured, or JSON at the end.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::contest::{Rounds, Spread};
use crate::histogram::Histogram;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of the machine and the run.
    about: Vec<String>,
    ratios: Vec<Ratio>,
    timings: Vec<Timing>,
    figures: Vec<Figure>,
    spreads: Vec<Spreading>,
    /// True if rows are printed as soon as they are known.
    #[serde(skip)]
    as_table: bool,
}

/// Estimand's work for each unit of another program's.
#[derive(Debug, Serialize)]
struct Ratio {
    what: String,
    against: String,
    ratio: Spread,
    /// By processor time instead of requests a second.
    cpu_ratio: Option<Spread>,
    /// The goal of the ratio.
    target: Option<f64>,
    ours_per_second: f64,
    theirs_per_second: f64,
    /// Of Estimand's answers.
    p50_us: f64,
    p99_us: f64,
}

/// How long something took, each time that it happened.
#[derive(Debug, Serialize)]
struct Timing {
    what: String,
    count: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// A figure that is compared with nothing.
#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
}

/// A figure that is compared with nothing, round by round.
#[derive(Debug, Serialize)]
struct Spreading {
    what: String,
    spread: Spread,
    unit: &'static str,
}

const WHAT: usize = 48;
const AGAINST: usize = 44;

impl Report {
    pub fn new(as_table: bool) -> Self {
        Report {
            about: Vec::new(),
            ratios: Vec::new(),
            timings: Vec::new(),
            figures: Vec::new(),
            spreads: Vec::new(),
            as_table,
        }
    }

    /// A remark that the figures are to be read with.
    pub fn about(&mut self, remark: String) {
        if self.as_table {
            println!("# {remark}");
        }
        self.about.push(remark);
    }

    /// The title of the next part, if nothing in it is compared.
    pub fn part_alone(&self, name: &str) {
        if self.as_table {
            println!("\n{name}");
        }
    }

    /// The title of the next part.
    pub fn part(&self, name: &str) {
        if self.as_table {
            println!(
                "\n{name:<WHAT$}  {:<AGAINST$}  {:>21}  {:>7}  {:>6}  {:>9}  {:>9}  {:>8}  {:>8}",
                "against", "ratio (min to max)", "target", "by cpu", "ours/s", "theirs/s", "p50", "p99"
            );
        }
    }

    pub fn ratio(&mut self, what: &str, against: &str, target: Option<f64>, ours: &Rounds, theirs: &Rounds) {
        let ratio = Ratio {
            what: what.to_owned(),
            against: against.to_owned(),
            ratio: ours.against(theirs),
            cpu_ratio: ours.against_by_cpu(theirs),
            target,
            ours_per_second: ours.per_second(),
            theirs_per_second: theirs.per_second(),
            p50_us: micros(ours.quantile(0.5)),
            p99_us: micros(ours.quantile(0.99)),
        };
        if self.as_table {
            ratio.print();
        }
        self.ratios.push(ratio);
    }

    pub fn timing(&mut self, what: &str, times: &Histogram) {
        let micros = |share| micros(times.quantile(share));
        let (p50_us, p99_us, max_us) = (micros(0.5), micros(0.99), micros(1.0));
        let timing = Timing { what: what.to_owned(), count: times.count(), p50_us, p99_us, max_us };
        if self.as_table {
            let [p50, p99, max] = [p50_us, p99_us, max_us].map(latency);
            let count = timing.count;
            println!("{what:<WHAT$}  p50 {p50:>9}  p99 {p99:>9}  max {max:>9}  of {count}");
        }
        self.timings.push(timing);
    }

    pub fn figure(&mut self, what: &str, value: f64, unit: &'static str) {
        let figure = Figure { what: what.to_owned(), value, unit };
        if self.as_table {
            let line = format!("{:<WHAT$}  {} {unit}", figure.what, rounded(value));
            println!("{}", line.trim_end());
        }
        self.figures.push(figure);
    }

    /// A figure of which there is one a round.
    pub fn spread(&mut self, what: &str, spread: Spread, unit: &'static str) {
        let Spread { median, min, max } = spread;
        if self.as_table {
            let (median, min, max) = (rounded(median), rounded(min), rounded(max));
            println!("{}", format!("{what:<WHAT$}  {median} ({min} to {max}) {unit}").trim_end());
        }
        self.spreads.push(Spreading { what: what.to_owned(), spread, unit });
    }

    /// Everything as a page for people.
    pub fn markdown(&self, title: &str) -> String {
        let mut page = format!("# {title}\n\n");
        for remark in &self.about {
            let _ = writeln!(page, "- {remark}");
        }
        page += "\n| what | beside | ratio (min to max) | aim | by cpu | ours/s | theirs/s | p50 | p99 |\n";
        page += "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for ratio in &self.ratios {
            let _ =
                writeln!(page, "| {} | {} | {} |", ratio.what, ratio.against, ratio.columns().join(" | "));
        }
        if !self.figures.is_empty() {
            page += "\n| figure | |\n| --- | --- |\n";
        }
        for Figure { what, value, unit } in &self.figures {
            let _ = writeln!(page, "| {} | {} {unit} |", what.trim(), rounded(*value));
        }
        page
    }

    /// Prints the JSON; a table is complete by now.
    pub fn finish(&self) -> anyhow::Result<()> {
        if !self.as_table {
            println!("{}", serde_json::to_string_pretty(self)?);
        }
        Ok(())
    }
}

impl Ratio {
    /// All but what is measured and against what.
    fn columns(&self) -> [String; 7] {
        let Spread { median, min, max } = self.ratio;
        [
            format!("{} ({} to {})", rounded(median), rounded(min), rounded(max)),
            self.target.map(|target| format!("≥ {target}")).unwrap_or_default(),
            self.cpu_ratio.map(|spread| rounded(spread.median)).unwrap_or_default(),
            rounded(self.ours_per_second),
            rounded(self.theirs_per_second),
            latency(self.p50_us),
            latency(self.p99_us),
        ]
    }

    fn print(&self) {
        let [spread, target, cpu, ours, theirs, p50, p99] = self.columns();
        println!(
            "{:<WHAT$}  {:<AGAINST$}  {spread:>21}  {target:>7}  {cpu:>6}  {ours:>9}  {theirs:>9}  {p50:>8}  {p99:>8}",
            self.what, self.against,
        );
    }
}

fn micros(latency: Duration) -> f64 {
    latency.as_nanos() as f64 / 1e3
}

fn latency(micros: f64) -> String {
    if micros < 1_000.0 { format!("{micros:.0} µs") } else { format!("{:.2} ms", micros / 1e3) }
}

/// With as many digits as mean something.
pub fn rounded(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => {
            let digits = format!("{number:.0}");
            let mut out = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place).is_multiple_of(3) {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_what_can_be_read() {
        assert_eq!([0.8765, 12.34, 345.6, 1_234_567.8].map(rounded), ["0.88", "12.3", "346", "1,234,568"]);
        assert_eq!([950.4, 1_234.0].map(latency), ["950 µs", "1.23 ms"]);
    }
}
