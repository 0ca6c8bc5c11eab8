//! String literals: single and triple quotes, raw and with escapes.

use crate::error::Fault;

/// Reads the text of the literal that `rest` begins with; gives it with its length.
pub fn read(at: u32, rest: &str, raw: bool) -> Result<(String, usize), Box<Fault>> {
    let quote = match rest.get(..3) {
        Some(three @ ("\"\"\"" | "'''")) => three,
        _ => &rest[..1],
    };
    let mut text = String::new();
    let mut letters = rest[quote.len()..].char_indices();
    while let Some((offset, letter)) = letters.next() {
        let here = quote.len() + offset;
        if rest[here..].starts_with(quote) {
            return Ok((text, here + quote.len()));
        }
        match letter {
            '\\' if !raw => {
                let (meant, length) = escaped(at + here as u32, &rest[here + 1..])?;
                text.push(meant);
                // The letters read are ASCII, so letters and bytes are the same here.
                letters.nth(length - 1);
            }
            '\n' | '\r' if quote.len() == 1 => break,
            _ => text.push(letter),
        }
    }
    Err(Fault::syntax(at, format!("the string has no end: {quote} is missing")))
}

/// The letter that an escape means, and how long it is without its backslash.
fn escaped(at: u32, rest: &str) -> Result<(char, usize), Box<Fault>> {
    let simple = match rest.bytes().next() {
        Some(b'a') => '\x07',
        Some(b'b') => '\x08',
        Some(b'f') => '\x0c',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'v') => '\x0b',
        Some(letter @ (b'\\' | b'?' | b'"' | b'\'' | b'`')) => char::from(letter),
        Some(b'x' | b'X') => return coded(at, rest, 1, 2, 16),
        Some(b'u') => return coded(at, rest, 1, 4, 16),
        Some(b'U') => return coded(at, rest, 1, 8, 16),
        Some(b'0'..=b'3') => return coded(at, rest, 0, 3, 8),
        _ => return Err(Fault::syntax(at, "no such escape: a backslash itself is written \\\\")),
    };
    Ok((simple, 1))
}

fn coded(at: u32, rest: &str, from: usize, digits: usize, base: u32) -> Result<(char, usize), Box<Fault>> {
    rest.get(from..from + digits)
        .filter(|code| code.bytes().all(|digit| digit.is_ascii_alphanumeric()))
        .and_then(|code| u32::from_str_radix(code, base).ok())
        .and_then(char::from_u32)
        .map(|letter| (letter, from + digits))
        .ok_or_else(|| Fault::syntax(at, format!("the escape needs {digits} digits that are a character")))
}
