//! What an executable's output says.
//!
//! A dialect turns the bytes of one run, or of one line of a stream, into values in compact JSON, or says for
//! people what was wrong and what would be right. It never guesses: output that is broken in its own terms is a
//! failure, not a text. Each dialect is one file, and one line in [`of`].
//! What must hold, whatever the bytes: no panic, and what is given is JSON that every reader can take, at most
//! [`MAX_VALUE_BYTES`] a value.

mod auto;
mod json;
mod nodes;
mod number;
mod text;

#[cfg(test)]
mod tests;

use estimand_api::names::NodeName;
use estimand_api::registration::Format;
use estimand_api::value::MAX_VALUE_BYTES;

/// What a run said. Values are compact JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// There is nothing to say now.
    Nothing,
    One(Box<str>),
    /// At least one node, each once.
    PerNode(Vec<(NodeName, Box<str>)>),
}

/// A way to read output.
pub trait Dialect: Send + Sync {
    /// Reads the output of a run or a line of a stream. Nothing but white space says [`Answer::Nothing`]. The
    /// error is for people.
    fn read(&self, output: &[u8]) -> Result<Answer, String>;
}

/// The dialect of a format.
pub fn of(format: Format) -> &'static dyn Dialect {
    match format {
        Format::Auto => &auto::Auto,
        Format::Text => &text::Text,
        Format::Json => &json::Json,
        Format::Number => &number::Number,
        Format::Nodes => &nodes::Nodes,
    }
}

/// What all dialects begin with: the output as text, without white space around it and without a byte order
/// mark. None if that is empty.
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
