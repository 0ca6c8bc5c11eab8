//! A chart and its dimensions: their declaration, and their last row.
//!
//! A row takes effect at its end. A dimension that a row leaves out has no value then, and no rate in the next
//! row, for the time between is only known from row to row.

use std::collections::HashMap;

use super::super::build::Object;
use super::row::{self, Algorithm, Cell, Raw};

/// The memory of an entry beside its texts, roughly.
const ENTRY_BYTES: usize = 100;

#[derive(Default)]
pub(super) struct Chart {
    title: String,
    units: String,
    family: String,
    dimensions: Vec<(String, Dimension)>,
    by_id: HashMap<String, usize>,
    has_row: bool,
    /// When its last row began, on the reader's clock.
    began_micros: Option<u64>,
    /// How long the row is after the one before.
    elapsed_micros: Option<u64>,
}

pub(super) struct Dimension {
    name: String,
    algorithm: Algorithm,
    multiplier: i64,
    divisor: i64,
    /// In the row that is open.
    next: Option<Raw>,
    /// In the last row.
    raw: Option<Raw>,
    /// JSON; none if there is none in the last row.
    value: Option<String>,
}

impl Chart {
    pub(super) fn new(title: &str, units: &str, family: &str) -> Self {
        Chart {
            title: title.to_owned(),
            units: units.to_owned(),
            family: family.to_owned(),
            ..Chart::default()
        }
    }

    /// Takes over what is said of it; its dimensions and its row stay.
    pub(super) fn redescribe(&mut self, new: Chart) {
        (self.title, self.units, self.family) = (new.title, new.units, new.family);
    }

    /// How much memory it takes, roughly, with its dimensions.
    pub(super) fn held(&self, id: &str) -> usize {
        let dimensions: usize = self.dimensions.iter().map(|(id, dimension)| dimension.held(id)).sum();
        self.described_by(id) + dimensions
    }

    /// The same without them.
    pub(super) fn described_by(&self, id: &str) -> usize {
        id.len() + self.title.len() + self.units.len() + self.family.len() + ENTRY_BYTES
    }

    /// How much of it is a dimension's.
    pub(super) fn held_by(&self, id: &str) -> usize {
        self.by_id.get(id).map_or(0, |&at| self.dimensions[at].1.held(id))
    }

    pub(super) fn dimension(&mut self, id: &str) -> Option<&mut Dimension> {
        Some(&mut self.dimensions[*self.by_id.get(id)?].1)
    }

    pub(super) fn define(&mut self, id: &str, dimension: Dimension) {
        match self.dimension(id) {
            Some(known) => known.redefine(dimension),
            None => {
                self.by_id.insert(id.to_owned(), self.dimensions.len());
                self.dimensions.push((id.to_owned(), dimension));
            }
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        if let Some(at) = self.by_id.remove(id) {
            self.dimensions.remove(at);
            self.by_id.values_mut().filter(|other| **other > at).for_each(|other| *other -= 1);
        }
    }

    /// `said_micros` is what the plugin says has passed since the row before.
    pub(super) fn begin(&mut self, said_micros: Option<u64>, now_micros: Option<u64>) {
        let seen_micros = now_micros.zip(self.began_micros).and_then(|(now, began)| now.checked_sub(began));
        self.elapsed_micros = said_micros.or(seen_micros.filter(|&micros| micros > 0));
        self.began_micros = now_micros;
    }

    /// The row that is open takes effect.
    pub(super) fn end(&mut self) {
        let cells: Vec<Cell<'_>> = self.dimensions.iter().map(|(_, dimension)| dimension.cell()).collect();
        let values = row::values(&cells, self.elapsed_micros);
        for ((_, dimension), value) in self.dimensions.iter_mut().zip(values) {
            dimension.raw = dimension.next.take();
            dimension.value = value;
        }
        self.has_row = true;
    }

    /// The row that is open is forgotten, and so is what the next one would be compared with.
    pub(super) fn discard(&mut self) {
        for (_, dimension) in &mut self.dimensions {
            dimension.next = None;
            dimension.raw = None;
            dimension.value = None;
        }
    }

    pub(super) fn has_row(&self) -> bool {
        self.has_row
    }

    pub(super) fn render(&self) -> Object {
        let mut object = Object::default();
        object.text("title", &self.title);
        object.text("units", &self.units);
        if !self.family.is_empty() {
            object.text("family", &self.family);
        }
        let mut dimensions = Object::default();
        for (id, dimension) in &self.dimensions {
            let mut inner = Object::default();
            inner.text("name", &dimension.name);
            inner.raw("value", dimension.value.as_deref().unwrap_or("null"));
            inner.raw("raw", dimension.raw.as_ref().map_or("null", Raw::json));
            dimensions.object(id, &inner);
        }
        object.object("dimensions", &dimensions);
        object
    }
}

impl Dimension {
    /// Empty texts are as good as none.
    pub(super) fn read(
        id: &str,
        name: &str,
        algorithm: &str,
        multiplier: &str,
        divisor: &str,
    ) -> Result<Self, &'static str> {
        let factor = |text: &str, problem| match text {
            "" => Ok(1),
            text => match text.parse() {
                // As Netdata takes it.
                Ok(0) => Ok(1),
                Ok(factor) => Ok(factor),
                Err(_) => Err(problem),
            },
        };
        Ok(Dimension {
            name: if name.is_empty() { id } else { name }.to_owned(),
            algorithm: Algorithm::read(algorithm),
            multiplier: factor(multiplier, "has a multiplier that is no whole number")?,
            divisor: factor(divisor, "has a divisor that is no whole number")?,
            next: None,
            raw: None,
            value: None,
        })
    }

    pub(super) fn held(&self, id: &str) -> usize {
        // The id is there twice: in its place and in the index.
        2 * id.len() + self.name.len() + ENTRY_BYTES
    }

    pub(super) fn set(&mut self, raw: Raw) {
        self.next = Some(raw);
    }

    fn redefine(&mut self, new: Dimension) {
        *self = Dimension { next: self.next.take(), raw: self.raw.take(), value: self.value.take(), ..new };
    }

    fn cell(&self) -> Cell<'_> {
        Cell {
            algorithm: self.algorithm,
            multiplier: self.multiplier,
            divisor: self.divisor,
            before: self.raw.as_ref(),
            now: self.next.as_ref(),
        }
    }
}
