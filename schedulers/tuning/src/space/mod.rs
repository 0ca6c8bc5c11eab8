//! Spaces of parameters: what a trial may be given.
//!
//! A space is checked as a whole when it is made; every point that is decoded lies in it. Each parameter is one
//! coordinate in [0, 1], in which logarithms are straight and each whole number, step or choice has an equal part.

mod domain;
mod parse;

use std::collections::{BTreeMap, BTreeSet};

pub use domain::{Domain, MAX_CHOICES, Scalar};
pub use parse::parse;

/// The most parameters that a space has.
pub const MAX_PARAMETERS: usize = 256;

/// The longest name of a parameter, in bytes.
pub const MAX_NAME: usize = 64;

/// The values that a trial is given, by name. Parameters whose condition does not hold are absent.
pub type Parameters = BTreeMap<String, Scalar>;

/// A point as coordinates, one a parameter; [`INACTIVE`] where a condition does not hold.
pub type Point = Vec<f64>;

/// The coordinate of a parameter that has no value.
pub const INACTIVE: f64 = f64::NAN;

/// A parameter is active only where another one has one of some values.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub parameter: String,
    pub values: Vec<Scalar>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub domain: Domain,
    pub when: Option<Condition>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpaceError {
    #[error("a space needs at least one parameter")]
    Empty,
    #[error("a space has at most {MAX_PARAMETERS} parameters, and this one has {0}")]
    TooMany(usize),
    #[error(
        "`{0}` is no name of a parameter: a letter or `_`, then letters, digits, `_`, `.` or `-`, at most {MAX_NAME}"
    )]
    Name(String),
    #[error("parameter `{0}` is there twice")]
    Twice(String),
    #[error("parameter `{name}`: {reason}")]
    Domain { name: String, reason: String },
    #[error("parameter `{name}` depends on `{parent}`, which the space does not have")]
    UnknownParent { name: String, parent: String },
    #[error("parameter `{name}` depends on `{parent}` being {value}, which it never is")]
    NeverHolds { name: String, parent: String, value: Scalar },
    #[error("parameter `{0}` depends on itself, directly or through others")]
    Circle(String),
}

/// A checked space. Parameters stay in the order in which they were declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
    /// Indexes of all parameters, each after the one that it depends on.
    order: Vec<usize>,
    parents: Vec<Option<usize>>,
}

/// A set of parameters that does not lie in the space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutsideSpace {
    #[error("parameter `{0}` is missing")]
    Missing(String),
    #[error("parameter `{name}` cannot be {value}: {domain}")]
    Value { name: String, value: Scalar, domain: String },
    #[error("parameter `{0}` has a value although its condition does not hold")]
    Inactive(String),
    #[error("the space has no parameter `{0}`")]
    Unknown(String),
}

impl Space {
    pub fn new(parameters: Vec<Parameter>) -> Result<Space, SpaceError> {
        if parameters.is_empty() {
            return Err(SpaceError::Empty);
        }
        if parameters.len() > MAX_PARAMETERS {
            return Err(SpaceError::TooMany(parameters.len()));
        }
        let mut names = BTreeSet::new();
        for parameter in &parameters {
            let name = &parameter.name;
            if !is_name(name) {
                return Err(SpaceError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(SpaceError::Twice(name.clone()));
            }
            parameter.domain.check().map_err(|reason| SpaceError::Domain { name: name.clone(), reason })?;
        }
        let parents = parameters.iter().map(|one| parent(&parameters, one)).collect::<Result<Vec<_>, _>>()?;
        let order = ordered(&parameters, &parents)?;
        Ok(Space { parameters, order, parents })
    }

    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The number of coordinates.
    pub fn dimensions(&self) -> usize {
        self.parameters.len()
    }

    pub fn is_conditional(&self) -> bool {
        self.parents.iter().any(Option::is_some)
    }

    /// The parameters at some coordinates. Coordinates outside [0, 1] count as the nearest bound.
    pub fn decode(&self, point: &[f64]) -> Parameters {
        let mut values = Parameters::new();
        for index in &self.order {
            let parameter = &self.parameters[*index];
            if self.holds(*index, &values) {
                values.insert(parameter.name.clone(), parameter.domain.value(point[*index]));
            }
        }
        values
    }

    /// The coordinates of some parameters: the middle of the part that each value has.
    pub fn encode(&self, values: &Parameters) -> Result<Point, OutsideSpace> {
        if let Some(name) = values.keys().find(|name| !self.parameters.iter().any(|one| one.name == **name)) {
            return Err(OutsideSpace::Unknown(name.clone()));
        }
        let mut point = vec![INACTIVE; self.dimensions()];
        for index in &self.order {
            let parameter = &self.parameters[*index];
            let name = &parameter.name;
            match (self.holds(*index, values), values.get(name)) {
                (true, None) => return Err(OutsideSpace::Missing(name.clone())),
                (false, Some(_)) => return Err(OutsideSpace::Inactive(name.clone())),
                (false, None) => {}
                (true, Some(value)) => {
                    let outside = || OutsideSpace::Value {
                        name: name.clone(),
                        value: value.clone(),
                        domain: parameter.domain.to_string(),
                    };
                    point[*index] = parameter.domain.coordinate(value).ok_or_else(outside)?;
                }
            }
        }
        Ok(point)
    }

    /// The coordinates of the parameters that a point is decoded to.
    pub fn snap(&self, point: &[f64]) -> Point {
        let mut snapped = vec![INACTIVE; self.dimensions()];
        for index in &self.order {
            let active = self.parents[*index].is_none_or(|parent| {
                let held = &self.parameters[parent];
                !snapped[parent].is_nan() && self.allows(*index, &held.domain.value(snapped[parent]))
            });
            if active {
                snapped[*index] = self.parameters[*index].domain.snap(point[*index]);
            }
        }
        snapped
    }

    fn holds(&self, index: usize, values: &Parameters) -> bool {
        self.parents[index].is_none_or(|parent| {
            values.get(&self.parameters[parent].name).is_some_and(|value| self.allows(index, value))
        })
    }

    fn allows(&self, index: usize, value: &Scalar) -> bool {
        self.parameters[index].when.as_ref().is_none_or(|when| when.values.iter().any(|one| one.same(value)))
    }
}

fn is_name(name: &str) -> bool {
    let first = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    let rest = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
    first && rest && name.len() <= MAX_NAME
}

fn parent(parameters: &[Parameter], of: &Parameter) -> Result<Option<usize>, SpaceError> {
    let Some(when) = &of.when else { return Ok(None) };
    let name = &of.name;
    let parent = &when.parameter;
    let Some(index) = parameters.iter().position(|one| one.name == *parent) else {
        return Err(SpaceError::UnknownParent { name: name.clone(), parent: parent.clone() });
    };
    if when.values.is_empty() {
        let reason = format!("its condition names no value of `{parent}`");
        return Err(SpaceError::Domain { name: name.clone(), reason });
    }
    match when.values.iter().find(|value| parameters[index].domain.coordinate(value).is_none()) {
        Some(value) => {
            Err(SpaceError::NeverHolds { name: name.clone(), parent: parent.clone(), value: value.clone() })
        }
        None => Ok(Some(index)),
    }
}

/// Parents before their children. Each round takes all whose parent is there already.
fn ordered(parameters: &[Parameter], parents: &[Option<usize>]) -> Result<Vec<usize>, SpaceError> {
    let mut order: Vec<usize> = Vec::new();
    let mut placed = vec![false; parameters.len()];
    while order.len() < parameters.len() {
        let ready = |index: &usize| !placed[*index] && parents[*index].is_none_or(|parent| placed[parent]);
        let next: Vec<usize> = (0..parameters.len()).filter(ready).collect();
        if next.is_empty() {
            let left = placed.iter().position(|done| !done).unwrap_or(0);
            return Err(SpaceError::Circle(parameters[left].name.clone()));
        }
        for index in next {
            placed[index] = true;
            order.push(index);
        }
    }
    Ok(order)
}
