//! Walks the tree. Operators are in [`operators`], paths in [`paths`], comprehensions in [`each`], plain functions
//! in [`functions`], and functions over inputs beyond their latest values in [`inputs`].
//!
//! Invariants: each node visited is paid for; the recursion is as deep as the tree is high; a budget that is
//! spent ends the evaluation everywhere.

mod each;
mod functions;
mod inputs;
mod operators;
mod paths;
mod statistics;

use crate::{
    budget::Budget,
    error::{ErrorKind, Fault, quoted},
    scope::Scope,
    syntax::{Node, NodeKind},
    value::{ENTRY, FIELD, Fields, Map, Text, Value},
};
use std::rc::Rc;

type Outcome<T> = Result<T, Box<Fault>>;
type Answer<'a> = Outcome<Value<'a>>;

/// A number across the nodes that a round has worked out; none if no node has one.
pub type Aggregate = Option<f64>;

pub struct Evaluator<'a, 'r> {
    pub scope: &'a dyn Scope,
    pub budget: Budget,
    /// The values of the variables around, as the parser counted them.
    locals: Vec<Value<'a>>,
    kept: &'r mut [Option<Aggregate>],
}

impl<'a, 'r> Evaluator<'a, 'r> {
    pub fn new(scope: &'a dyn Scope, budget: Budget, kept: &'r mut [Option<Aggregate>]) -> Evaluator<'a, 'r> {
        Evaluator { scope, budget, locals: Vec::new(), kept }
    }

    pub fn evaluate(&mut self, node: &'a Node) -> Answer<'a> {
        self.budget.step(node.at, 1)?;
        match &node.kind {
            NodeKind::Null => Ok(Value::Null),
            NodeKind::Bool(truth) => Ok(Value::Bool(*truth)),
            NodeKind::Number(number) => Ok(Value::Number(*number)),
            NodeKind::Text(text) => Ok(Value::Text(Text::Borrowed(text))),
            NodeKind::Input(input) => self.input(node.at, input),
            NodeKind::Param(name) => self.param(node.at, name),
            NodeKind::HasParam(name) => Ok(Value::Bool(self.scope.param(name).is_some())),
            NodeKind::Local(slot) => Ok(self.locals.get(*slot).cloned().unwrap_or(Value::Null)),
            NodeKind::Here => Ok(self.here()),
            NodeKind::Path(base, steps) => self.path(base, steps),
            NodeKind::Has(base, steps) => self.has(base, steps),
            NodeKind::Not(inner) => Ok(Value::Bool(!self.truth(inner, "`!`")?)),
            NodeKind::Negate(inner) => Ok(Value::Number(-self.number(inner, "`-`")?)),
            NodeKind::Chain(first, rest) => self.chain(first, rest),
            NodeKind::And(sides) => self.connect(sides, "`&&`", false),
            NodeKind::Or(sides) => self.connect(sides, "`||`", true),
            NodeKind::Choice(cases, otherwise) => self.choice(cases, otherwise),
            NodeKind::List(items) => self.list(node.at, items),
            NodeKind::Map(entries) => self.map(node.at, entries),
            NodeKind::Call(function, args) => self.call(node.at, *function, args),
            NodeKind::Each(each) => self.each(node.at, each),
            NodeKind::Ask(question, subject) => self.ask(node.at, *question, subject),
            NodeKind::Window(window) => self.window(node.at, window),
            NodeKind::Across(across) => self.across(node.at, across),
        }
    }

    fn param(&self, at: u32, name: &str) -> Answer<'a> {
        let missing = || Fault::failed(at, format!("no parameter {}", quoted(name)));
        self.scope.param(name).map(Value::borrowed).ok_or_else(missing)
    }

    fn here(&self) -> Value<'a> {
        self.scope.node().map_or(Value::Null, |node| Value::Text(Text::Borrowed(node)))
    }

    fn choice(&mut self, cases: &'a [(Node, Node)], otherwise: &'a Node) -> Answer<'a> {
        for (condition, then) in cases {
            if self.truth(condition, "`?`")? {
                return self.evaluate(then);
            }
        }
        self.evaluate(otherwise)
    }

    /// `&&` and `||`: one side that decides is enough, even if another one went wrong.
    fn connect(&mut self, sides: &'a [Node], operator: &str, decisive: bool) -> Answer<'a> {
        let mut wrong = None;
        for side in sides {
            match self.truth(side, operator) {
                Ok(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(fault) if fault.is_final() => return Err(fault),
                Err(fault) => wrong = wrong.or(Some(fault)),
            }
        }
        wrong.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn list(&mut self, at: u32, items: &'a [Node]) -> Answer<'a> {
        self.budget.build(at, items.len() * ENTRY)?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.evaluate(item)?);
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, at: u32, entries: &'a [(Node, Node)]) -> Answer<'a> {
        self.budget.build(at, entries.len() * FIELD)?;
        let mut fields = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = match self.evaluate(key)? {
                Value::Text(text) => text,
                other => {
                    let message = format!("the key of a map is a string, not {}", other.described());
                    return Err(Fault::failed(key.at, message));
                }
            };
            fields.push((key, self.evaluate(value)?));
        }
        self.fields(at, fields)
    }

    /// A map of these entries. Its bytes are paid for already.
    fn fields(&mut self, at: u32, entries: Vec<(Text<'a>, Value<'a>)>) -> Answer<'a> {
        match Fields::new(entries) {
            Ok(fields) => Ok(Value::Map(Map::Shared(Rc::new(fields)))),
            Err(key) => Err(Fault::failed(at, format!("the key {} is there twice", quoted(&key)))),
        }
    }

    fn truth(&mut self, node: &'a Node, wanting: &str) -> Outcome<bool> {
        match self.evaluate(node)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(unfit(node.at, wanting, "true or false", &other)),
        }
    }

    #[inline]
    fn number(&mut self, node: &'a Node, wanting: &str) -> Outcome<f64> {
        match self.evaluate(node)? {
            Value::Number(number) => Ok(number),
            other => Err(unfit(node.at, wanting, "a number", &other)),
        }
    }
}

#[cold]
fn unfit(at: u32, wanting: &str, wanted: &str, given: &Value<'_>) -> Box<Fault> {
    Fault::failed(at, format!("{wanting} takes {wanted}, not {}", given.described()))
}

/// Numbers that are none are errors where they arise.
#[inline]
fn finite(at: u32, number: f64) -> Outcome<f64> {
    if number.is_finite() {
        return Ok(number);
    }
    let what =
        if number.is_nan() { "the result is not a number" } else { "the result is too large a number" };
    Err(Fault::new(ErrorKind::Failed, at, what))
}

/// Steps for looking through a text, beyond the one that its node takes.
fn steps_of(text: &str) -> usize {
    text.len() / 16
}
