//! `munin`: the output of a munin plugin's `fetch`.
//!
//! A line is `field.value NUMBER`, or `U` for an unknown one; `field.extinfo TEXT` goes with a field, and
//! `multigraph NAME` begins the lines of a graph. A value may have a time, as of plugins that sample more often than
//! they are asked: `EPOCH:NUMBER`, and then the latest counts. Descriptions of graphs and fields, which plugins
//! print when asked for their configuration, are passed over.
//! It never keeps more than [`MAX_RECORDS`] fields.

use estimand_api::registration::Format;
use std::collections::HashMap;

use super::build::{MAX_OUTPUT_BYTES, MAX_RECORDS, Object, instant, none_good, number_text, too_many};
use super::{Answer, Dialect, DialectKind, Output, Reading, RejectedRecords, head, if_said};

#[cfg(test)]
mod tests;

/// The attributes of a field.
const FIELD_ATTRIBUTES: [&str; 21] = [
    "alarm",
    "cdef",
    "colour",
    "critical",
    "draw",
    "extinfo",
    "graph",
    "info",
    "label",
    "line",
    "max",
    "min",
    "negative",
    "oldname",
    "onlynullcdef",
    "skipdraw",
    "stack",
    "sum",
    "type",
    "unknown_limit",
    "warning",
];
/// The attributes of a graph besides those that begin with `graph_`, and the dot that ends a node's answer.
const GRAPH_ATTRIBUTES: [&str; 5] = [".", "host_name", "timeout", "update", "update_rate"];

pub(super) const KIND: DialectKind =
    DialectKind { name: "munin", about: "the output of `fetch`", format: Format::Munin, dialect: &Munin };

struct Munin;

impl Dialect for Munin {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, read)
    }

    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }
}

fn read(text: &str) -> Result<Reading, String> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if let Err(problem) = reader.line(line) {
            reader.rejected.push(|| format!("line {number}: `{}` {problem}", head(line)));
        }
        if reader.fields > MAX_RECORDS {
            return Err(too_many("fields"));
        }
    }
    reader.finish()
}

#[derive(Default)]
struct Reader<'a> {
    /// The first has no name: lines before the first named graph belong to it.
    graphs: Vec<Graph<'a>>,
    by_name: HashMap<&'a str, usize>,
    current: usize,
    /// How many there are in all graphs.
    fields: usize,
    has_value: bool,
    rejected: RejectedRecords,
}

#[derive(Default)]
struct Graph<'a> {
    name: Option<&'a str>,
    fields: Vec<Field<'a>>,
    by_name: HashMap<&'a str, usize>,
}

struct Field<'a> {
    name: &'a str,
    value: Option<Sample>,
    extinfo: Option<&'a str>,
}

struct Sample {
    /// JSON.
    value: String,
    /// Seconds since 1970.
    at: Option<i64>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) -> Result<(), &'static str> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim_start();
        if word == "multigraph" {
            return self.graph(rest);
        }
        if word.starts_with("graph_") || GRAPH_ATTRIBUTES.contains(&word) {
            return Ok(());
        }
        match word.split_once('.') {
            Some((field, "value")) if !field.is_empty() => {
                let sample = sample(rest)?;
                self.has_value = true;
                let known = &mut self.field(field).value;
                match known.as_ref().map(|known| (known.at, sample.at)) {
                    None => *known = Some(sample),
                    Some((Some(before), Some(at))) if at != before => {
                        if at > before {
                            *known = Some(sample);
                        }
                    }
                    Some(_) => return Err("comes twice"),
                }
                Ok(())
            }
            Some((field, "extinfo")) if !field.is_empty() => {
                self.field(field).extinfo.get_or_insert(rest);
                Ok(())
            }
            Some((field, attribute)) if !field.is_empty() && FIELD_ATTRIBUTES.contains(&attribute) => Ok(()),
            _ => Err("is no line of munin's"),
        }
    }

    fn graph(&mut self, name: &'a str) -> Result<(), &'static str> {
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("is not followed by one name");
        }
        self.first_graph();
        self.current = *self.by_name.entry(name).or_insert_with(|| {
            self.graphs.push(Graph { name: Some(name), ..Graph::default() });
            self.fields += 1;
            self.graphs.len() - 1
        });
        Ok(())
    }

    fn first_graph(&mut self) {
        if self.graphs.is_empty() {
            self.graphs.push(Graph::default());
        }
    }

    fn field(&mut self, name: &'a str) -> &mut Field<'a> {
        self.first_graph();
        let graph = &mut self.graphs[self.current];
        let at = *graph.by_name.entry(name).or_insert_with(|| {
            graph.fields.push(Field { name, value: None, extinfo: None });
            self.fields += 1;
            graph.fields.len() - 1
        });
        &mut graph.fields[at]
    }

    fn finish(mut self) -> Result<Reading, String> {
        if !self.has_value {
            return match self.rejected.count {
                0 => Ok(Reading::default()),
                _ => Err(format!(
                    "{}; expected lines such as `user.value 123`",
                    none_good("values", &self.rejected)
                )),
            };
        }
        let mut value = Object::default();
        let mut graphs = Object::default();
        let is_named = self.graphs.len() > 1;
        for graph in &self.graphs {
            let Some(name) = graph.name else {
                graph.push_fields(&mut value, |field| {
                    let is_taken = is_named && field == "graphs";
                    if is_taken {
                        self.rejected
                            .push(|| "the field `graphs` has the name of what holds the graphs".to_owned());
                    }
                    !is_taken
                });
                continue;
            };
            let mut fields = Object::default();
            graph.push_fields(&mut fields, |_| true);
            if !fields.is_empty() {
                graphs.object(name, &fields);
            }
        }
        if is_named {
            value.object("graphs", &graphs);
        }
        Ok(Reading { answer: Answer::One(value.finish()?), rejected: self.rejected })
    }
}

impl Graph<'_> {
    fn push_fields(&self, to: &mut Object, mut is_wanted: impl FnMut(&str) -> bool) {
        for field in &self.fields {
            if !is_wanted(field.name) {
                continue;
            }
            let mut object = Object::default();
            object.raw("value", field.value.as_ref().map_or("null", |sample| &sample.value));
            if let Some(at) = field.value.as_ref().and_then(|sample| rfc3339(sample.at?)) {
                object.text("at", &at);
            }
            if let Some(extinfo) = field.extinfo {
                object.text("extinfo", extinfo);
            }
            to.object(field.name, &object);
        }
    }
}

/// `NUMBER`, `U`, or one of them with when it was taken before it; `N:` is now.
fn sample(text: &str) -> Result<Sample, &'static str> {
    let (at, number) = match text.split_once(':') {
        None | Some(("N", _)) => (None, text.strip_prefix("N:").unwrap_or(text)),
        Some((at, number)) => {
            let at = at.parse().ok().filter(|&at| rfc3339(at).is_some());
            (Some(at.ok_or("has no seconds since 1970 before its `:`")?), number)
        }
    };
    let value = match number {
        "" => return Err("has no value"),
        "U" => "null".to_owned(),
        number => number_text(number).ok_or("has a value that is no number")?.into_owned(),
    };
    Ok(Sample { value, at })
}

fn rfc3339(seconds: i64) -> Option<String> {
    instant(seconds.checked_mul(1_000_000)?)
}
