//! Writes JSON as YAML that people like to edit: blocks, texts without quotes where they mean the same, and texts of
//! several lines as they are.

use serde_json::{Map, Value};

use super::scalar;

/// A document, with a line's end.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block_map(&mut out, map, 0, false),
        Value::Array(items) if !items.is_empty() => block_list(&mut out, items, 0),
        other => {
            inline(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

fn block_map(out: &mut String, map: &Map<String, Value>, indent: usize, started: bool) {
    for (place, (key, value)) in map.iter().enumerate() {
        if place > 0 || !started {
            pad(out, indent);
        }
        text(out, key);
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                block_map(out, inner, indent + 2, false);
            }
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                out.push('\n');
                block_list(out, items, indent + 2);
            }
            other => {
                out.push(' ');
                inline(out, other, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn block_list(out: &mut String, items: &[Value], indent: usize) {
    for item in items {
        pad(out, indent);
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => block_map(out, map, indent + 2, true),
            other => {
                inline(out, other, indent + 2);
                out.push('\n');
            }
        }
    }
}

/// A value that stands behind its key, or in brackets.
fn inline(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(lines) if is_literal(lines) => literal(out, lines, indent),
        Value::String(line) => text(out, line),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                match item {
                    // In brackets a comma or a bracket would end a text.
                    Value::String(line) if !is_word(line) => quoted(out, line),
                    Value::String(line) => text(out, line),
                    other => out.push_str(&other.to_string()),
                }
            }
            out.push(']');
        }
        // JSON is YAML.
        other => out.push_str(&other.to_string()),
    }
}

fn text(out: &mut String, line: &str) {
    if is_plain(line) { out.push_str(line) } else { quoted(out, line) }
}

/// True for a text of several lines that a block can have to the letter.
fn is_literal(text: &str) -> bool {
    let printable = |c: char| c == '\n' || !c.is_control();
    text.contains('\n')
        && !text.ends_with('\n')
        && !text.starts_with([' ', '\n'])
        && text.chars().all(printable)
        && !text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'])
}

fn literal(out: &mut String, lines: &str, indent: usize) {
    out.push_str("|-");
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

/// As JSON, with everything escaped that YAML does not take as it is.
fn quoted(out: &mut String, line: &str) {
    out.push('"');
    for c in line.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// True for a text that means itself without quotes.
fn is_plain(line: &str) -> bool {
    let inside = |c: char| {
        is_word_char(c)
            || matches!(
                c,
                ' ' | '\'' | '(' | ')' | '$' | ';' | '<' | '>' | '|' | '?' | '*' | '&' | '!' | ',' | '"'
            )
    };
    let begins = line.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.'));
    begins
        && !line.ends_with([' ', ':'])
        && line.chars().all(inside)
        && !line.contains(": ")
        && scalar::is_plain_text(line)
        && !is_old_word(line)
}

fn is_word(line: &str) -> bool {
    is_plain(line) && line.chars().all(is_word_char)
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | ':' | '=' | '+' | '@' | '%')
}

/// A word that older readers of YAML take for something else.
fn is_old_word(line: &str) -> bool {
    matches!(line.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off" | "y" | "n")
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
