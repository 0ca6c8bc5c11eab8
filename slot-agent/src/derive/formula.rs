//! The formula of a registration: its inputs, its nodes, and its computation. Made from the registration alone.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::DataName;
use estimand_api::registration::{Format, Mode, Registration, Replicas};
use estimand_expressions::{Budget, Error, ErrorKind, Expression, Past, PastPart};
use estimand_processors::{self as processors, Processor};
use serde_json::Value;

use estimand_api::value::State;

use super::view::View;

/// For which nodes it is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// For the node where it runs.
    Own,
    /// For every node that has one of its inputs.
    EveryNode,
    /// Once, for all nodes together; its result says which value is whose.
    Cluster,
}

/// The formula of a registration.
pub struct Formula {
    pub spec: Spec,
    how: Computation,
}

/// The inputs and the reach of a formula.
pub struct Spec {
    pub name: DataName,
    pub inputs: BTreeSet<DataName>,
    pub reach: Reach,
    /// How it looks at the past of inputs.
    pub past: BTreeMap<DataName, Past>,
    /// Inputs of which it reads all nodes' values.
    pub across: BTreeSet<DataName>,
    /// Inputs for whose freshness it answers itself.
    pub answers_for: BTreeSet<DataName>,
    pub params: BTreeMap<String, Value>,
}

enum Computation {
    Expression(Expression),
    Processor(Box<dyn Processor>),
}

/// The result of one evaluation.
#[derive(Debug, Clone, PartialEq)]
pub enum EvaluationResult {
    Value(Value),
    /// There is nothing to say.
    Nothing,
    /// It waits for something that is not there yet.
    Waits(String),
    Failed(String),
}

impl Formula {
    /// The formula of the registration, or the reason why this agent does not compute it.
    pub fn read(registration: &Registration) -> Result<Formula, String> {
        let reach = match (registration.format, registration.replicas) {
            (Format::Nodes, _) => Reach::Cluster,
            (_, Replicas::All) => Reach::Own,
            (_, Replicas::Count(_)) => Reach::EveryNode,
        };
        let mut spec = Spec {
            name: registration.data_name.clone(),
            inputs: registration.inputs.iter().cloned().collect(),
            reach,
            past: BTreeMap::new(),
            across: BTreeSet::new(),
            answers_for: BTreeSet::new(),
            params: registration.params.clone(),
        };
        let text = registration.cmd.text();
        let how = match registration.mode {
            Mode::Expr => spec.express(&text)?,
            _ => spec.process(&text)?,
        };
        Ok(Formula { spec, how })
    }

    /// Evaluates it over what views of one moment show, one after the other.
    pub fn round(&self) -> Evaluation<'_> {
        let how = match &self.how {
            Computation::Expression(expression) => EvaluationState::Expression(expression.round()),
            Computation::Processor(processor) => EvaluationState::Processor(processor.as_ref()),
        };
        Evaluation { spec: &self.spec, how }
    }
}

impl Spec {
    /// True if it reads other nodes' values of an input.
    pub fn reads_all(&self, input: &DataName) -> bool {
        self.reach == Reach::Cluster || self.across.contains(input)
    }

    fn express(&mut self, text: &str) -> Result<Computation, String> {
        let expression = Expression::parse(text).map_err(|error| error.to_string())?;
        let inputs = self.inputs.iter().map(ToString::to_string).collect();
        let params = self.params.keys().cloned().collect();
        if let Err(errors) = expression.check(&inputs, &params) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(errors.join("; "));
        }
        let uses = expression.uses();
        let name = |name: &String| DataName::parse(name).ok();
        self.past = uses.past.iter().filter_map(|(input, past)| Some((name(input)?, past.clone()))).collect();
        self.across = uses.across.iter().filter_map(name).collect();
        self.answers_for = uses.states.iter().filter_map(name).collect();
        Ok(Computation::Expression(expression))
    }

    fn process(&mut self, name: &str) -> Result<Computation, String> {
        let kind = processors::find(name).ok_or_else(|| format!("this agent has no processor `{name}`"))?;
        if self.reach == Reach::Cluster {
            return Err(format!(
                "`{name}` estimates one node at a time; give it no format, and a number of \
                                replicas if one agent shall do it for all nodes"
            ));
        }
        let roles = processors::Roles::of(kind, &self.params)?;
        for needed in kind.inputs.iter().filter(|input| !kind.optional.contains(input)) {
            let input = roles.name(needed);
            if !self.inputs.iter().any(|known| known.as_str() == input) {
                return Err(format!(
                    "`{name}` reads `{input}`, which is not among the registration's inputs"
                ));
            }
        }
        let processor = processors::make(kind, &self.params)?;
        if let Some(window) = processor.window() {
            let past = Past { window, parts: BTreeSet::from([PastPart::whole()]) };
            self.past = self.inputs.iter().map(|input| (input.clone(), past.clone())).collect();
        }
        Ok(Computation::Processor(processor))
    }
}

/// A formula at one moment.
pub struct Evaluation<'f> {
    pub spec: &'f Spec,
    how: EvaluationState<'f>,
}

enum EvaluationState<'f> {
    /// It computes what concerns all nodes once.
    Expression(estimand_expressions::Round<'f>),
    Processor(&'f dyn Processor),
}

impl Evaluation<'_> {
    pub fn evaluate(&mut self, view: &View<'_>) -> EvaluationResult {
        if let Some(problem) = unusable(view, self.spec) {
            return problem;
        }
        match &mut self.how {
            EvaluationState::Expression(round) => {
                let whole = view.node.is_none();
                let budget = if whole { Budget::over(view.nodes()) } else { Budget::default() };
                let value = round.evaluate(view, budget).and_then(|value| match whole {
                    true => value.to_nodes().map(|nodes| Value::Object(nodes.into_iter().collect())),
                    false => value.to_json(),
                });
                match value {
                    Ok(Value::Null) => EvaluationResult::Nothing,
                    Ok(value) => EvaluationResult::Value(value),
                    Err(Error { kind: ErrorKind::Missing { .. }, message, .. }) => {
                        EvaluationResult::Waits(message)
                    }
                    Err(error) => EvaluationResult::Failed(error.to_string()),
                }
            }
            EvaluationState::Processor(processor) => match processor.process(view) {
                Ok(Some(value)) => EvaluationResult::Value(value),
                Ok(None) => EvaluationResult::Nothing,
                Err(reason) => EvaluationResult::Failed(reason),
            },
        }
    }
}

/// The reason why a formula must not be evaluated: an input is not fresh, and it does not look at that itself.
fn unusable(view: &View<'_>, spec: &Spec) -> Option<EvaluationResult> {
    let node = view.node?;
    let mut inputs = spec.inputs.iter().filter(|input| !spec.answers_for.contains(*input));
    inputs.find_map(|input| {
        let fact = view.table.get(input.as_str(), node.as_str())?;
        let state = fact.state(view.now);
        (state != State::Fresh).then(|| EvaluationResult::Failed(format!("`{input}` of {node} is {state}")))
    })
}
