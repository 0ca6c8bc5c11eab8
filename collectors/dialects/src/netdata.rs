//! `netdata`: the text that Netdata's external plugins print, usually for as long as they live.
//!
//! `CHART` and `DIMENSION` declare charts; `BEGIN`, `SET` and `END` bring a row of values. An answer is all charts
//! that have had a row, given at each `END`. Other words in capitals are passed over, as they come and go with
//! Netdata's versions. The reader has the state of one process; its memory is bounded by [`MOST_HELD_BYTES`] for any
//! output.

use estimand_api::registration::Format;
use std::collections::BTreeMap;
use std::time::Instant;

use super::build::{MAX_OUTPUT_BYTES, Object, none_good};
use super::{Answer, Dialect, DialectKind, Lines, Output, Reading, head, if_said, text_of};

mod chart;
mod row;
#[cfg(test)]
mod tests;
mod words;

use chart::{Chart, Dimension};
use row::Raw;

/// Far more than fits into a value.
const MOST_HELD_BYTES: usize = 512 * 1024;

pub(super) const KIND: DialectKind = DialectKind {
    name: "netdata",
    about: "plugins.d, also as a stream",
    format: Format::Netdata,
    dialect: &Netdata,
};

struct Netdata;

impl Dialect for Netdata {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, read)
    }

    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }

    fn lines(&'static self) -> Box<dyn Lines> {
        Box::new(Stream { reader: Reader::default(), since: Instant::now() })
    }
}

/// The output of a process that has ended.
fn read(text: &str) -> Result<Reading, String> {
    let mut reader = Reader::default();
    let mut reading = Reading::default();
    let mut has_row = false;
    for (number, line) in (1..).zip(text.lines()) {
        match reader.line(line, None) {
            Ok(ends_row) => has_row |= ends_row,
            Err(Problem::Disabled) => return Err(Problem::DISABLED.to_owned()),
            Err(Problem::Bad(why)) => {
                reading.rejected.push(|| format!("line {number}: `{}` {why}", head(line.trim())));
            }
        }
    }
    if has_row {
        reading.answer = reader.answer()?;
    } else if reading.rejected.count > 0 {
        return Err(format!(
            "{}; expected CHART, DIMENSION, BEGIN, SET and END as Netdata's plugins print them",
            none_good("rows", &reading.rejected)
        ));
    }
    Ok(reading)
}

/// The output of a process that goes on.
struct Stream {
    reader: Reader,
    since: Instant,
}

impl Lines for Stream {
    fn line(&mut self, line: &[u8]) -> Result<Reading, String> {
        let Some(line) = text_of(line)? else { return Ok(Reading::default()) };
        let now_micros = u64::try_from(self.since.elapsed().as_micros()).ok();
        let mut reading = Reading::default();
        match self.reader.line(line, now_micros) {
            Ok(true) => reading.answer = self.reader.answer()?,
            Ok(false) => {}
            Err(Problem::Disabled) => return Err(Problem::DISABLED.to_owned()),
            Err(Problem::Bad(why)) => reading.rejected.push(|| format!("`{}` {why}", head(line))),
        }
        Ok(reading)
    }
}

enum Problem {
    /// The line is invalid, and is left out.
    Bad(&'static str),
    /// The plugin wants to be heard no more.
    Disabled,
}

impl Problem {
    const DISABLED: &'static str = "the plugin printed DISABLE: it has nothing to collect here";
}

impl From<&'static str> for Problem {
    fn from(why: &'static str) -> Self {
        Problem::Bad(why)
    }
}

/// The chart and the set that lines belong to which do not name them.
#[derive(Default)]
enum Subject {
    #[default]
    Nothing,
    /// The chart of this id.
    Chart(String),
    /// A chart that is obsolete or was refused: lines about it have no consequence.
    Passed,
}

#[derive(Default)]
struct Reader {
    charts: BTreeMap<String, Chart>,
    /// By the measure of [`Chart::held`].
    held_bytes: usize,
    defined: Subject,
    open: Subject,
}

impl Reader {
    /// Takes a line. Whether it ends a row, so that there is an answer. `now_micros` is on any clock that is
    /// steady, and none if the lines do not come as time passes.
    fn line(&mut self, line: &str, now_micros: Option<u64>) -> Result<bool, Problem> {
        let words = words::split(line);
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        match word(0) {
            "CHART" => self.chart(&words)?,
            "DIMENSION" => self.dimension(&words)?,
            "BEGIN" => self.begin(word(1), word(2), now_micros)?,
            "SET" => self.set(word(1), word(2))?,
            "END" => return self.end(),
            "FLUSH" => drop(self.discard()),
            "DISABLE" => return Err(Problem::Disabled),
            "" => {}
            comment if comment.starts_with('#') => {}
            other if other.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')) => {}
            _ => return Err(Problem::Bad("is no line of Netdata's")),
        }
        Ok(false)
    }

    fn chart(&mut self, words: &[&str]) -> Result<(), Problem> {
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        self.defined = Subject::Passed;
        let id = word(1);
        if id.split_once('.').is_none_or(|(kind, id)| kind.is_empty() || id.is_empty()) {
            return Err(Problem::Bad("has no chart id such as `system.cpu`"));
        }
        if has_option(word(10), "obsolete") {
            if let Some(chart) = self.charts.remove(id) {
                self.held_bytes -= chart.held(id);
            }
            return Ok(());
        }
        let chart = Chart::new(word(3), word(4), word(5));
        let known_bytes = self.charts.get(id).map_or(0, |known| known.described_by(id));
        self.hold(known_bytes, chart.described_by(id))?;
        match self.charts.get_mut(id) {
            Some(known) => known.redescribe(chart),
            None => drop(self.charts.insert(id.to_owned(), chart)),
        }
        self.defined = Subject::Chart(id.to_owned());
        Ok(())
    }

    fn dimension(&mut self, words: &[&str]) -> Result<(), Problem> {
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let chart = match &self.defined {
            Subject::Nothing => return Err(Problem::Bad("comes before any CHART")),
            Subject::Passed => return Ok(()),
            Subject::Chart(id) => id.clone(),
        };
        let id = word(1);
        if id.is_empty() {
            return Err(Problem::Bad("has no id"));
        }
        let dimension = Dimension::read(id, word(2), word(3), word(4), word(5))?;
        let known_bytes = self.charts.get(&chart).map_or(0, |chart| chart.held_by(id));
        if has_option(word(6), "obsolete") {
            self.held_bytes -= known_bytes;
        } else {
            self.hold(known_bytes, dimension.held(id))?;
        }
        if let Some(chart) = self.charts.get_mut(&chart) {
            match has_option(word(6), "obsolete") {
                true => chart.remove(id),
                false => chart.define(id, dimension),
            }
        }
        Ok(())
    }

    /// Takes note that something is held instead of something else, unless that is too much.
    fn hold(&mut self, instead_of_bytes: usize, bytes: usize) -> Result<(), Problem> {
        let held_bytes = self.held_bytes - instead_of_bytes + bytes;
        if held_bytes > MOST_HELD_BYTES {
            return Err(Problem::Bad(
                "is left out, because there are too many charts and dimensions already",
            ));
        }
        self.held_bytes = held_bytes;
        Ok(())
    }

    fn begin(&mut self, id: &str, micros: &str, now_micros: Option<u64>) -> Result<(), Problem> {
        let was_open = self.discard();
        self.open = Subject::Passed;
        let chart = self.charts.get_mut(id).ok_or("is about a chart that is not defined")?;
        chart.begin(micros.parse().ok().filter(|&micros| micros > 0), now_micros);
        self.open = Subject::Chart(id.to_owned());
        match was_open {
            true => Err(Problem::Bad("comes before the END of the row before, which is lost")),
            false => Ok(()),
        }
    }

    fn set(&mut self, id: &str, value: &str) -> Result<(), Problem> {
        let chart = match &self.open {
            Subject::Nothing => return Err(Problem::Bad("comes before any BEGIN")),
            Subject::Passed => return Ok(()),
            Subject::Chart(id) => self.charts.get_mut(id),
        };
        let chart = chart.ok_or("is about a chart that is obsolete")?;
        let dimension = chart.dimension(id).ok_or("is about a dimension that is not defined")?;
        // Netdata's plugins say so where a dimension has no value in this row.
        if !value.is_empty() {
            dimension.set(Raw::read(value).ok_or("has a value that is no number")?);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<bool, Problem> {
        match std::mem::take(&mut self.open) {
            Subject::Nothing => Err(Problem::Bad("comes before any BEGIN")),
            Subject::Passed => Ok(false),
            Subject::Chart(id) => {
                let chart = self.charts.get_mut(&id).ok_or("is about a chart that is obsolete")?;
                chart.end();
                Ok(true)
            }
        }
    }

    /// Forgets the row that is open. Whether there was one.
    fn discard(&mut self) -> bool {
        let Subject::Chart(id) = std::mem::take(&mut self.open) else { return false };
        self.charts.get_mut(&id).map(Chart::discard).is_some()
    }

    fn answer(&self) -> Result<Answer, String> {
        let mut value = Object::default();
        for (id, chart) in self.charts.iter().filter(|(_, chart)| chart.has_row()) {
            value.object(id, &chart.render());
        }
        value.finish().map(Answer::One)
    }
}

fn has_option(options: &str, wanted: &str) -> bool {
    options.split_whitespace().any(|option| option == wanted)
}
