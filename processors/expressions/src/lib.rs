//! Expressions over values, as in the `cmd` of an `expr` registration.
//!
//! The language is CEL's syntax with one kind of number. An expression is read once ([`Expression::parse`]), checked
//! against what it may use ([`Expression::check`]), and evaluated as often as its inputs change
//! ([`Expression::evaluate`]) over a [`Scope`], which is all it can read. It does no I/O and knows no clock.
//! Invariants, for any text and any values: no panic, no unbounded recursion, and an end within the [`Budget`]; an
//! error names the place in the text.

mod budget;
mod error;
mod evaluate;
mod functions;
mod json;
mod parser;
mod reads;
mod scope;
mod strings;
mod syntax;
mod tokens;
mod value;

use std::collections::BTreeSet;

use evaluate::{Aggregate, Evaluator};

pub use budget::Budget;
pub use error::{Error, ErrorKind};
pub use json::{MOST_NODES, MOST_VALUE};
pub use parser::MOST_SOURCE;
pub use reads::{Past, PastPart, Uses};
pub use scope::{Fact, Sample, Scope};
pub use syntax::MOST_NESTING;
pub use value::{Entries, Fields, List, Map, Text, Value};

/// An expression that has been read.
#[derive(Debug)]
pub struct Expression {
    source: Box<str>,
    root: syntax::Node,
    reads: reads::Reads,
    kept: usize,
}

impl Expression {
    /// Reads an expression of at most [`MOST_SOURCE`] bytes, nested at most [`MOST_NESTING`] deep. Functions that
    /// there are not, and wrong numbers of arguments, are refused here.
    pub fn parse(source: &str) -> Result<Expression, Error> {
        match parser::parse(source) {
            Ok(read) => {
                Ok(Expression { source: source.into(), root: read.root, reads: read.reads, kept: read.kept })
            }
            Err(fault) => Err(fault.placed(source)),
        }
    }

    /// The text it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The inputs that it names, in whatever way it looks at them.
    pub fn inputs(&self) -> BTreeSet<String> {
        self.reads.inputs()
    }

    /// How it looks at them.
    pub fn uses(&self) -> Uses {
        self.reads.uses()
    }

    /// Refuses what it names and there is not. A parameter that `has(params.x)` asks for may be missing.
    pub fn check(&self, inputs: &BTreeSet<String>, params: &BTreeSet<String>) -> Result<(), Vec<Error>> {
        let faults = self.reads.unknown(inputs, params);
        if faults.is_empty() {
            return Ok(());
        }
        Err(faults.into_iter().map(|fault| fault.placed(&self.source)).collect())
    }

    /// Evaluates it once.
    pub fn evaluate<'a>(&'a self, scope: &'a dyn Scope, budget: Budget) -> Result<Value<'a>, Error> {
        self.round().evaluate(scope, budget)
    }

    /// Begins evaluations of one moment over many nodes.
    pub fn round(&self) -> Round<'_> {
        Round { expression: self, kept: vec![None; self.kept] }
    }
}

/// Evaluations of one expression at one moment, for one node after another: what it asks across all nodes is worked
/// out once. The scopes of a round must see the same nodes with the same values, and the same parameters.
#[derive(Debug)]
pub struct Round<'e> {
    expression: &'e Expression,
    kept: Vec<Option<Aggregate>>,
}

impl<'e> Round<'e> {
    pub fn evaluate<'a>(&mut self, scope: &'a dyn Scope, budget: Budget) -> Result<Value<'a>, Error>
    where
        'e: 'a,
    {
        let expression = self.expression;
        Evaluator::new(scope, budget, &mut self.kept)
            .evaluate(&expression.root)
            .map_err(|fault| fault.placed(&expression.source))
    }
}
