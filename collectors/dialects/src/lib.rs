//! Dialects: the formats in which executables print values.
//!
//! A dialect turns the bytes of one run, or of one line of a stream, into values in compact JSON, or fails with a
//! message for people: what is wrong and what would be right. It never guesses: output that is broken in its own
//! terms is a failure, not a text. Each dialect is one file, one line in [`ALL`] and one in [`find`].
//! Invariants, for any bytes: there is no panic, and a value is JSON that every reader can take, of at most
//! [`MAX_VALUE_BYTES`].

mod auto;
mod build;
mod csv;
mod foreign;
pub mod influx;
mod json;
mod logfmt;
mod munin;
mod nagios;
mod ndjson;
mod netdata;
mod nodes;
mod number;
mod prometheus;
mod text;

#[cfg(test)]
mod probe;
#[cfg(test)]
mod tests;

pub use foreign::{explained, recognized};

use estimand_api::names::NodeName;
use estimand_api::registration::Format;
use estimand_api::value::MAX_VALUE_BYTES;

/// The values of a run, in compact JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Answer {
    /// No value this time.
    #[default]
    Nothing,
    One(Box<str>),
    /// At least one node, each once.
    PerNode(Vec<(NodeName, Box<str>)>),
}

/// A run that has ended by itself.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    pub stdout: &'a [u8],
    /// Its exit code, one that the dialect [takes](Dialect::takes_exit).
    pub exit: i32,
}

/// An output as a dialect read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    pub answer: Answer,
    /// Invalid records, which were left out.
    pub rejected: RejectedRecords,
}

/// The number of records that were left out, and the reasons for the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedRecords {
    pub count: usize,
    pub reasons: Vec<String>,
}

/// How many rejected records are described.
const REASONS_KEPT: usize = 3;

impl RejectedRecords {
    pub fn push(&mut self, reason: impl FnOnce() -> String) {
        self.count += 1;
        if self.reasons.len() < REASONS_KEPT {
            self.reasons.push(reason());
        }
    }

    /// A sentence for people; none if no record was rejected.
    pub fn sentence(&self) -> Option<String> {
        let more = match self.count - self.reasons.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let records = if self.count == 1 { "1 record was" } else { &format!("{} records were", self.count) };
        (self.count > 0).then(|| format!("{records} left out: {}{more}", self.reasons.join("; ")))
    }
}

impl From<Answer> for Reading {
    fn from(answer: Answer) -> Self {
        Reading { answer, rejected: RejectedRecords::default() }
    }
}

/// A way to read output.
pub trait Dialect: Send + Sync {
    /// Reads the output of a run. Nothing but white space says [`Answer::Nothing`]. The error is for people.
    fn read(&self, output: Output<'_>) -> Result<Reading, String>;

    /// True if the output of a run that ends with this exit code is read.
    fn takes_exit(&self, code: i32) -> bool {
        code == 0
    }

    /// The most bytes of a run's output that are taken.
    fn most_output(&self) -> usize {
        // A value and the white space around it.
        MAX_VALUE_BYTES + 4096
    }

    /// A reader of the lines of one process of a stream, from its start.
    fn lines(&'static self) -> Box<dyn Lines> {
        Box::new(LineByLine(self))
    }
}

/// Reads the lines of one process. A line may complete an answer, or not yet.
pub trait Lines: Send {
    fn line(&mut self, line: &[u8]) -> Result<Reading, String>;
}

/// Each line is an output of its own.
struct LineByLine<D: ?Sized + 'static>(&'static D);

impl<D: Dialect + ?Sized> Lines for LineByLine<D> {
    fn line(&mut self, line: &[u8]) -> Result<Reading, String> {
        self.0.read(Output { stdout: line, exit: 0 })
    }
}

/// A dialect in the catalogue. It takes no parameters and keeps nothing, so there is one of each and none is made.
pub struct DialectKind {
    pub name: &'static str,
    /// The output that it reads, for people.
    pub about: &'static str,
    pub format: Format,
    pub dialect: &'static dyn Dialect,
}

/// The catalogue, in the order in which it is listed.
pub const ALL: &[&DialectKind] = &[
    &auto::KIND,
    &json::KIND,
    &text::KIND,
    &number::KIND,
    &nodes::KIND,
    &prometheus::KIND,
    &csv::KIND,
    &logfmt::KIND,
    &ndjson::KIND,
    &influx::KIND,
    &nagios::KIND,
    &munin::KIND,
    &netdata::KIND,
];

/// The catalogue's entry of a format.
pub fn find(format: Format) -> &'static DialectKind {
    match format {
        Format::Auto => &auto::KIND,
        Format::Text => &text::KIND,
        Format::Json => &json::KIND,
        Format::Number => &number::KIND,
        Format::Nodes => &nodes::KIND,
        Format::Prometheus => &prometheus::KIND,
        Format::Csv => &csv::KIND,
        Format::Logfmt => &logfmt::KIND,
        Format::Ndjson => &ndjson::KIND,
        Format::Influx => &influx::KIND,
        Format::Nagios => &nagios::KIND,
        Format::Munin => &munin::KIND,
        Format::Netdata => &netdata::KIND,
    }
}

/// The dialect of a format.
pub fn of(format: Format) -> &'static dyn Dialect {
    find(format).dialect
}

/// The output as text, without white space around it and without a byte order mark; none if that is empty.
/// Every dialect begins with it.
fn text_of(output: &[u8]) -> Result<Option<&str>, String> {
    let (valid, broken) = match std::str::from_utf8(output) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.valid_up_to();
            (std::str::from_utf8(&output[..at]).unwrap_or_default(), Some(at))
        }
    };
    if let Some(at) = valid.bytes().position(|byte| byte == 0) {
        return Err(format!(
            "the output has a NUL at byte {at}{}; expected text without control bytes",
            after(valid, at)
        ));
    }
    if let Some(at) = broken {
        let byte = output.get(at).copied().unwrap_or_default();
        return Err(format!(
            "the output is not UTF-8: byte {at} is 0x{byte:02x}{}; expected text in UTF-8",
            after(valid, at)
        ));
    }
    let text = valid.strip_prefix('\u{feff}').unwrap_or(valid).trim();
    Ok((!text.is_empty()).then_some(text))
}

/// Reads output unless it is empty.
fn if_said(
    output: Output<'_>,
    read: impl FnOnce(&str) -> Result<Reading, String>,
) -> Result<Reading, String> {
    text_of(output.stdout)?.map_or_else(|| Ok(Reading::default()), read)
}

/// The end of what was fine, as a phrase.
fn after(text: &str, at: usize) -> String {
    match text[..at].trim_end() {
        "" => String::new(),
        fine => format!(", after `{}`", tail(fine)),
    }
}

/// How many characters of the output a message repeats.
const EXCERPT_CHARS: usize = 40;

/// The beginning of a text for a message, on one line.
fn head(text: &str) -> String {
    let excerpt = text.chars().take(EXCERPT_CHARS).map(printable).collect();
    match text.chars().nth(EXCERPT_CHARS) {
        None => excerpt,
        Some(_) => excerpt + "…",
    }
}

/// The end of a text for a message, on one line.
fn tail(text: &str) -> String {
    match text.char_indices().rev().nth(EXCERPT_CHARS - 1) {
        None | Some((0, _)) => head(text),
        Some((start, _)) => format!("…{}", head(&text[start..])),
    }
}

fn printable(char: char) -> char {
    match char {
        '\n' => '⏎',
        '\t' => ' ',
        _ if char.is_control() => '\u{fffd}',
        _ => char,
    }
}

/// The value, unless it is too large. `what` is the value in words.
fn bounded(what: &str, json: impl Into<Box<str>>) -> Result<Box<str>, String> {
    let json = json.into();
    match json.len() {
        0..=MAX_VALUE_BYTES => Ok(json),
        bytes => Err(format!(
            "{what} has {bytes} bytes as JSON; at most {MAX_VALUE_BYTES} are kept: print a summary, or split it \
             into several data names"
        )),
    }
}
