//! YAML as people write configuration: documents become JSON, and each field knows its line.
//!
//! Plain scalars mean what YAML 1.2's core schema says, so `yes` is a text. A key that is given twice, a tag, a number
//! that JSON does not have and a document that nests too deep or grows too large by aliases are refused with their line.

use std::collections::{BTreeMap, HashMap};

use estimand_api::json::MAX_DEPTH;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

mod scalar;
mod write;

pub use write::document as to_text;

/// The most values of a file, those of aliases counted each time.
const MAX_NODES: usize = 200_000;

/// A document of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub value: Value,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The lines of its fields by their places: `limits.memory`, `[3].cmd`.
    lines: BTreeMap<String, usize>,
}

/// An error, and the line on which it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    pub line: usize,
    pub message: String,
}

impl Document {
    /// A document of which only the value is known.
    pub fn without_lines(value: Value) -> Self {
        Document { value, line: 0, lines: BTreeMap::new() }
    }

    /// The line of a field; of one that is not there, that of what should have it.
    pub fn line_of(&self, field: &str) -> usize {
        let mut place = field;
        loop {
            if let Some(line) = self.lines.get(place) {
                return *line;
            }
            match place.rfind(['.', '[']) {
                Some(end) => place = &place[..end],
                None => return self.line,
            }
        }
    }
}

/// Reads all documents of a text; empty ones are left out.
pub fn read(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        lines: BTreeMap::new(),
        nodes: 0,
    };
    let mut documents = Vec::new();
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) => {
                let (event, span) = reader.next()?;
                let line = span.start.line();
                let value = reader.node(event, span, "", 0)?;
                let lines = std::mem::take(&mut reader.lines);
                if !value.is_null() {
                    documents.push(Document { value, line, lines });
                }
            }
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            _ => return Err(error(&span, "is not expected here")),
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// The values that have an anchor, with their numbers of nodes.
    anchors: HashMap<usize, (Value, usize)>,
    lines: BTreeMap<String, usize>,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        match self.parser.next() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(YamlError {
                line: error.marker().line(),
                message: format!("this is not YAML: {}", error.info()),
            }),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The value that begins with an event.
    fn node(&mut self, event: Event<'t>, span: Span, place: &str, depth: usize) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            return Err(error(&span, &format!("nests deeper than {MAX_DEPTH} levels")));
        }
        let before = self.nodes;
        self.count(1, &span)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = is_text(style, tag.as_deref(), &span)?;
                let value = scalar::value(&text, is_text).map_err(|message| error(&span, &message))?;
                (value, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), &span)?;
                (self.sequence(place, depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), &span)?;
                (self.mapping(place, depth)?, anchor)
            }
            Event::Alias(anchor) => {
                let Some((value, nodes)) = self.anchors.get(&anchor).cloned() else {
                    return Err(error(&span, "refers to itself, or to an anchor of another document"));
                };
                self.count(nodes, &span)?;
                return Ok(value);
            }
            _ => return Err(error(&span, "ends where a value should be")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), self.nodes - before));
        }
        Ok(value)
    }

    fn sequence(&mut self, place: &str, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            let place = format!("{place}[{}]", items.len());
            self.lines.insert(place.clone(), span.start.line());
            items.push(self.node(event, span, &place, depth + 1)?);
        }
    }

    fn mapping(&mut self, place: &str, depth: usize) -> Result<Value, YamlError> {
        let mut map = Map::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(map)),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(error(&span, "a key must be a text")),
            };
            if map.contains_key(&key) {
                return Err(error(&span, &format!("has the key `{key}` twice")));
            }
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            self.lines.insert(place.clone(), span.start.line());
            let (event, span) = self.next()?;
            let value = self.node(event, span, &place, depth + 1)?;
            map.insert(key, value);
        }
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Result<(), YamlError> {
        self.nodes += nodes;
        match self.nodes > MAX_NODES {
            true => Err(error(span, &format!("has more than {MAX_NODES} values"))),
            false => Ok(()),
        }
    }
}

/// True for what is a text however it looks.
fn is_text(style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Result<bool, YamlError> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok(true),
        tag => refuse_tag(tag, span).map(|()| style != ScalarStyle::Plain),
    }
}

fn refuse_tag(tag: Option<&Tag>, span: &Span) -> Result<(), YamlError> {
    match tag {
        None => Ok(()),
        Some(tag) => Err(error(span, &format!("has the tag `{tag}`, which means nothing here"))),
    }
}

fn error(span: &Span, message: &str) -> YamlError {
    YamlError { line: span.start.line(), message: message.to_owned() }
}

#[cfg(test)]
mod tests;
