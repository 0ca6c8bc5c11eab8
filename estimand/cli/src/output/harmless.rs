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
            .map(|c| if is_left(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() })
            .collect::<String>()
            .into(),
    }
}

/// Also those that turn the direction of writing.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
