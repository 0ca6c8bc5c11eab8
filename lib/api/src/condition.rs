//! Conditions on values: `value>0.9`, `/one>=2,/state=up`.
//!
//! A condition is a list of comparisons, all of which must hold, with the commas and signs of a [selector](crate::selector)
//! and the places of an [order](crate::order). What is compared is the value whole, whatever part of it is asked for.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::order::WHOLE;
use crate::pointer::Pointer;
use crate::problem::{FieldError, shorten};
use crate::schema;

/// The longest text of a condition.
pub const MAX_CONDITION_BYTES: usize = 1024;
/// The most comparisons in it.
pub const MAX_COMPARISONS: usize = 32;

const PATTERN: &str = r"^ *(value|/[^<>=!\x00]*)(==?|!=|[<>]=?)[^\x00]+$";
const SIGNS: [(&str, Sign); 7] = [
    (">=", Sign::AtLeast),
    ("<=", Sign::AtMost),
    ("!=", Sign::IsNot),
    ("==", Sign::Is),
    ("=", Sign::Is),
    (">", Sign::More),
    ("<", Sign::Less),
];

/// A condition on a value.
///
/// | text | holds if the part |
/// | --- | --- |
/// | `value>0.9`, `>=`, `<`, `<=` | is a number that is so; beside a text, a text that comes so in the order of letters |
/// | `/state=up`, `==` | is that number, text, `true`, `false` or `null` |
/// | `/state!=up` | is anything else, or is not there |
///
/// A text needs quotes (`/state="5 s"`) if it has other characters than letters, digits and `._:/-`, or begins as a number
/// does.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    comparisons: Vec<Comparison>,
}

#[derive(Debug, Clone, PartialEq)]
struct Comparison {
    /// None: the value itself.
    place: Option<Pointer>,
    sign: Sign,
    with: Operand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Is,
    IsNot,
    More,
    AtLeast,
    Less,
    AtMost,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Number(f64),
    Text(String),
    /// `true`, `false` or `null`.
    Word(&'static str),
}

/// A text that is no condition; `position` counts characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {position}: expected {expected}")]
pub struct ConditionError {
    given: String,
    position: usize,
    expected: &'static str,
}

impl ConditionError {
    /// This as an error of the field in which the condition stood.
    pub fn at(&self, field: &str) -> FieldError {
        let error = FieldError::new(field, format!("is no condition: {self}")).given(shorten(&self.given));
        error.expected(Condition::EXPECTED)
    }
}

/// The form of a condition.
fn described() -> Value {
    let mut text = schema::text(Condition::EXPECTED, PATTERN, "value>0.9");
    text["maxLength"] = MAX_CONDITION_BYTES.into();
    text
}

crate::described!(Condition, [], described());

impl Condition {
    /// The form of a condition, for messages.
    pub const EXPECTED: &'static str = "comparisons with commas, such as `value>0.9` or `/one>=2,/state=up`";

    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let mut parser = Parser { text, at: 0 };
        if text.len() > MAX_CONDITION_BYTES {
            return Err(parser.error("at most 1024 bytes"));
        }
        let mut comparisons = Vec::new();
        loop {
            if comparisons.len() == MAX_COMPARISONS {
                return Err(parser.error("at most 32 comparisons"));
            }
            comparisons.push(parser.comparison()?);
            if parser.rest().is_empty() {
                return Ok(Condition { comparisons });
            }
            if !parser.take(",") {
                return Err(parser.error("`,` and another comparison, or the end"));
            }
        }
    }

    /// True if the value with this JSON text is meant.
    pub fn holds(&self, json: &str) -> bool {
        self.comparisons.iter().all(|comparison| comparison.holds(json))
    }
}

impl Comparison {
    fn holds(&self, json: &str) -> bool {
        let part = self.place.as_ref().map_or(Some(json), |place| place.find(json));
        let order = part.and_then(|part| self.with.order_of(part));
        match self.sign {
            Sign::Is => order == Some(Ordering::Equal),
            Sign::IsNot => order != Some(Ordering::Equal),
            Sign::More => order == Some(Ordering::Greater),
            Sign::AtLeast => order.is_some_and(Ordering::is_ge),
            Sign::Less => order == Some(Ordering::Less),
            Sign::AtMost => order.is_some_and(Ordering::is_le),
        }
    }
}

impl Operand {
    /// How a part of a value stands to it; none if the two cannot be compared.
    fn order_of(&self, part: &str) -> Option<Ordering> {
        match self {
            Operand::Number(number) if part.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                part.parse::<f64>().ok()?.partial_cmp(number)
            }
            Operand::Text(text) if part.starts_with('"') => {
                Some(serde_json::from_str::<String>(part).ok()?.cmp(text))
            }
            Operand::Word(word) => (part == *word).then_some(Ordering::Equal),
            _ => None,
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn comparison(&mut self) -> Result<Comparison, ConditionError> {
        let place = self.place()?;
        let found = SIGNS.iter().find(|(sign, _)| self.take(sign));
        let Some((_, sign)) = found else { return Err(self.error("`=`, `!=`, `>`, `>=`, `<` or `<=`")) };
        self.skip_blanks();
        let from = self.at;
        let with = self.operand()?;
        if matches!(with, Operand::Word(_)) && !matches!(sign, Sign::Is | Sign::IsNot) {
            self.at = from;
            return Err(self.error("a number or a text: only these are more or less than others"));
        }
        self.skip_blanks();
        Ok(Comparison { place, sign: *sign, with })
    }

    /// It reaches to the sign, so its keys have none of `<>=!`.
    fn place(&mut self) -> Result<Option<Pointer>, ConditionError> {
        self.skip_blanks();
        let rest = self.rest();
        let text = &rest[..rest.find(['<', '>', '=', '!']).unwrap_or(rest.len())];
        let place = match text.trim_end() {
            WHOLE => None,
            text => {
                let place = Pointer::parse(text).ok();
                Some(place.ok_or_else(|| self.error("`value`, or a JSON pointer such as `/one`"))?)
            }
        };
        self.at += text.len();
        Ok(place)
    }

    fn operand(&mut self) -> Result<Operand, ConditionError> {
        let rest = self.rest();
        if rest.starts_with('"') {
            let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            let Some(Ok(text)) = texts.next() else { return Err(self.error("a text that ends with `\"`")) };
            self.at += texts.byte_offset();
            return Ok(Operand::Text(text));
        }
        let is_part = |c: char| c.is_alphanumeric() || "._:/+-".contains(c);
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let operand = match word {
            "" => None,
            "true" => Some(Operand::Word("true")),
            "false" => Some(Operand::Word("false")),
            "null" => Some(Operand::Word("null")),
            number if number.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
                number.parse().ok().filter(|number: &f64| number.is_finite()).map(Operand::Number)
            }
            text => Some(Operand::Text(text.to_owned())),
        };
        let operand = operand.ok_or_else(|| self.error("a number, a word, or a text in quotes"))?;
        self.at += word.len();
        Ok(operand)
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn error(&self, expected: &'static str) -> ConditionError {
        let position = self.text[..self.at].chars().count() + 1;
        ConditionError { given: self.text.to_owned(), position, expected }
    }
}

impl FromStr for Condition {
    type Err = ConditionError;
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        Self::parse(text)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Comparison { place, sign, with }) in self.comparisons.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let place = place.as_ref().map_or(WHOLE, Pointer::as_str);
            let sign = SIGNS.iter().rfind(|(_, one)| one == sign).map_or("=", |(text, _)| text);
            write!(f, "{comma}{place}{sign}")?;
            match with {
                Operand::Number(number) => write!(f, "{number}")?,
                Operand::Text(text) => write!(f, "{}", Value::from(text.as_str()))?,
                Operand::Word(word) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_for_what_it_says() {
        let check = |condition: &str, json: &str, expected: bool| {
            let parsed = Condition::parse(condition).unwrap();
            assert_eq!(parsed.holds(json), expected, "{condition} of {json}");
            assert_eq!(Condition::parse(&parsed.to_string()), Ok(parsed), "{condition} as it is shown");
        };
        for (condition, json, expected) in [
            ("value>0.9", "0.91", true),
            ("value>0.9", "0.9", false),
            ("value >= 0.9", "0.90", true),
            ("value<1e3", "-5", true),
            ("value<=-5", "-5.0", true),
            ("value==0.9", "9e-1", true),
            ("value!=0.9", "0.9", false),
            // A number is neither more nor less than what is none, but it is another one.
            ("value>0", "\"1\"", false),
            ("value<0", "\"1\"", false),
            ("value!=0", "\"1\"", true),
            ("/one>2", r#"{"one":3}"#, true),
            ("/one>2", r#"{"two":3}"#, false),
            ("/one!=2", r#"{"two":3}"#, true),
            ("/a,b>2", r#"{"a,b":3}"#, true),
            ("/cores/1>=0.5,/state=up", r#"{"cores":[0,0.5],"state":"up"}"#, true),
            ("/cores/1>=0.5,/state=up", r#"{"cores":[0,0.5],"state":"down"}"#, false),
            ("/state=\"5 s, or more\"", r#"{"state":"5 s, or more"}"#, true),
            ("/state>alpha", r#"{"state":"beta"}"#, true),
            ("/state=true", r#"{"state":true}"#, true),
            ("/state=true", r#"{"state":"true"}"#, false),
            ("/state=\"true\"", r#"{"state":"true"}"#, true),
            ("value!=null", "null", false),
        ] {
            check(condition, json, expected);
        }
    }

    #[test]
    fn a_text_that_is_no_condition_is_told_where() {
        let check = |text: &str, position: usize, expected: &str| {
            let error = Condition::parse(text).unwrap_err();
            assert_eq!(
                (error.position, error.expected.contains(expected)),
                (position, true),
                "{text}: {error}"
            );
        };
        check("", 1, "`value`, or a JSON pointer");
        check("load>1", 1, "`value`, or a JSON pointer");
        check("value", 6, "`>=`");
        check("value>", 7, "a number");
        check("value>5s", 7, "a number");
        check("value>1e999", 7, "a number");
        check("value>true", 7, "more or less");
        check("value=\"a", 7, "ends with");
        check("value>1 2", 9, "another comparison");
        check("value>1,", 9, "`value`, or a JSON pointer");
        check(&vec!["value>1"; 33].join(","), 257, "32 comparisons");
        assert!(Condition::parse(&"x".repeat(1025)).is_err());
    }
}
