//! Reads the text into a tree: operators, brackets, paths and literals; names that are called are in [`calls`].
//!
//! Invariants: it never recurses deeper than [`MOST_NESTING`] brackets, whatever the text, and gives no tree
//! higher than [`MOST_HEIGHT`]. It collects what the expression reads while it goes, in [`Reads`].

mod calls;
mod macros;
mod primary;
mod special;

use crate::{
    error::{Fault, quoted},
    json::rendered,
    reads::Reads,
    syntax::{Link, MOST_HEIGHT, MOST_NESTING, Node, NodeKind, Operator, highest},
    tokens::{PlacedToken, Token, split},
};

/// Longer is no expression but a mistake.
pub const MOST_SOURCE: usize = 4 * 1024;

type ParseResult<T = Node> = Result<T, Box<Fault>>;

/// An expression that was read.
pub struct ParsedExpression {
    pub root: Node,
    pub reads: Reads,
    /// How many aggregates across nodes a round can keep.
    pub kept: usize,
}

pub fn parse(source: &str) -> ParseResult<ParsedExpression> {
    if source.len() > MOST_SOURCE {
        let message = format!("the expression has {} bytes; at most {MOST_SOURCE} are read", source.len());
        return Err(Fault::too_much(0, message));
    }
    let tokens = split(source)?;
    let mut parser =
        Parser { tokens, next: 0, nesting: 0, locals: Vec::new(), reads: Reads::default(), kept: 0 };
    let root = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(ParsedExpression { root, reads: parser.reads, kept: parser.kept }),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser {
    tokens: Vec<PlacedToken>,
    next: usize,
    nesting: usize,
    /// The variables of the comprehensions around, outermost first.
    locals: Vec<Box<str>>,
    reads: Reads,
    kept: usize,
}

/// How tightly a sign binds what stands on its sides.
const OR: u8 = 1;
const AND: u8 = 2;
const RELATION: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;

impl Parser {
    /// A whole expression: the top, or what is in brackets. From here on down to [`Parser::primary`] functions are
    /// kept small, because they are what is on the stack when brackets are in brackets.
    fn expression(&mut self) -> ParseResult {
        self.enter()?;
        let mut node = self.operators()?;
        if matches!(self.peek(), Token::Sign("?")) {
            node = self.choice(node)?;
        }
        self.nesting -= 1;
        Ok(node)
    }

    /// `a ? b : c ? d : e`, as long as it goes on.
    fn choice(&mut self, first: Node) -> ParseResult {
        let at = first.at;
        let mut cases = Vec::new();
        let mut condition = first;
        while self.take("?") {
            let then = self.expression()?;
            self.expect(":")?;
            cases.push((condition, then));
            condition = self.operators()?;
        }
        let below =
            highest(cases.iter().flat_map(|(condition, then)| [condition, then])).max(condition.height);
        self.node(at, below, NodeKind::Choice(cases.into(), Box::new(condition)))
    }

    /// Values with operators between them. A chain that waits for its right side is on a list, not on the
    /// stack: five precedences in each of many brackets would be deep.
    fn operators(&mut self) -> ParseResult {
        let mut open: Vec<OpenChain> = Vec::new();
        let mut node = self.prefixed()?;
        loop {
            let next = self.operator();
            let binds = next.map_or(0, |(binds, _)| binds);
            while let Some(mut inner) = open.pop_if(|inner| inner.binds > binds) {
                inner.close(node);
                node = self.chain(inner.binds, inner.first, inner.rest)?;
            }
            let Some((_, operator)) = next else { return Ok(node) };
            let at = self.at();
            match open.last_mut().filter(|outer| outer.binds == binds) {
                Some(outer) => {
                    outer.close(node);
                    outer.next = (operator, at);
                }
                None => open.push(OpenChain { binds, first: node, rest: Vec::new(), next: (operator, at) }),
            }
            self.next += 1;
            node = self.prefixed()?;
        }
    }

    fn chain(&self, binds: u8, first: Node, rest: Vec<Link>) -> ParseResult {
        let below = highest(rest.iter().map(|link| &link.node)).max(first.height);
        let at = rest.first().map_or(first.at, |link| link.at);
        let kind = match binds {
            OR => NodeKind::Or(all_of(first, rest)),
            AND => NodeKind::And(all_of(first, rest)),
            _ => NodeKind::Chain(Box::new(first), rest.into()),
        };
        self.node(at, below, kind)
    }

    /// The operator that comes next. Those of `&&` and `||` mean nothing: their nodes have none.
    fn operator(&self) -> Option<(u8, Operator)> {
        Some(match self.peek() {
            Token::Sign("||") => (OR, Operator::Equal),
            Token::Sign("&&") => (AND, Operator::Equal),
            Token::Sign("<") => (RELATION, Operator::Less),
            Token::Sign("<=") => (RELATION, Operator::LessOrEqual),
            Token::Sign(">") => (RELATION, Operator::Greater),
            Token::Sign(">=") => (RELATION, Operator::GreaterOrEqual),
            Token::Sign("==") => (RELATION, Operator::Equal),
            Token::Sign("!=") => (RELATION, Operator::NotEqual),
            Token::Name(name) if &**name == "in" => (RELATION, Operator::In),
            Token::Sign("+") => (SUM, Operator::Add),
            Token::Sign("-") => (SUM, Operator::Subtract),
            Token::Sign("*") => (PRODUCT, Operator::Multiply),
            Token::Sign("/") => (PRODUCT, Operator::Divide),
            Token::Sign("%") => (PRODUCT, Operator::Remainder),
            _ => return None,
        })
    }

    fn prefixed(&mut self) -> ParseResult {
        match self.peek() {
            Token::Sign("!" | "-") => self.prefix(),
            _ => self.postfixed(),
        }
    }

    /// `!x` and `-x`.
    fn prefix(&mut self) -> ParseResult {
        let (at, negated) = (self.at(), !self.take("!"));
        self.next += usize::from(negated);
        self.enter()?;
        let node = self.prefixed()?;
        self.nesting -= 1;
        match node.kind {
            NodeKind::Number(number) if negated => self.node(at, 0, NodeKind::Number(-number)),
            _ if negated => self.node(at, node.height, NodeKind::Negate(Box::new(node))),
            _ => self.node(at, node.height, NodeKind::Not(Box::new(node))),
        }
    }

    /// Goes one level deeper. After an error nothing is read any more, so the level need not be restored.
    fn enter(&mut self) -> ParseResult<()> {
        // The expression itself is no level.
        if self.nesting > MOST_NESTING {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        Ok(())
    }

    fn node(&self, at: u32, below: u8, kind: NodeKind) -> ParseResult {
        if below >= MOST_HEIGHT {
            return Err(self.too_deep());
        }
        Ok(Node::new(at, below, kind))
    }

    #[cold]
    fn too_deep(&self) -> Box<Fault> {
        Fault::too_much(self.at(), format!("nested too deeply: {MOST_NESTING} levels are read"))
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.next].token
    }

    fn peek_after(&self, count: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + count).min(last)].token
    }

    fn at(&self) -> u32 {
        self.tokens[self.next].at
    }

    /// Passes over a sign if it is the next.
    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(next) if *next == sign);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> ParseResult<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    #[cold]
    fn unexpected(&self, wanted: &str) -> Box<Fault> {
        let message = match self.peek() {
            Token::End => format!("the expression ends here, where {wanted} is expected"),
            Token::Name(name) => format!("expected {wanted}, not {}", quoted(name)),
            Token::Number(number) => format!("expected {wanted}, not the number {}", rendered(*number)),
            Token::Text(text) => format!("expected {wanted}, not the string {}", quoted(text)),
            Token::Sign(sign) => format!("expected {wanted}, not `{sign}`"),
        };
        Fault::syntax(self.at(), message)
    }
}

/// A chain of operators of one precedence that is not at its end.
struct OpenChain {
    binds: u8,
    first: Node,
    rest: Vec<Link>,
    /// The operator whose right side is being read.
    next: (Operator, u32),
}

impl OpenChain {
    fn close(&mut self, node: Node) {
        let (operator, at) = self.next;
        self.rest.push(Link { operator, at, node });
    }
}

fn all_of(first: Node, rest: Vec<Link>) -> Box<[Node]> {
    std::iter::once(first).chain(rest.into_iter().map(|link| link.node)).collect()
}
