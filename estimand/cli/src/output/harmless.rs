//! Text from elsewhere, made harmless to a terminal.

use std::borrow::Cow;

/// The text with its control characters written out, so that nothing that came from elsewhere moves the
/// cursor, colours the screen, begins a line or turns the order of what is read.
pub fn visible(text: &str) -> Cow<'_, str> {
    match text.contains(is_control) {
        false => Cow::Borrowed(text),
        true => text
            .chars()
            .map(|c| if is_control(c) { c.escape_default().to_string() } else { c.to_string() })
            .collect::<String>()
            .into(),
    }
}

/// JSON with what a terminal could obey written as JSON does: of that, JSON itself only asks for C0.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    let is_left = |c: char| is_control(c) && !c.is_ascii_whitespace();
    match json.contains(is_left) {
        false => Cow::Borrowed(json),
        true => json
            .chars()
            .map(|c| if is_left(c) { json_escape(c) } else { c.to_string() })
            .collect::<String>()
            .into(),
    }
}

/// The character as JSON writes it: beyond the first 65,536 as two halves.
fn json_escape(c: char) -> String {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Also those that turn the direction of writing, that break a line, and that take no room, so that two texts look like
/// one: a zero-width space in a name, a filler, a tag.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
