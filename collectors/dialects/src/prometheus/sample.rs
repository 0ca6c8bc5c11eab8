//! A line with a sample: its name, labels, value and time. Syntax alone; the rules of its family's type are
//! in `families`.

use std::borrow::Cow;

use estimand_api::series;

use crate::head;

use super::Rules;
use super::number::{Value, time};

#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    /// Sorted by name, each name once.
    pub(super) labels: Vec<(&'a str, Cow<'a, str>)>,
    pub(super) value: Value<'a>,
    /// In RFC 3339.
    pub(super) at: Option<String>,
    pub(super) has_exemplar: bool,
}

impl Sample<'_> {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(label, _)| (*label).cmp(name)).ok()?;
        Some(&self.labels[place].1)
    }

    /// The labels as in an exposition, sorted and without braces.
    pub(super) fn label_text(&self) -> String {
        series::label_text(self.labels.iter().map(|(name, value)| (*name, &**value)))
    }
}

/// Reads a line that does not begin with `#`.
pub(super) fn parse(line: &str, rules: Rules) -> Result<Sample<'_>, String> {
    let mut cursor = Cursor { rest: line, rules };
    cursor.blanks();
    let name = cursor.take_while(is_metric_char);
    let has_blank = cursor.rest.starts_with([' ', '\t']);
    cursor.blanks();
    let has_labels = cursor.eat('{');
    if !(has_blank || has_labels || cursor.rest.is_empty()) {
        let end = line.find([' ', '\t', '{']).unwrap_or(line.len());
        return Err(bad_name("metric", &line[..end], "[a-zA-Z_:][a-zA-Z0-9_:]*"));
    }
    check_metric_name(name)?;
    let labels = if has_labels { cursor.labels()? } else { Vec::new() };
    let value =
        cursor.word()?.ok_or_else(|| format!("`{}` has no value; expected one behind it", head(name)))?;
    let value = Value::parse(value)?;
    let mut next = cursor.word()?;
    let mut at = None;
    if let Some(word) = next.filter(|word| !word.starts_with('#')) {
        at = Some(time(word, rules)?);
        next = cursor.word()?;
    }
    let has_exemplar = next == Some("#") && rules == Rules::OpenMetrics;
    if has_exemplar {
        cursor.exemplar()?;
        next = cursor.word()?;
    }
    match next {
        None => Ok(Sample { name, labels, value, at, has_exemplar }),
        Some(word) => {
            Err(format!("the sample goes on with `{}`; expected a value and at most a time", head(word)))
        }
    }
}

pub(super) fn check_metric_name(name: &str) -> Result<(), String> {
    match name.starts_with(|first: char| !first.is_ascii_digit()) && name.chars().all(is_metric_char) {
        true => Ok(()),
        false => Err(bad_name("metric", name, "[a-zA-Z_:][a-zA-Z0-9_:]*")),
    }
}

fn bad_name(what: &str, name: &str, expected: &str) -> String {
    format!("`{}` is no name of a {what}; expected {expected}", head(name))
}

fn is_metric_char(char: char) -> bool {
    is_label_char(char) || char == ':'
}

fn is_label_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// The most characters that the labels of an exemplar have together.
const EXEMPLAR_CHARS: usize = 128;

/// The label that stands for the name of the metric.
const NAME_LABEL: &str = "__name__";

struct Cursor<'a> {
    rest: &'a str,
    rules: Rules,
}

impl<'a> Cursor<'a> {
    /// Skips blanks where they may be without meaning, which is nowhere in OpenMetrics.
    fn blanks(&mut self) {
        if self.rules == Rules::Classic {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
        }
    }

    fn eat(&mut self, char: char) -> bool {
        let rest = self.rest.strip_prefix(char);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, char: char, place: &str) -> Result<(), String> {
        match self.eat(char) {
            true => Ok(()),
            false => Err(format!("{place} comes `{}`; expected `{char}`", head(self.rest))),
        }
    }

    fn take_while(&mut self, is_part: fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|char| !is_part(char)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// The next word and the space before it. None at the end.
    fn word(&mut self) -> Result<Option<&'a str>, String> {
        self.blanks();
        if self.rest.is_empty() {
            return Ok(None);
        }
        if self.rules == Rules::OpenMetrics {
            self.expect(' ', "after a word")?;
        }
        let word = self.take_while(|char| !matches!(char, ' ' | '\t'));
        match word {
            "" => Err("a space is followed by no word; expected one space between words and none at the end"
                .to_owned()),
            _ => Ok(Some(word)),
        }
    }

    /// The labels behind an opening brace, sorted.
    fn labels(&mut self) -> Result<Vec<(&'a str, Cow<'a, str>)>, String> {
        let mut labels = Vec::new();
        self.blanks();
        let mut is_done = self.eat('}');
        while !is_done {
            labels.push(self.label()?);
            self.blanks();
            is_done = match self.eat(',') {
                true => {
                    self.blanks();
                    self.rules == Rules::Classic && self.eat('}')
                }
                false => {
                    self.expect('}', "after a label")?;
                    true
                }
            };
        }
        labels.sort_by_key(|(name, _)| *name);
        let twice = labels.windows(2).find(|pair| pair[0].0 == pair[1].0);
        match twice {
            None => Ok(labels),
            Some(pair) => {
                Err(format!("the label `{}` comes twice; expected each label once", head(pair[0].0)))
            }
        }
    }

    fn label(&mut self) -> Result<(&'a str, Cow<'a, str>), String> {
        let start = self.rest;
        let name = self.take_while(is_label_char);
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            let end = start.find(['=', ',', '}', ' ']).unwrap_or(start.len());
            return Err(bad_name("label", &start[..end], "[a-zA-Z_][a-zA-Z0-9_]*"));
        }
        if name == NAME_LABEL {
            return Err(format!("the label `{name}` is taken; expected the name before the brace"));
        }
        self.blanks();
        self.expect('=', "after the name of a label")?;
        self.blanks();
        self.expect('"', "before the value of a label")?;
        Ok((name, self.label_value()?))
    }

    /// The text up to the closing quote; takes the quote, too.
    fn label_value(&mut self) -> Result<Cow<'a, str>, String> {
        let unclosed = || "a label's value has no closing quote; expected one on the same line".to_owned();
        let mut out = Cow::Borrowed("");
        loop {
            let end = self.rest.find(['"', '\\']).ok_or_else(unclosed)?;
            let (plain, rest) = self.rest.split_at(end);
            out += plain;
            self.rest = &rest[1..];
            if rest.starts_with('"') {
                return Ok(out);
            }
            let escaped = self.rest.chars().next().ok_or_else(unclosed)?;
            match escaped {
                'n' => out += "\n",
                '"' => out += "\"",
                '\\' => out += "\\",
                // OpenMetrics lets a backslash stand for itself before any other character.
                _ if self.rules == Rules::OpenMetrics => {
                    out += "\\";
                    continue;
                }
                _ => {
                    let shown = head(&rest[..1 + escaped.len_utf8()]);
                    return Err(format!("`{shown}` is no escape; expected \\\\, \\\" or \\n"));
                }
            }
            self.rest = &self.rest[1..];
        }
    }

    /// The exemplar behind the `#`: labels, a value and perhaps a time.
    fn exemplar(&mut self) -> Result<(), String> {
        self.expect(' ', "after the `#` of an exemplar")?;
        self.expect('{', "at the beginning of an exemplar")?;
        let labels = self.labels()?;
        let chars: usize = labels.iter().map(|(name, value)| name.len() + value.chars().count()).sum();
        if chars > EXEMPLAR_CHARS {
            return Err(format!(
                "the labels of the exemplar have {chars} characters; expected at most {EXEMPLAR_CHARS}"
            ));
        }
        let value = self.word()?.ok_or("the exemplar has no value; expected one behind its labels")?;
        Value::parse(value)?;
        match self.word()? {
            None => Ok(()),
            Some(word) => time(word, self.rules).map(drop),
        }
    }
}
