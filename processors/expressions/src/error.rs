//! Errors of an expression, with their places.
//!
//! While an expression is read or evaluated an error is a small [`Fault`] with an offset; it becomes an [`Error`]
//! with a line and a column only when it leaves the crate, because `||` and `&&` may yet make it irrelevant.

use std::borrow::Cow;

/// The kind of an error, for the code that acts on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is no expression.
    Syntax,
    /// It names an input or a parameter that there is not.
    Unknown,
    /// An input has no value yet. Not a failure: the expression waits for it.
    Missing { input: String },
    /// The values don't allow it.
    Failed,
    /// Past a limit: of the text, its nesting, the budget, or the size of the result.
    TooMuch,
}

/// An error with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {line}:{column}: {message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

/// How many characters of a long line are shown on either side of the place.
const SHOWN: usize = 50;

impl Error {
    /// Three lines for people: what is wrong, the line of the text where it is, and a caret below the place.
    pub fn pointed(&self, source: &str) -> String {
        let line: Vec<char> = source.lines().nth(self.line - 1).unwrap_or("").chars().collect();
        let place = (self.column - 1).min(line.len());
        let (from, to) = (place.saturating_sub(SHOWN), (place + SHOWN).min(line.len()));
        // A tab or another control character would put the caret elsewhere.
        let shown: String =
            line[from..to].iter().map(|letter| if letter.is_control() { ' ' } else { *letter }).collect();
        format!("{self}\n  {shown}\n  {}^", " ".repeat(place - from))
    }
}

/// A wrong on its way.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub kind: ErrorKind,
    pub at: u32,
    pub message: String,
}

impl Fault {
    pub fn new(kind: ErrorKind, at: u32, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { kind, at, message: message.into() })
    }

    pub fn syntax(at: u32, message: impl Into<String>) -> Box<Fault> {
        Fault::new(ErrorKind::Syntax, at, message)
    }

    pub fn failed(at: u32, message: impl Into<String>) -> Box<Fault> {
        Fault::new(ErrorKind::Failed, at, message)
    }

    pub fn too_much(at: u32, message: impl Into<String>) -> Box<Fault> {
        Fault::new(ErrorKind::TooMuch, at, message)
    }

    pub fn missing(at: u32, input: &str, message: impl Into<String>) -> Box<Fault> {
        Fault::new(ErrorKind::Missing { input: input.to_owned() }, at, message)
    }

    /// True if the other side of `||` cannot make up for it: a budget that is spent stays spent.
    pub fn is_final(&self) -> bool {
        self.kind == ErrorKind::TooMuch
    }

    pub fn placed(self, source: &str) -> Error {
        let before = source.get(..self.at as usize).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Error { kind: self.kind, message: self.message, line, column }
    }
}

/// A text as it is named in a message: quoted, and not longer than a message should be.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// An input or a path as it is named in a message: as it was written, unless that is too long or no single line.
pub(crate) fn named(text: &str) -> Cow<'_, str> {
    const MOST: usize = 100;
    match text.contains(char::is_control) || text.chars().nth(MOST).is_some() {
        true => Cow::Owned(quoted(text)),
        false => Cow::Borrowed(text),
    }
}

/// The name that was probably meant, if one is near.
pub(crate) fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (name.chars().count() / 3).clamp(1, 3);
    names
        .into_iter()
        .map(|other| (distance(name, other), other))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, other)| other)
}

/// How many letters have to be changed, put in or left out, capitals not regarded.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        let source = "1 +\n ä / 0";
        let error = Fault::failed(8, "cannot divide by 0").placed(source);
        assert_eq!(error.to_string(), "at 2:4: cannot divide by 0");
        assert_eq!(error.pointed(source), "at 2:4: cannot divide by 0\n   ä / 0\n     ^");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let source = format!("{}!{}", "a".repeat(2000), "b".repeat(2000));
        let shown = Fault::failed(2000, "x").placed(&source).pointed(&source);
        let expected =
            format!("at 1:2001: x\n  {}!{}\n  {}^", "a".repeat(50), "b".repeat(49), " ".repeat(50));
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["cpu", "memory", "disk_io"];
        for (given, meant) in
            [("cup", None), ("cpus", Some("cpu")), ("memry", Some("memory")), ("diskio", Some("disk_io"))]
        {
            assert_eq!(nearest(given, names), meant, "{given}");
        }
    }
}
