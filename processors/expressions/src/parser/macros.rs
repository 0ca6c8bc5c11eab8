//! Comprehensions and `has`: forms that bind variables, or read their argument as it is written.

use super::{ParseResult, Parser};
use crate::{
    error::Fault,
    syntax::{Each, Macro, Node, NodeKind, Step, highest, highest_step},
    tokens::Token,
};

pub fn find(name: &str) -> Option<Macro> {
    Some(match name {
        "all" => Macro::All,
        "exists" => Macro::Exists,
        "exists_one" => Macro::ExistsOne,
        "map" => Macro::Map,
        "filter" => Macro::Filter,
        "transformList" => Macro::TransformList,
        "transformMap" => Macro::TransformMap,
        _ => return None,
    })
}

impl Parser {
    /// `x.map(v, …)`, behind the opening bracket.
    pub(super) fn each(&mut self, at: u32, what: Macro, over: Node) -> ParseResult {
        let slot = self.locals.len();
        let pairs = self.variables(what)?;
        let (filter, body) = self.bodies(at, what)?;
        self.locals.truncate(slot);
        let each = Each { what, over, slot, pairs, filter, body };
        let below = highest([&each.over, &each.body].into_iter().chain(&each.filter));
        self.node(at, below, NodeKind::Each(Box::new(each)))
    }

    /// The variables; whether there are two.
    fn variables(&mut self, what: Macro) -> ParseResult<bool> {
        let first = self.variable()?;
        self.expect(",")?;
        let pairs = match what {
            Macro::TransformList | Macro::TransformMap => true,
            // Two names before the last comma: a key and a value.
            Macro::All | Macro::Exists | Macro::ExistsOne => {
                matches!(self.peek(), Token::Name(_)) && matches!(self.peek_after(1), Token::Sign(","))
            }
            Macro::Map | Macro::Filter => false,
        };
        self.locals.push(first);
        if pairs {
            let at = self.at();
            let second = self.variable()?;
            if self.locals.last() == Some(&second) {
                return Err(Fault::syntax(at, "the two variables have the same name"));
            }
            self.locals.push(second);
            self.expect(",")?;
        }
        Ok(pairs)
    }

    /// The expression that is evaluated for each element, with a condition before it if there are two.
    fn bodies(&mut self, at: u32, what: Macro) -> ParseResult<(Option<Node>, Node)> {
        let mut bodies = self.separated(")", Self::expression)?;
        let filtered = matches!(what, Macro::Map | Macro::TransformList | Macro::TransformMap);
        match (bodies.pop(), bodies.pop(), bodies.pop()) {
            (Some(body), None, _) => Ok((None, body)),
            (Some(body), filter @ Some(_), None) if filtered => Ok((filter, body)),
            _ => {
                let form = match what {
                    Macro::All => "all(v, condition)",
                    Macro::Exists => "exists(v, condition)",
                    Macro::ExistsOne => "exists_one(v, condition)",
                    Macro::Filter => "filter(v, condition)",
                    Macro::Map => "map(v, value) or map(v, condition, value)",
                    Macro::TransformList => {
                        "transformList(k, v, value) or transformList(k, v, condition, value)"
                    }
                    Macro::TransformMap => {
                        "transformMap(k, v, value) or transformMap(k, v, condition, value)"
                    }
                };
                Err(Fault::syntax(at, format!("it is written x.{form}")))
            }
        }
    }

    /// `has(x.y)`, behind the opening bracket.
    pub(super) fn has(&mut self, at: u32) -> ParseResult {
        let wrong = "`has` asks for a field: has(x.y)";
        let mut args = self.separated(")", Self::expression)?;
        let (Some(node), true) = (args.pop(), args.is_empty()) else {
            return Err(Fault::syntax(at, wrong));
        };
        match node.kind {
            NodeKind::Param(name) => {
                self.reads.optional_params.insert(name.to_string());
                self.node(at, 0, NodeKind::HasParam(name))
            }
            NodeKind::Path(base, steps) => {
                let below = highest_step(&steps).max(base.height);
                if let Some(Step::Index(Node { kind: NodeKind::Number(_), at, .. })) = steps.last() {
                    return Err(Fault::syntax(
                        *at,
                        "`has` asks for a field: size(x) says how many a list has",
                    ));
                }
                self.node(at, below, NodeKind::Has(base, steps))
            }
            _ => Err(Fault::syntax(node.at, wrong)),
        }
    }
}
