//! `influx`: InfluxDB's line protocol, `measurement,tag=a field=1.5,other=2i TIMESTAMP`.
//!
//! Points of the same series and time are one point, in which the last value of a field counts, as in InfluxDB. Of
//! several times the latest counts, for a value is of now; so is a point without a time. A line is valid or invalid as a whole, as in InfluxDB.
//! It never keeps more than [`MAX_RECORDS`] fields.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use estimand_api::registration::Format;

use super::build::{MAX_OUTPUT_BYTES, MAX_RECORDS, Object, instant, none_good, number_text, too_many};
use super::{Answer, Dialect, DialectKind, Output, Reading, RejectedRecords, head, if_said};

mod line;
mod push;
#[cfg(test)]
mod tests;

pub use push::{MAX_PUSHED_FIELDS, Push, PushedValue, push};

use line::{Line, Scalar};

pub(super) const KIND: DialectKind =
    DialectKind { name: "influx", about: "InfluxDB line protocol", format: Format::Influx, dialect: &Influx };

struct Influx;

impl Dialect for Influx {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, read)
    }

    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }
}

fn read(text: &str) -> Result<Reading, String> {
    let mut measurements = Measurements::default();
    let mut rejected = RejectedRecords::default();
    let mut records = 0;
    each_line(text, |line, place| {
        match line {
            Ok(line) => {
                records += line.fields.len();
                measurements.add(line);
            }
            Err(problem) => rejected.push(|| place.says(problem)),
        }
        if records > MAX_RECORDS { Err(too_many("fields")) } else { Ok(()) }
    })?;
    match (measurements.all.is_empty(), rejected.count) {
        (true, 0) => Ok(Reading::default()),
        (true, _) => {
            Err(format!("{}; expected lines such as `cpu,host=a usage=1.5`", none_good("lines", &rejected)))
        }
        (false, _) => Ok(Reading { answer: Answer::One(measurements.render()?), rejected }),
    }
}

/// The place of a line in all of the text.
struct LinePlace<'t> {
    text: &'t str,
    /// The text from the line on.
    from: &'t str,
}

impl LinePlace<'_> {
    /// The problem of the line, with its number and its beginning.
    fn says(&self, problem: &str) -> String {
        let number = 1 + self.text[..self.text.len() - self.from.len()].matches('\n').count();
        format!(
            "line {number}: `{}` {problem}",
            head(self.from.lines().next().unwrap_or_default().trim_end())
        )
    }
}

/// Gives each line that is there, read or with its problem.
fn each_line(
    text: &str,
    mut take: impl FnMut(Result<Line, &'static str>, LinePlace<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = text;
    while let Some(from) = line::start(rest) {
        let (line, after) = match line::read(from) {
            Ok((line, after)) => (Ok(line), after),
            Err(problem) => (Err(problem), from.split_once('\n').map_or("", |(_, after)| after)),
        };
        rest = after;
        take(line, LinePlace { text, from })?;
    }
    Ok(())
}

/// In the order in which they came.
#[derive(Default)]
struct Measurements {
    all: Vec<Measurement>,
    by_name: HashMap<String, usize>,
}

struct Measurement {
    name: String,
    series: Vec<(String, Point)>,
    by_tags: HashMap<String, usize>,
}

#[derive(Default)]
struct Point {
    fields: Vec<(String, Scalar)>,
    /// The places of the fields.
    places: HashMap<String, usize>,
    /// Nanoseconds since 1970.
    at: Option<i64>,
}

impl Measurements {
    fn add(&mut self, line: Line) {
        let tags = line.tags_text();
        let place = *self.by_name.entry(line.measurement).or_insert_with_key(|name| {
            self.all.push(Measurement { name: name.clone(), series: Vec::new(), by_tags: HashMap::new() });
            self.all.len() - 1
        });
        self.all[place].point(tags, line.at).merge(line.fields, line.at);
    }

    fn render(&self) -> Result<Box<str>, String> {
        let mut value = Object::default();
        for measurement in &self.all {
            value.object(&measurement.name, &measurement.object());
        }
        value.finish()
    }
}

impl Measurement {
    /// The fields of the series without tags, and the others by their tags.
    fn object(&self) -> Object {
        let mut object = Object::default();
        let mut series = Object::default();
        for (tags, point) in &self.series {
            match tags.as_str() {
                "" => point.push(&mut object),
                tags => {
                    let mut inner = Object::default();
                    point.push(&mut inner);
                    series.object(tags, &inner);
                }
            }
        }
        if !series.is_empty() {
            object.object("series", &series);
        }
        object
    }

    fn point(&mut self, tags: String, at: Option<i64>) -> &mut Point {
        let place = *self.by_tags.entry(tags).or_insert_with_key(|tags| {
            self.series.push((tags.clone(), Point { at, ..Point::default() }));
            self.series.len() - 1
        });
        &mut self.series[place].1
    }
}

impl Point {
    fn merge(&mut self, fields: Vec<(String, Scalar)>, at: Option<i64>) {
        let order = |at: Option<i64>| at.unwrap_or(i64::MAX);
        if order(at) < order(self.at) {
            return;
        }
        if order(at) > order(self.at) {
            *self = Point { at, ..Point::default() };
        }
        for (name, value) in fields {
            match self.places.entry(name.clone()) {
                Entry::Occupied(place) => self.fields[*place.get()].1 = value,
                Entry::Vacant(place) => {
                    place.insert(self.fields.len());
                    self.fields.push((name, value));
                }
            }
        }
    }

    fn push(&self, to: &mut Object) {
        let mut fields = Object::default();
        for (name, value) in &self.fields {
            match value {
                Scalar::Json(json) => fields.raw(name, json),
                Scalar::Text(text) => fields.text(name, text),
            }
        }
        to.object("fields", &fields);
        if let Some(at) = self.at.and_then(|nanos| instant(nanos.div_euclid(1_000))) {
            to.text("at", &at);
        }
    }
}

/// A number without a letter behind it, or with one that makes it an integer.
fn number(text: &str) -> Option<String> {
    let whole = match text.as_bytes().last()? {
        b'i' => text[..text.len() - 1].parse::<i64>().is_ok(),
        b'u' => text[..text.len() - 1].parse::<u64>().is_ok(),
        _ => return number_text(text).map(|number| number.into_owned()),
    };
    let digits = &text[..text.len() - 1];
    whole.then(|| number_text(digits).map(|number| number.into_owned())).flatten()
}
