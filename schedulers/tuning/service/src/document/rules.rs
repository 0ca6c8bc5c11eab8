//! The sampler and the pruner of a document: a name, or an object of a name and its options.

use estimand_api::fields::{self, Fields};
use estimand_api::json::kind_of;
use estimand_api::problem::FieldError;
use estimand_tuning::TrialNumber;
use estimand_tuning::pruners::{Ladder, LadderError, Median, Plateau, Pruner, hyperband};
use estimand_tuning::samplers::Sampler;
use serde_json::{Map, Value};

const MAX_STEP: u64 = 1 << 53;
const MAX_ETA: u64 = 1_000;
/// The most trials that a pruner waits for, and reports that it looks back.
const MAX_COUNT: u64 = 10_000;
const MAX_LEVELS: u64 = 1_000;
/// The values of a continuum in a grid, if nothing is said.
const LEVELS: u64 = 10;

const SAMPLERS: &[(&str, Sampler)] = &[
    ("auto", Sampler::Auto),
    ("random", Sampler::Random),
    ("sobol", Sampler::Sobol),
    ("grid", Sampler::Grid { levels: LEVELS }),
    ("tpe", Sampler::Tree),
    ("gp", Sampler::Process),
    ("cmaes", Sampler::Evolution),
];

/// True for a sampler that does not look at results: its proposals are functions of seed and number alone.
pub fn is_blind(sampler: Sampler) -> bool {
    match sampler {
        Sampler::Grid { .. } | Sampler::Random | Sampler::Sobol => true,
        Sampler::Tree | Sampler::Process | Sampler::Evolution | Sampler::Auto => false,
    }
}

/// The rule that ends the trials of a study early.
#[derive(Debug, Clone, PartialEq)]
pub enum StudyPruner {
    Alike(Pruner),
    /// A ladder for each bracket, with the number of trials that start in it.
    Brackets(Vec<(Pruner, u64)>),
}

impl StudyPruner {
    /// The rule of a trial.
    pub fn rule(&self, trial: TrialNumber) -> Option<&Pruner> {
        match self {
            StudyPruner::Alike(pruner) => Some(pruner),
            StudyPruner::Brackets(brackets) => brackets.get(bracket(brackets, trial)?).map(|(rule, _)| rule),
        }
    }

    /// True if a trial is judged by its own reports alone.
    pub fn is_alone(&self) -> bool {
        matches!(self, StudyPruner::Alike(Pruner::Plateau(_)))
    }

    /// True if two trials are compared with each other, in a rule that compares.
    pub fn compares(&self, one: TrialNumber, other: TrialNumber) -> bool {
        match self {
            StudyPruner::Alike(_) => true,
            StudyPruner::Brackets(brackets) => bracket(brackets, one) == bracket(brackets, other),
        }
    }
}

/// The bracket of a trial: brackets are filled one after the other, again and again.
fn bracket(brackets: &[(Pruner, u64)], trial: TrialNumber) -> Option<usize> {
    let round: u64 = brackets.iter().map(|(_, starters)| starters).sum();
    let mut place = trial.checked_rem(round)?;
    brackets.iter().position(|(_, starters)| {
        let is_here = place < *starters;
        place = place.saturating_sub(*starters);
        is_here
    })
}

/// Reads a number that is finite.
pub fn finite(value: &Value) -> Result<f64, String> {
    match fields::number(value)? {
        number if number.is_finite() => Ok(number),
        number => Err(format!("is {number}, which is not finite")),
    }
}

/// The name and the options that stand at `place`.
fn named(place: &str, value: &Value, expected: &str) -> Result<(Fields, Option<String>), Vec<FieldError>> {
    let map = match value {
        Value::String(name) => Map::from_iter([("name".to_owned(), Value::from(name.as_str()))]),
        Value::Object(map) => map.clone(),
        other => {
            let error =
                FieldError::new(place, format!("is {}, neither a name nor an object", kind_of(other)));
            return Err(vec![error.expected(expected)]);
        }
    };
    let mut fields = Fields::nested(place, map);
    let name = fields.required("name", expected, |value| fields::string(value).map(str::to_owned));
    Ok((fields, name))
}

/// The errors of an object; those of an unknown name are the name's alone, because nothing is known of its options.
fn ended<T>(fields: Fields, read: Option<T>, is_known: bool) -> Result<T, Vec<FieldError>> {
    let mut errors = fields.end();
    if !is_known {
        errors.truncate(1);
    }
    match read {
        Some(read) if errors.is_empty() => Ok(read),
        _ => Err(errors),
    }
}

pub fn sampler(place: &str, value: &Value) -> Result<Sampler, Vec<FieldError>> {
    let expected = "auto, random, sobol, grid, tpe, gp or cmaes";
    let (mut fields, name) = named(place, value, expected)?;
    let Some(name) = name else { return ended(fields, None, false) };
    let known = SAMPLERS.iter().find(|(word, _)| *word == name).map(|(_, sampler)| *sampler);
    let read = match known {
        Some(Sampler::Grid { .. }) => {
            let expected = format!("a whole number from 1 to {MAX_LEVELS}");
            let levels = fields.optional("levels", &expected, |value| fields::whole(value, 1, MAX_LEVELS));
            Some(Sampler::Grid { levels: levels.unwrap_or(LEVELS) })
        }
        Some(other) => Some(other),
        None => {
            fields.error("name", format!("is `{name}`, which is no sampler")).expected =
                Some(expected.to_owned());
            None
        }
    };
    ended(fields, read, known.is_some())
}

pub fn pruner(place: &str, value: &Value) -> Result<StudyPruner, Vec<FieldError>> {
    let expected = "median, halving, hyperband or plateau";
    let (mut fields, name) = named(place, value, expected)?;
    let Some(name) = name else { return ended(fields, None, false) };
    let read = match name.as_str() {
        "median" => Some(StudyPruner::Alike(Pruner::Median(Median {
            least_trials: count(&mut fields, "leastTrials").unwrap_or(5),
            first_step: step(&mut fields, "firstStep").unwrap_or(0),
        }))),
        "plateau" => Some(StudyPruner::Alike(Pruner::Plateau(Plateau {
            patience: count(&mut fields, "patience").unwrap_or(10),
            least: fields.optional("least", "a number", finite).unwrap_or(0.0),
            first_step: step(&mut fields, "firstStep").unwrap_or(0),
        }))),
        "halving" => halving(&mut fields),
        "hyperband" => {
            let eta = eta(&mut fields);
            let (least, most) = bounds(&mut fields);
            let brackets = most.and_then(|most| told(&mut fields, "most", hyperband(eta, least, most)));
            brackets.map(|brackets| {
                let rules =
                    brackets.into_iter().map(|(ladder, starters)| (Pruner::Halving(ladder), starters));
                StudyPruner::Brackets(rules.collect())
            })
        }
        _ => {
            fields.error("name", format!("is `{name}`, which is no pruner")).expected =
                Some(expected.to_owned());
            return ended(fields, None, false);
        }
    };
    ended(fields, read, true)
}

/// Successive halving, whose rungs are given, or lie between two steps.
fn halving(fields: &mut Fields) -> Option<StudyPruner> {
    let eta = eta(fields);
    let rungs = fields.optional("rungs", "a list of steps that grow", |value| {
        let list = value.as_array().ok_or_else(|| format!("is {}, not an array", kind_of(value)))?;
        list.iter().map(|step| fields::whole(step, 1, MAX_STEP)).collect::<Result<Vec<u64>, _>>()
    });
    let ladder = match rungs {
        Some(rungs) => told(fields, "rungs", Ladder::new(eta, rungs)),
        None if fields.value("rungs").is_some() => None,
        None => {
            let (least, most) = bounds(fields);
            most.and_then(|most| told(fields, "most", Ladder::between(eta, least, most)))
        }
    };
    ladder.map(|ladder| StudyPruner::Alike(Pruner::Halving(ladder)))
}

fn told<T>(fields: &mut Fields, field: &str, made: Result<T, LadderError>) -> Option<T> {
    made.map_err(|error| fields.error(field, error.to_string()).expected = Some("steps that grow".to_owned()))
        .ok()
}

fn eta(fields: &mut Fields) -> u64 {
    let expected = format!("a whole number from 2 to {MAX_ETA}");
    fields.optional("eta", &expected, |value| fields::whole(value, 2, MAX_ETA)).unwrap_or(3)
}

/// The step of the lowest rung, and that of the highest.
fn bounds(fields: &mut Fields) -> (u64, Option<u64>) {
    let least = step(fields, "least").unwrap_or(1).max(1);
    let most = fields.required("most", "the last step of a trial", |value| fields::whole(value, 1, MAX_STEP));
    (least, most)
}

fn step(fields: &mut Fields, name: &'static str) -> Option<u64> {
    fields.optional(name, "a step: a whole number", |value| fields::whole(value, 0, MAX_STEP))
}

fn count(fields: &mut Fields, name: &'static str) -> Option<usize> {
    let expected = format!("a whole number from 1 to {MAX_COUNT}");
    let read = fields.optional(name, &expected, |value| fields::whole(value, 1, MAX_COUNT));
    read.map(|count| usize::try_from(count).unwrap_or(1))
}
