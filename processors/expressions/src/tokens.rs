//! Splits the text into tokens: names, numbers, strings and signs. It knows nothing of how they go together.
//!
//! Invariants: any text ends in tokens or in one error with its place; it works in one pass, without recursion.

use crate::{
    error::{Fault, quoted},
    strings,
};

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Name(Box<str>),
    Number(f64),
    Text(Box<str>),
    Sign(&'static str),
    End,
}

#[derive(Debug, Clone)]
pub struct PlacedToken {
    pub at: u32,
    pub token: Token,
}

/// Longer ones first.
const SIGNS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", "<", ">", "!", "?", ":", ",", ".", "+",
    "-", "*", "/", "%",
];

pub fn split(source: &str) -> Result<Vec<PlacedToken>, Box<Fault>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at = past_blanks(source, at);
        let rest = &source[at..];
        let place = at as u32;
        let Some(first) = rest.chars().next() else {
            tokens.push(PlacedToken { at: place, token: Token::End });
            return Ok(tokens);
        };
        let (token, length) = match first {
            '0'..='9' => number(place, rest)?,
            '.' if rest[1..].starts_with(|letter: char| letter.is_ascii_digit()) => number(place, rest)?,
            '"' | '\'' => text(place, rest, false)?,
            'a'..='z' | 'A'..='Z' | '_' => word(place, rest)?,
            _ => sign(place, rest, first)?,
        };
        tokens.push(PlacedToken { at: place, token });
        at += length;
    }
}

/// White space and comments.
fn past_blanks(source: &str, mut at: usize) -> usize {
    loop {
        let rest = source[at..].trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        at = source.len() - rest.len();
        if !rest.starts_with("//") {
            return at;
        }
        at += rest.find('\n').unwrap_or(rest.len());
    }
}

fn sign(at: u32, rest: &str, first: char) -> Result<(Token, usize), Box<Fault>> {
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let message = match first {
        '=' => "`=` is no operator: `==` compares".to_owned(),
        '&' | '|' => format!("`{first}` is no operator: write it twice"),
        '`' => "names are not quoted with backticks: write [\"name\"]".to_owned(),
        _ => format!("{} means nothing here", quoted(&first.to_string())),
    };
    Err(Fault::syntax(at, message))
}

/// A name, or a string with a letter before its quote.
fn text(at: u32, rest: &str, raw: bool) -> Result<(Token, usize), Box<Fault>> {
    let (text, length) = strings::read(at, rest, raw)?;
    Ok((Token::Text(text.into()), length))
}

fn word(at: u32, rest: &str) -> Result<(Token, usize), Box<Fault>> {
    let length = length_of(rest, |letter| letter.is_ascii_alphanumeric() || *letter == b'_');
    let (name, after) = rest.split_at(length);
    if after.starts_with(['"', '\'']) {
        match name {
            "r" | "R" => {
                let (token, more) = text(at, after, true)?;
                return Ok((token, length + more));
            }
            "b" | "B" | "br" | "bR" | "Br" | "BR" | "rb" | "rB" | "Rb" | "RB" => {
                return Err(Fault::syntax(at, "there are no bytes here: write a string"));
            }
            _ => {}
        }
    }
    Ok((Token::Name(name.into()), length))
}

fn number(at: u32, rest: &str) -> Result<(Token, usize), Box<Fault>> {
    let (value, mut length) = match rest.get(..2) {
        Some("0x" | "0X") => hexadecimal(at, rest)?,
        _ => decimal(at, rest)?,
    };
    // `1u` is an unsigned integer in CEL; here there is one kind of number.
    if rest[length..].starts_with(['u', 'U']) {
        length += 1;
    }
    if rest[length..].starts_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
        return Err(Fault::syntax(
            at + length as u32,
            "a number ends here and a name begins: put something between",
        ));
    }
    Ok((Token::Number(value), length))
}

fn hexadecimal(at: u32, rest: &str) -> Result<(f64, usize), Box<Fault>> {
    let digits = length_of(&rest[2..], |letter| letter.is_ascii_hexdigit());
    // Each digit is exact until the 53 bits are full; after that the value is the nearest but one at worst.
    let value = rest[2..2 + digits]
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .fold(0.0, |value: f64, digit| value * 16.0 + f64::from(digit));
    if digits == 0 || !value.is_finite() {
        return Err(Fault::syntax(at, "a hexadecimal number is 0x and some digits"));
    }
    Ok((value, 2 + digits))
}

fn decimal(at: u32, rest: &str) -> Result<(f64, usize), Box<Fault>> {
    let digits = |from: usize| length_of(&rest[from..], |letter| letter.is_ascii_digit());
    let mut length = digits(0);
    if rest[length..].starts_with('.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
    }
    if rest[length..].starts_with(['e', 'E']) {
        let signed = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + signed);
        if exponent > 0 {
            length += 1 + signed + exponent;
        }
    }
    match rest[..length].parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((value, length)),
        _ => Err(Fault::syntax(at, "the number is too large")),
    }
}

fn length_of(text: &str, belongs: impl Fn(&u8) -> bool) -> usize {
    text.bytes().take_while(belongs).count()
}
