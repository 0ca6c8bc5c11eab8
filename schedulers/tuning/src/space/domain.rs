//! The values of one parameter, and its coordinate in [0, 1].

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most values of a choice.
pub const MAX_CHOICES: usize = 1_000;

/// The most whole numbers or steps between two bounds: each has a coordinate of its own.
const MAX_STEPS: f64 = 9e15;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    Flag(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    pub fn number(&self) -> Option<f64> {
        match self {
            Scalar::Integer(number) => Some(*number as f64),
            Scalar::Float(number) => Some(*number),
            Scalar::Flag(_) | Scalar::Text(_) => None,
        }
    }

    /// Equal, where 1 and 1.0 are equal.
    pub fn same(&self, other: &Scalar) -> bool {
        match (self.number(), other.number()) {
            (Some(one), Some(two)) => one == two,
            _ => self == other,
        }
    }
}

/// As JSON.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Flag(flag) => flag.fmt(f),
            Scalar::Integer(number) => number.fmt(f),
            Scalar::Float(number) => write!(f, "{number:?}"),
            Scalar::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Domain {
    Integer {
        low: i64,
        high: i64,
        step: i64,
        log: bool,
    },
    Float {
        low: f64,
        high: f64,
        step: Option<f64>,
        log: bool,
    },
    /// Numbers in ascending order: neighbours are alike.
    Ordered(Vec<Scalar>),
    /// Values without an order.
    Choice(Vec<Scalar>),
}

impl Domain {
    /// The reason for which a domain is none.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Domain::Integer { low, high, step, log } => {
                check_bounds(*low as f64, *high as f64, *log)?;
                check_step(*low as f64, *high as f64, (*step != 1).then_some(*step as f64), *log)?;
                let span = i128::from(*high) - i128::from(*low);
                if *step < 1 || span % i128::from(*step) != 0 {
                    return Err(format!(
                        "a step of {step} does not divide the {span} between {low} and {high}"
                    ));
                }
                Ok(())
            }
            Domain::Float { low, high, step, log } => {
                check_bounds(*low, *high, *log)?;
                check_step(*low, *high, *step, *log)
            }
            Domain::Ordered(values) | Domain::Choice(values) => check_values(values),
        }
    }

    /// The number of distinct values; `None` where they are a continuum.
    pub fn count(&self) -> Option<u64> {
        match self {
            Domain::Integer { low, high, step, .. } => Some(high.abs_diff(*low) / step.unsigned_abs() + 1),
            Domain::Float { low, high, .. } if low == high => Some(1),
            Domain::Float { low, high, step, .. } => {
                step.map(|step| ((high - low) / step).round() as u64 + 1)
            }
            Domain::Ordered(values) | Domain::Choice(values) => Some(values.len() as u64),
        }
    }

    pub fn is_unordered(&self) -> bool {
        matches!(self, Domain::Choice(values) if values.len() > 2)
    }

    /// The value at a coordinate.
    pub fn value(&self, coordinate: f64) -> Scalar {
        let u = if coordinate.is_nan() { 0.5 } else { coordinate.clamp(0.0, 1.0) };
        match self {
            Domain::Integer { low, high, log: true, .. } => {
                let (from, to) = log_bounds(*low, *high);
                Scalar::Integer(((from + u * (to - from)).exp().round() as i64).clamp(*low, *high))
            }
            Domain::Integer { low, step, .. } => {
                Scalar::Integer(low.saturating_add(self.cell(u) as i64 * step))
            }
            // The bounds are what was written, which their logarithms do not give back.
            Domain::Float { low, .. } if u == 0.0 => Scalar::Float(*low),
            Domain::Float { high, .. } if u == 1.0 => Scalar::Float(*high),
            Domain::Float { low, high, log: true, .. } => {
                let from = low.ln();
                let to = high.ln();
                Scalar::Float((from + u * (to - from)).exp().clamp(*low, *high))
            }
            Domain::Float { low, high, step: Some(step), .. } => {
                Scalar::Float((low + self.cell(u) as f64 * step).min(*high))
            }
            Domain::Float { low, high, .. } => Scalar::Float((low + u * (high - low)).clamp(*low, *high)),
            Domain::Ordered(values) | Domain::Choice(values) => values[self.cell(u) as usize].clone(),
        }
    }

    /// The coordinate of a value: the middle of its part. `None` where the value is not in the domain.
    pub fn coordinate(&self, value: &Scalar) -> Option<f64> {
        match self {
            Domain::Ordered(values) | Domain::Choice(values) => {
                self.middle(values.iter().position(|one| one.same(value))? as u64)
            }
            Domain::Integer { low, high, step, log } => {
                let Scalar::Integer(number) = *value else { return None };
                if number < *low || number > *high || number.abs_diff(*low) % step.unsigned_abs() != 0 {
                    return None;
                }
                if *log {
                    let (from, to) = log_bounds(*low, *high);
                    return Some(((number as f64).ln() - from) / (to - from));
                }
                self.middle(number.abs_diff(*low) / step.unsigned_abs())
            }
            Domain::Float { low, high, step, log } => {
                let number = value.number().filter(|number| number >= low && number <= high)?;
                match step {
                    _ if low == high => Some(0.5),
                    _ if *log => Some((number.ln() - low.ln()) / (high.ln() - low.ln())),
                    None => Some((number - low) / (high - low)),
                    Some(step) => {
                        let steps = (number - low) / step;
                        let whole = (steps - steps.round()).abs() < 1e-6;
                        whole.then(|| self.middle(steps.round() as u64)).flatten()
                    }
                }
            }
        }
    }

    /// The coordinate of the value at a coordinate.
    pub fn snap(&self, coordinate: f64) -> f64 {
        match self {
            Domain::Float { low, high, step: None, .. } if low < high => coordinate.clamp(0.0, 1.0),
            _ => self.coordinate(&self.value(coordinate)).unwrap_or(0.5),
        }
    }

    /// The index of the equal part in which a coordinate lies.
    fn cell(&self, u: f64) -> u64 {
        let count = self.count().unwrap_or(1);
        ((u * count as f64) as u64).min(count - 1)
    }

    fn middle(&self, cell: u64) -> Option<f64> {
        Some((cell as f64 + 0.5) / self.count()? as f64)
    }
}

/// The logarithms between which whole numbers lie, half a number beyond each bound, so that each has its part.
fn log_bounds(low: i64, high: i64) -> (f64, f64) {
    ((low as f64 - 0.5).ln(), (high as f64 + 0.5).ln())
}

fn check_bounds(low: f64, high: f64, log: bool) -> Result<(), String> {
    if !low.is_finite() || !high.is_finite() || !(high - low).is_finite() {
        return Err(format!("bounds must be finite, and these are {low} and {high}"));
    }
    if low > high {
        return Err(format!("the lower bound {low} is above the upper bound {high}"));
    }
    if log && low <= 0.0 {
        return Err(format!("a logarithmic scale needs bounds above 0, and the lower bound is {low}"));
    }
    Ok(())
}

fn check_step(low: f64, high: f64, step: Option<f64>, log: bool) -> Result<(), String> {
    let Some(step) = step else { return Ok(()) };
    if log {
        return Err("a logarithmic scale has no step: leave out one of them".to_owned());
    }
    if !step.is_finite() || step <= 0.0 {
        return Err(format!("a step must be above 0, and this one is {step}"));
    }
    let steps = (high - low) / step;
    if steps > MAX_STEPS || (steps - steps.round()).abs() > 1e-6 {
        return Err(format!("a step of {step} does not divide the {} between {low} and {high}", high - low));
    }
    Ok(())
}

fn check_values(values: &[Scalar]) -> Result<(), String> {
    if values.is_empty() || values.len() > MAX_CHOICES {
        return Err(format!("a choice has 1 to {MAX_CHOICES} values, and this one has {}", values.len()));
    }
    for (index, value) in values.iter().enumerate() {
        if value.number().is_some_and(|number| !number.is_finite()) {
            return Err(format!("{value} is no number"));
        }
        if values[..index].iter().any(|earlier| earlier.same(value)) {
            return Err(format!("the value {value} is there twice"));
        }
    }
    Ok(())
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Integer { low, high, step: 1, .. } => write!(f, "a whole number from {low} to {high}"),
            Domain::Integer { low, high, step, .. } => {
                write!(f, "a whole number from {low} to {high} in steps of {step}")
            }
            Domain::Float { low, high, step: Some(step), .. } => {
                write!(f, "a number from {low} to {high} in steps of {step}")
            }
            Domain::Float { low, high, .. } => write!(f, "a number from {low} to {high}"),
            Domain::Ordered(values) | Domain::Choice(values) => {
                let list: Vec<String> = values.iter().take(10).map(ToString::to_string).collect();
                let more = if values.len() > 10 { ", …" } else { "" };
                write!(f, "one of {}{more}", list.join(", "))
            }
        }
    }
}
