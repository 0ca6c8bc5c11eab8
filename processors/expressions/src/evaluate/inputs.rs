//! Functions over inputs: their latest values, ages and states on this node, their past, and all nodes.

use super::{
    Answer, Evaluator, Outcome, finite,
    paths::{follow, steps_into},
    statistics,
};
use crate::{
    error::{Fault, named},
    scope::Fact,
    syntax::{Across, Over, Question, Statistic, Subject, Window},
    value::{FIELD, Text, Value},
};

/// The state in which what a node has said is no longer counted among the nodes.
const LOST: &str = "node-lost";

impl<'a> Evaluator<'a, '_> {
    pub(super) fn input(&self, at: u32, input: &str) -> Answer<'a> {
        match self.scope.fact(input) {
            Some(fact) => Ok(Value::borrowed(fact.value)),
            None => Err(self.no_value(at, input)),
        }
    }

    #[cold]
    fn no_value(&self, at: u32, input: &str) -> Box<Fault> {
        let name = named(input);
        let message = match self.scope.node() {
            Some(_) => format!("{name} has no value yet"),
            None => format!(
                "{name} has no value of its own here, over the whole cluster: across(x) has all nodes'"
            ),
        };
        Fault::missing(at, input, message)
    }

    /// `age`, `state` and `known`. A value that lacks the path is as good as none.
    pub(super) fn ask(&mut self, at: u32, question: Question, subject: &'a Subject) -> Answer<'a> {
        let keys = self.keys(&subject.steps)?;
        let fact = self.scope.fact(&subject.input);
        let there: Option<Fact<'a>> = fact
            .filter(|fact| keys.is_empty() || follow(fact.value, &keys).is_some_and(|json| !json.is_null()));
        match (question, there, fact) {
            (Question::Known, there, _) => Ok(Value::Bool(there.is_some())),
            (Question::State, there, _) => {
                Ok(Value::Text(Text::Borrowed(there.map_or("missing", |fact| fact.state))))
            }
            (Question::Age, Some(fact), _) => finite(at, fact.age).map(Value::Number),
            (Question::Age, None, None) => Err(self.no_value(at, &subject.input)),
            (Question::Age, None, Some(_)) => {
                Err(Fault::missing(at, &subject.input, format!("{} has no value yet", subject.text)))
            }
        }
    }

    pub(super) fn window(&mut self, at: u32, window: &'a Window) -> Answer<'a> {
        let keys = self.keys(&window.subject.steps)?;
        let samples = self.scope.samples(&window.subject.input, &window.part, window.window);
        let samples = samples.map_err(|reason| Fault::failed(at, reason))?;
        self.budget.step(at, steps_into(samples.len(), &keys))?;
        let further = &keys[window.part.fields.len()..];
        let found = samples.iter().filter_map(|sample| Some((sample.age, follow(&sample.value, further)?)));
        if window.what == Statistic::Count {
            return Ok(Value::Number(found.filter(|(_, json)| !json.is_null()).count() as f64));
        }
        self.budget.build(at, samples.len() * size_of::<f64>())?;
        let (ages, mut numbers): (Vec<f64>, Vec<f64>) =
            found.filter_map(|(age, json)| Some((age, json.as_f64()?))).unzip();
        let Subject { input, text, .. } = &window.subject;
        match figure(window.what, &ages, &mut numbers) {
            Some(number) => finite(at, number).map(Value::Number),
            None if numbers.is_empty() => {
                Err(Fault::missing(at, input, format!("no samples of {text} within {}", window.text)))
            }
            None => {
                let message = format!("a rate needs two samples of {text} within {}", window.text);
                Err(Fault::missing(at, input, message))
            }
        }
    }

    pub(super) fn across(&mut self, at: u32, across: &'a Across) -> Answer<'a> {
        if across.what == Over::Each {
            return self.nodes(at, &across.subject);
        }
        let kept = across.kept.and_then(|place| self.kept.get(place).copied().flatten());
        let number = match kept {
            Some(number) => number,
            None => {
                let number = self.figure_across(at, across)?;
                if let Some(place) = across.kept.and_then(|place| self.kept.get_mut(place)) {
                    *place = Some(number);
                }
                number
            }
        };
        let Subject { input, text, .. } = &across.subject;
        let missing = || Fault::missing(at, input, format!("no node has a number as {text}"));
        finite(at, number.ok_or_else(missing)?).map(Value::Number)
    }

    fn figure_across(&mut self, at: u32, across: &'a Across) -> Outcome<Option<f64>> {
        let keys = self.keys(&across.subject.steps)?;
        let facts = self.scope.across(&across.subject.input);
        self.budget.step(at, steps_into(facts.len(), &keys))?;
        let found = facts
            .iter()
            .filter(|(_, fact)| fact.state != LOST)
            .filter_map(|(_, fact)| follow(fact.value, &keys));
        if across.what == Over::Nodes {
            return Ok(Some(found.filter(|json| !json.is_null()).count() as f64));
        }
        let (mut count, mut sum) = (0_usize, 0.0);
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in found.filter_map(serde_json::Value::as_f64) {
            count += 1;
            sum += number;
            least = least.min(number);
            greatest = greatest.max(number);
        }
        Ok((count > 0).then_some(match across.what {
            Over::Average => sum / count as f64,
            Over::Least => least,
            Over::Greatest => greatest,
            Over::Total | Over::Nodes | Over::Each => sum,
        }))
    }

    /// The map node → value.
    fn nodes(&mut self, at: u32, subject: &'a Subject) -> Answer<'a> {
        let keys = self.keys(&subject.steps)?;
        let facts = self.scope.across(&subject.input);
        self.budget.step(at, steps_into(facts.len(), &keys))?;
        self.budget.build(at, facts.len() * FIELD)?;
        let entries = facts
            .into_iter()
            .filter(|(_, fact)| fact.state != LOST)
            .filter_map(|(node, fact)| {
                Some((Text::Borrowed(node), Value::borrowed(follow(fact.value, &keys)?)))
            })
            .collect();
        self.fields(at, entries)
    }
}

/// The figure of samples, oldest first; none if they are too few.
fn figure(what: Statistic, ages: &[f64], numbers: &mut [f64]) -> Option<f64> {
    match what {
        _ if numbers.is_empty() => None,
        Statistic::Mean => statistics::mean(numbers),
        Statistic::Sum => statistics::sum(numbers),
        Statistic::Stddev => statistics::stddev(numbers),
        Statistic::Median => statistics::median(numbers),
        Statistic::Min => numbers.iter().copied().reduce(f64::min),
        Statistic::Max => numbers.iter().copied().reduce(f64::max),
        Statistic::First => numbers.first().copied(),
        Statistic::Last => numbers.last().copied(),
        Statistic::Count => Some(numbers.len() as f64),
        Statistic::Rate => rate(ages, numbers),
    }
}

/// By how much a counter grew in a second. Where it fell it was reset, and grew from an unknown number: nothing is
/// counted for that step.
fn rate(ages: &[f64], numbers: &[f64]) -> Option<f64> {
    let seconds = ages.first()? - ages.last()?;
    let grown: f64 = numbers.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).sum();
    (seconds > 0.0).then(|| grown / seconds)
}
