//! `csv`: a first line with the names of the columns, then a row a record, as in RFC 4180.
//!
//! The separator is the one of comma, semicolon and tab that the header has most of. A cell without quotes is a
//! number, `true`, `false` or null (empty) if it looks like it; a cell in quotes is a text. Spaces around a cell
//! don't belong to it. A row that is not as wide as the header, or whose quotes are wrong, is left out; a header
//! that names a column twice or not at all is a failure, for no row could be read by it. Empty lines are passed over.

use estimand_api::registration::Format;
use std::borrow::Cow;
use std::collections::HashSet;

use super::build::{MAX_OUTPUT_BYTES, MAX_RECORDS, Object, Rows, none_good, too_many};
use super::{Answer, Dialect, DialectKind, Lines, Output, Reading, RejectedRecords, head, text_of};

pub(super) const KIND: DialectKind =
    DialectKind { name: "csv", about: "a header, then rows", format: Format::Csv, dialect: &Csv };

struct Csv;

impl Dialect for Csv {
    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }

    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        let Some(text) = untrimmed(output.stdout)? else { return Ok(Reading::default()) };
        let mut records = Records::new(text);
        let Some((number, header)) = records.next() else { return Ok(Reading::default()) };
        let header = Header::new(header.map_err(|problem| at_line(number, &problem))?, records.separator)?;
        rows(&header, records)
    }

    fn lines(&'static self) -> Box<dyn Lines> {
        Box::new(Stream { header: None })
    }
}

/// In a stream the first line that is not empty is the header, and each further line is one row: a row does not
/// go on in the next line.
struct Stream {
    header: Option<Result<Header, String>>,
}

impl Lines for Stream {
    fn line(&mut self, line: &[u8]) -> Result<Reading, String> {
        let Some(text) = untrimmed(line)? else { return Ok(Reading::default()) };
        match &self.header {
            Some(header) => {
                rows(header.as_ref().map_err(Clone::clone)?, Records::with(text, header_separator(header)))
            }
            None => {
                let mut records = Records::new(text);
                let Some((_, first)) = records.next() else { return Ok(Reading::default()) };
                let header = first.and_then(|cells| Header::new(cells, records.separator));
                let problem = header.as_ref().err().cloned();
                self.header = Some(header);
                problem.map_or_else(|| Ok(Reading::default()), Err)
            }
        }
    }
}

fn header_separator(header: &Result<Header, String>) -> char {
    header.as_ref().map_or(',', |header| header.separator)
}

/// The output as text with the tabs at its ends, which are cells. None if it is white space.
fn untrimmed(output: &[u8]) -> Result<Option<&str>, String> {
    if text_of(output)?.is_none() {
        return Ok(None);
    }
    let text = std::str::from_utf8(output).map_err(|error| format!("the output is not UTF-8: {error}"))?;
    Ok(Some(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

fn rows(header: &Header, records: Records<'_>) -> Result<Reading, String> {
    let mut rows = Rows::default();
    let mut rejected = RejectedRecords::default();
    for (count, (number, record)) in records.enumerate() {
        if count == MAX_RECORDS {
            return Err(too_many("rows"));
        }
        match record.and_then(|cells| header.row(&cells)) {
            Ok(row) => rows.push(&row),
            Err(problem) => rejected.push(|| at_line(number, &problem)),
        }
        if rows.is_full() {
            break;
        }
    }
    match (rows.is_empty(), rejected.count) {
        (true, 0) => Ok(Reading::default()),
        (true, _) => Err(none_good("rows", &rejected)),
        (false, _) => Ok(Reading { answer: Answer::One(rows.finish()?), rejected }),
    }
}

fn at_line(number: usize, problem: &str) -> String {
    format!("line {number}: {problem}")
}

/// The names of the columns.
struct Header {
    names: Vec<String>,
    separator: char,
}

impl Header {
    fn new(cells: Vec<Cell<'_>>, separator: char) -> Result<Self, String> {
        let names: Vec<String> = cells.into_iter().map(|cell| cell.text.into_owned()).collect();
        let mut seen = HashSet::new();
        for (at, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(format!(
                    "the column {} has no name in the header; expected one for each",
                    at + 1
                ));
            }
            if !seen.insert(name) {
                return Err(format!(
                    "the header has the column `{}` twice; expected each name once",
                    head(name)
                ));
            }
        }
        Ok(Header { names, separator })
    }

    fn row(&self, cells: &[Cell<'_>]) -> Result<Object, String> {
        if cells.len() != self.names.len() {
            return Err(format!("{} cells; expected {} as in the header", cells.len(), self.names.len()));
        }
        let mut row = Object::default();
        for (name, cell) in self.names.iter().zip(cells) {
            match cell.is_quoted {
                true => row.text(name, &cell.text),
                false => row.scalar(name, &cell.text),
            }
        }
        Ok(row)
    }
}

struct Cell<'a> {
    text: Cow<'a, str>,
    is_quoted: bool,
}

/// The records of a text, each with the number of the line it begins in.
struct Records<'a> {
    rest: &'a str,
    separator: char,
    line: usize,
}

impl<'a> Records<'a> {
    /// Takes the separator from the first line that is not empty.
    fn new(text: &'a str) -> Self {
        let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        // Every second piece between quotes is quoted.
        let count =
            |separator| header.split('"').step_by(2).map(|piece| piece.matches(separator).count()).sum();
        let counts: [(usize, char); 3] = [',', ';', '\t'].map(|separator| (count(separator), separator));
        let most = counts.iter().map(|(count, _)| *count).max();
        let separator = counts.iter().find(|(count, _)| Some(*count) == most).map_or(',', |(_, char)| *char);
        Records::with(text, separator)
    }

    fn with(text: &'a str, separator: char) -> Self {
        Records { rest: text, separator, line: 1 }
    }

    /// Reads a cell up to its separator or the end of its line, which stay.
    fn cell(&mut self) -> Result<Cell<'a>, String> {
        let start = self.rest.trim_start_matches(' ');
        if let Some(quoted) = start.strip_prefix('"') {
            return self.quoted(quoted);
        }
        let end = self.rest.find([self.separator, '\n']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        let is_last = !rest.starts_with(self.separator);
        let text = if is_last { text.strip_suffix('\r').unwrap_or(text) } else { text };
        self.rest = rest;
        match text.contains('"') {
            false => Ok(Cell { text: Cow::Borrowed(text.trim_matches(' ')), is_quoted: false }),
            true => Err(format!("`{}` has a quote inside; expected quotes around the cell", head(text))),
        }
    }

    /// Reads a cell whose opening quote has gone.
    fn quoted(&mut self, text: &'a str) -> Result<Cell<'a>, String> {
        self.rest = text;
        let mut cell = Cow::Borrowed("");
        loop {
            let Some(end) = self.rest.find('"') else {
                self.rest = "";
                return Err(format!(
                    "the quote before `{}` is never closed; expected one behind the cell",
                    head(text)
                ));
            };
            cell += &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            match self.rest.strip_prefix('"') {
                Some(rest) => self.rest = rest,
                None => break,
            }
            cell += "\"";
        }
        self.line += cell.matches('\n').count();
        let rest = self.rest.trim_start_matches(' ');
        let rest =
            rest.strip_prefix('\r').filter(|rest| rest.is_empty() || rest.starts_with('\n')).unwrap_or(rest);
        match rest.is_empty() || rest.starts_with([self.separator, '\n']) {
            true => {
                self.rest = rest;
                Ok(Cell { text: cell, is_quoted: true })
            }
            false => Err(format!(
                "`{}` follows a closing quote; expected the separator or the end of the line",
                head(rest.lines().next().unwrap_or_default())
            )),
        }
    }

    /// Reads the cells of a record and its end. After a bad cell the rest of its line goes.
    fn record(&mut self) -> Result<Vec<Cell<'a>>, String> {
        let mut cells = Vec::new();
        let mut problem = None;
        loop {
            match self.cell() {
                Ok(cell) => cells.push(cell),
                Err(error) => {
                    problem = Some(error);
                    self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
                }
            }
            match self.rest.strip_prefix(self.separator) {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        self.rest = self.rest.strip_prefix('\n').unwrap_or_default();
        problem.map_or(Ok(cells), Err)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, Result<Vec<Cell<'a>>, String>);

    fn next(&mut self) -> Option<Self::Item> {
        // Lines without anything go; a line with nothing but tabs is a row of empty cells.
        let is_blank = |line: &str| line.bytes().all(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
        while let Some((_, rest)) = self.rest.split_once('\n').filter(|(line, _)| is_blank(line)) {
            self.rest = rest;
            self.line += 1;
        }
        if is_blank(self.rest) {
            return None;
        }
        let number = self.line;
        let record = self.record();
        self.line += 1;
        Some((number, record))
    }
}

#[cfg(test)]
mod tests;
