//! One line of the protocol, from its text to its parts.
//!
//! A string may go over several lines, so that a line ends where its last part does. A backslash escapes
//! only the characters that need it, and else is a backslash.

/// A line that is right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub measurement: String,
    /// Sorted by name; each once.
    pub tags: Vec<(String, String)>,
    /// At least one.
    pub fields: Vec<(String, Scalar)>,
    /// Nanoseconds since 1970.
    pub at: Option<i64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// A number or a boolean.
    Json(String),
    Text(String),
}

/// The text from where the next line begins; none if there is only white space and comments.
pub(super) fn start(mut text: &str) -> Option<&str> {
    loop {
        text = text.trim_start();
        match text.strip_prefix('#') {
            Some(comment) => text = comment.split_once('\n').map_or("", |(_, after)| after),
            None => return (!text.is_empty()).then_some(text),
        }
    }
}

/// The line at the beginning of the text, and what comes after it.
pub(super) fn read(text: &str) -> Result<(Line, &str), &'static str> {
    let mut parts = Parts { rest: text };
    let measurement = parts.name(&[',', ' '], &[',', ' ']);
    if measurement.is_empty() {
        return Err("has no measurement");
    }
    let mut tags: Vec<(String, String)> = Vec::new();
    while parts.skip(',') {
        let name = parts.name(&['=', ',', ' '], &ESCAPED);
        let has_value = parts.skip('=');
        let value = parts.name(&['=', ',', ' '], &ESCAPED);
        if name.is_empty() || !has_value || value.is_empty() || parts.rest.starts_with('=') {
            return Err("has a tag that is not `name=value`");
        }
        tags.push((name, value));
    }
    tags.sort_unstable();
    if tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("has a tag twice");
    }
    if !parts.skip_spaces() || parts.is_at_end() {
        return Err("has no fields");
    }
    let fields = fields(&mut parts)?;
    let at = if parts.skip_spaces() && !parts.is_at_end() {
        let time = parts.bare();
        Some(time.parse().map_err(|_| "has a time that is no whole number of nanoseconds")?)
    } else {
        None
    };
    parts.skip_spaces();
    if !parts.is_at_end() {
        return Err("has something after its time");
    }
    Ok((Line { measurement, tags, fields, at }, parts.rest))
}

impl Line {
    /// The tags as text, escaped as they come; empty without any.
    pub(super) fn tags_text(&self) -> String {
        let tags = self.tags.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
        tags.collect::<Vec<_>>().join(",")
    }
}

fn fields(parts: &mut Parts<'_>) -> Result<Vec<(String, Scalar)>, &'static str> {
    let mut fields = Vec::new();
    loop {
        let name = parts.name(&['=', ',', ' '], &ESCAPED);
        if name.is_empty() || !parts.skip('=') {
            return Err("has a field that is not `name=value`");
        }
        let value = match parts.skip('"') {
            true => Scalar::Text(parts.quoted().ok_or("has a string without an end")?),
            false => scalar(parts.bare())?,
        };
        fields.push((name, value));
        if !parts.skip(',') {
            return match parts.rest.starts_with(' ') || parts.is_at_end() {
                true => Ok(fields),
                false => Err("has something after a field's value"),
            };
        }
    }
}

fn scalar(text: &str) -> Result<Scalar, &'static str> {
    let json = match text {
        "t" | "T" | "true" | "True" | "TRUE" => Some("true".to_owned()),
        "f" | "F" | "false" | "False" | "FALSE" => Some("false".to_owned()),
        _ => super::number(text),
    };
    json.map(Scalar::Json).ok_or("has a value that is no number, boolean or string in quotes")
}

/// Characters that a backslash protects in the names of tags and fields and in the values of tags.
const ESCAPED: [char; 3] = [',', '=', ' '];

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if ESCAPED.contains(&char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

struct Parts<'a> {
    rest: &'a str,
}

impl Parts<'_> {
    fn skip(&mut self, wanted: char) -> bool {
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn skip_spaces(&mut self) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches(' ');
        self.rest.len() < before
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with('\n') || self.rest.starts_with("\r\n")
    }

    /// Up to one of `ends` that is not protected, without the backslashes that protect.
    fn name(&mut self, ends: &[char], escaped: &[char]) -> String {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().peekable();
        let mut end = self.rest.len();
        while let Some((at, char)) = chars.next() {
            if ends.contains(&char) || matches!(char, '\n' | '\r') {
                end = at;
                break;
            }
            let protects = char == '\\' && chars.peek().is_some_and(|(_, next)| escaped.contains(next));
            out.push(if protects { chars.next().map_or(char, |(_, next)| next) } else { char });
        }
        self.rest = &self.rest[end..];
        out
    }

    /// Up to a comma, a space or the end of the line.
    fn bare(&mut self) -> &str {
        let end = self.rest.find([',', ' ', '\n', '\r']).unwrap_or(self.rest.len());
        let (bare, rest) = self.rest.split_at(end);
        self.rest = rest;
        bare
    }

    /// The rest of a string whose first quote is gone.
    fn quoted(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(out);
                }
                '\\' => match chars.peek() {
                    Some(&(_, next @ ('"' | '\\'))) => {
                        out.push(next);
                        chars.next();
                    }
                    _ => out.push(char),
                },
                _ => out.push(char),
            }
        }
        None
    }
}
