//! The values of a row from its collected numbers. Pure.
//!
//! There is no value of a rate without a row before it or without a time, of a share of nothing, and of a counter
//! that went back.

use super::super::build::number_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Absolute,
    /// A counter that only grows; the value is its growth a second.
    Incremental,
    /// Per cent of what the row's dimensions of this algorithm have together.
    ShareOfRow,
    /// Per cent of how much the row's dimensions of this algorithm have grown together.
    ShareOfGrowth,
}

impl Algorithm {
    /// An unknown word means absolute, as in Netdata.
    pub(super) fn read(word: &str) -> Self {
        match word {
            "incremental" => Algorithm::Incremental,
            "percentage-of-absolute-row" => Algorithm::ShareOfRow,
            "percentage-of-incremental-row" => Algorithm::ShareOfGrowth,
            _ => Algorithm::Absolute,
        }
    }
}

/// A number as it was collected.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Raw {
    json: String,
    number: f64,
    whole: Option<i64>,
}

impl Raw {
    pub(super) fn read(text: &str) -> Option<Self> {
        let json = number_text(text)?.into_owned();
        Some(Raw { number: json.parse().ok()?, whole: json.parse().ok(), json })
    }

    pub(super) fn json(&self) -> &str {
        &self.json
    }

    /// How much it has grown; none if it went back.
    fn since(&self, before: &Raw) -> Option<f64> {
        let growth = match (self.whole, before.whole) {
            // Exactly: what two large counters differ in can be less than what a float tells apart.
            (Some(now), Some(before)) => (i128::from(now) - i128::from(before)) as f64,
            _ => self.number - before.number,
        };
        (growth >= 0.0).then_some(growth)
    }
}

/// A dimension's part of a row.
pub(super) struct Cell<'a> {
    pub algorithm: Algorithm,
    pub multiplier: i64,
    pub divisor: i64,
    pub before: Option<&'a Raw>,
    pub now: Option<&'a Raw>,
}

impl Cell<'_> {
    fn growth(&self) -> Option<f64> {
        self.now?.since(self.before?)
    }

    /// Its part of the total of the dimensions of its algorithm.
    fn part(&self) -> Option<f64> {
        match self.algorithm {
            Algorithm::Absolute | Algorithm::Incremental => None,
            Algorithm::ShareOfRow => Some(self.now?.number),
            Algorithm::ShareOfGrowth => self.growth(),
        }
    }

    fn scaled(&self, number: f64) -> f64 {
        number * self.multiplier as f64 / self.divisor as f64
    }

    fn absolute(&self) -> Option<String> {
        let raw = self.now?;
        if self.multiplier == self.divisor {
            return Some(raw.json.clone());
        }
        if let Some(whole) = raw.whole {
            let product = i128::from(whole) * i128::from(self.multiplier);
            if product % i128::from(self.divisor) == 0 {
                return Some((product / i128::from(self.divisor)).to_string());
            }
        }
        number(self.scaled(raw.number))
    }
}

/// The values as JSON, one a cell.
pub(super) fn values(cells: &[Cell<'_>], elapsed_micros: Option<u64>) -> Vec<Option<String>> {
    let total = |algorithm| -> f64 {
        cells.iter().filter(|cell| cell.algorithm == algorithm).filter_map(Cell::part).sum()
    };
    let (of_row, of_growth) = (total(Algorithm::ShareOfRow), total(Algorithm::ShareOfGrowth));
    let value = |cell: &Cell<'_>| match cell.algorithm {
        Algorithm::Absolute => cell.absolute(),
        Algorithm::Incremental => {
            let seconds = elapsed_micros? as f64 / 1e6;
            number(cell.scaled(cell.growth()?) / seconds)
        }
        Algorithm::ShareOfRow => number(100.0 * cell.part()? / of_row),
        Algorithm::ShareOfGrowth => number(100.0 * cell.part()? / of_growth),
    };
    cells.iter().map(value).collect()
}

/// Up to here a float that is whole is exactly that.
const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// A number as JSON; none if it is not finite, as what is divided by nothing.
fn number(number: f64) -> Option<String> {
    if number.fract() == 0.0 && number.abs() < MOST_WHOLE {
        return Some((number as i64).to_string());
    }
    match number.abs() {
        1e-5..1e18 => Some(number.to_string()),
        // Without hundreds of zeros.
        _ => number.is_finite().then(|| format!("{number:e}")),
    }
}
