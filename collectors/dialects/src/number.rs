//! `number`: one finite decimal number, its digits kept.
//!
//! Two spellings that programs print and JSON does not have are put right: a leading `+`, and no digit before the
//! point, which is how `bc` writes `.5`. For everything else that looks like a number to people the message
//! says how to print it.

use estimand_api::registration::Format;
use std::borrow::Cow;

use super::{Answer, Dialect, DialectKind, Output, Reading, bounded, head, if_said, json};

pub(super) const KIND: DialectKind = DialectKind {
    name: "number",
    about: "one finite decimal number",
    format: Format::Number,
    dialect: &Number,
};

struct Number;

impl Dialect for Number {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, |text| read(text).map(Reading::from))
    }
}

fn read(text: &str) -> Result<Answer, String> {
    let spelled = respell(text);
    if !is_number(&spelled) {
        return Err(format!("the output `{}` {}", head(text), explain(text)));
    }
    let number = json::checked(&spelled)?;
    bounded("the number", number).map(Answer::One)
}

/// True for a number in JSON, perhaps one too large.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) && json::is_document(text)
}

fn respell(text: &str) -> Cow<'_, str> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').filter(|digits| !digits.starts_with('-')).unwrap_or(text)),
    };
    match digits.strip_prefix('.') {
        Some(rest) => Cow::Owned(format!("{sign}0.{rest}")),
        None if sign.is_empty() => Cow::Borrowed(digits),
        None => Cow::Borrowed(text),
    }
}

/// The reason why the text is no number, and an example that is one.
fn explain(text: &str) -> String {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    let is_of = |alphabet: fn(char) -> bool| bare.chars().all(alphabet);
    let digits = bare.trim_start_matches('0');
    let problem = if bare.starts_with("nan") || bare.starts_with("inf") {
        "is not a finite number; expected one, or no output at all while there is none"
    } else if bare.starts_with("0x") {
        "is hexadecimal; expected a decimal number such as 31"
    } else if text.split_whitespace().filter(|word| is_number(&respell(word))).count() > 1 {
        "has more than one number; expected exactly one"
    } else if bare.contains(',') && is_of(|c| c.is_ascii_digit() || matches!(c, ',' | '.')) {
        "has a comma; expected a point before the fraction and nothing between thousands, as with LC_ALL=C"
    } else if digits.len() < bare.len() && !digits.is_empty() && is_of(|c| c.is_ascii_digit() || c == '.') {
        "has a leading zero; expected a decimal number such as 7"
    } else if bare.ends_with('.') && is_of(|c| c.is_ascii_digit() || c == '.') {
        "has no digit after its point; expected a number such as 1 or 1.0"
    } else if bare.starts_with(|c: char| c.is_ascii_digit()) {
        "has something after its number; expected the number alone, without a unit"
    } else {
        "is not a number; expected one decimal number such as 42, -0.5 or 1e6"
    };
    problem.to_owned()
}
