//! Operands: literals, names, brackets, and the fields, indices and calls that follow them.

use super::{ParseResult, Parser};
use crate::{
    error::{Fault, quoted},
    syntax::{Node, NodeKind, Step, highest, highest_step},
    tokens::Token,
};

/// Words that CEL reserves.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// The name under which parameters are.
pub(super) const PARAMS: &str = "params";

/// A name and where it stands.
type Name = (u32, Box<str>);

impl Parser {
    /// A value, with what follows it.
    pub(super) fn postfixed(&mut self) -> ParseResult {
        let node = self.primary()?;
        match self.peek() {
            Token::Sign("." | "[" | "{") => self.followed(node),
            _ => Ok(node),
        }
    }

    /// The `.field`, `[index]` and `.function(…)` after a value.
    fn followed(&mut self, mut node: Node) -> ParseResult {
        loop {
            let (steps, call) = self.steps()?;
            node = self.path(node, steps)?;
            match call {
                Some((at, name)) => node = self.method(at, &name, node)?,
                None => return Ok(node),
            }
        }
    }

    /// Fields and indices, up to the name of a function that is called.
    fn steps(&mut self) -> ParseResult<(Vec<Step>, Option<Name>)> {
        let mut steps = Vec::new();
        loop {
            if self.take("[") {
                if matches!(self.peek(), Token::Sign("?")) {
                    return Err(Fault::syntax(self.at(), "there are no optional values here: use has(x.y)"));
                }
                steps.push(Step::Index(self.expression()?));
                self.expect("]")?;
            } else if self.take(".") {
                let (at, name) = self.field()?;
                if matches!(self.peek(), Token::Sign("(")) {
                    return Ok((steps, Some((at, name))));
                }
                steps.push(Step::Field(at, name));
            } else if matches!(self.peek(), Token::Sign("{")) {
                let message = "there are no messages here: a map is written {\"key\": value}";
                return Err(Fault::syntax(self.at(), message));
            } else {
                return Ok((steps, None));
            }
        }
    }

    fn path(&self, base: Node, steps: Vec<Step>) -> ParseResult {
        if steps.is_empty() {
            return Ok(base);
        }
        let below = highest_step(&steps).max(base.height);
        self.node(base.at, below, NodeKind::Path(Box::new(base), steps.into()))
    }

    /// The name after a dot. Words that mean something elsewhere are names there.
    fn field(&mut self) -> ParseResult<Name> {
        let at = self.at();
        match self.peek().clone() {
            Token::Name(name) => {
                self.next += 1;
                Ok((at, name))
            }
            Token::Sign("?") => Err(Fault::syntax(at, "there are no optional values here: use has(x.y)")),
            Token::Text(text) => {
                Err(Fault::syntax(at, format!("expected the name of a field: write [{}]", quoted(&text))))
            }
            _ => Err(self.unexpected("the name of a field")),
        }
    }

    fn primary(&mut self) -> ParseResult {
        match self.peek() {
            Token::Name(_) => self.named(),
            Token::Sign("(") => self.bracketed(),
            Token::Sign("[") => self.list(),
            Token::Sign("{") => self.map(),
            _ => self.literal(),
        }
    }

    fn literal(&mut self) -> ParseResult {
        let at = self.at();
        let kind = match self.peek().clone() {
            Token::Number(number) => NodeKind::Number(number),
            Token::Text(text) => NodeKind::Text(text),
            Token::Sign(".") => return Err(Fault::syntax(at, "a name does not begin with a dot")),
            _ => return Err(self.unexpected("a value")),
        };
        self.next += 1;
        self.node(at, 0, kind)
    }

    fn bracketed(&mut self) -> ParseResult {
        self.next += 1;
        let inner = self.expression()?;
        self.expect(")")?;
        Ok(inner)
    }

    fn list(&mut self) -> ParseResult {
        let at = self.at();
        self.next += 1;
        let items = self.separated("]", Self::expression)?;
        self.node(at, highest(&items), NodeKind::List(items.into()))
    }

    fn map(&mut self) -> ParseResult {
        let at = self.at();
        self.next += 1;
        let entries = self.separated("}", Self::entry)?;
        let below = highest(entries.iter().flat_map(|(key, value)| [key, value]));
        self.node(at, below, NodeKind::Map(entries.into()))
    }

    fn entry(&mut self) -> ParseResult<(Node, Node)> {
        let key = self.key()?;
        self.expect(":")?;
        Ok((key, self.expression()?))
    }

    fn key(&mut self) -> ParseResult {
        let named = matches!(self.peek(), Token::Name(_)) && matches!(self.peek_after(1), Token::Sign(":"));
        let (at, known) = (self.at(), self.reads.references.len());
        let key = self.expression()?;
        if let (true, Some(reference)) = (named, self.reads.references.get_mut(known)) {
            // `{value: 1}` reads an input; without such an input a string was meant.
            reference.as_key = reference.at == at;
        }
        if matches!(key.kind, NodeKind::Number(_) | NodeKind::Bool(_) | NodeKind::Null) {
            return Err(Fault::syntax(key.at, "the keys of a map are strings: put it in quotes"));
        }
        Ok(key)
    }

    /// A list separated by commas, up to the bracket; one comma more at the end is passed over.
    pub(super) fn separated<T>(
        &mut self,
        end: &str,
        each: impl Fn(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<Vec<T>> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(each(self)?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn named(&mut self) -> ParseResult {
        let at = self.at();
        let Token::Name(name) = self.peek().clone() else { return Err(self.unexpected("a name")) };
        self.next += 1;
        match &*name {
            "in" => Err(Fault::syntax(at, "`in` needs a value on its left")),
            "true" | "false" | "null" => self.resolved(at, &name),
            _ if matches!(self.peek(), Token::Sign("(")) => self.call(at, &name),
            _ => self.resolved(at, &name),
        }
    }

    /// The meaning of a name that is not called: a literal, a variable, a parameter, or else an input.
    fn resolved(&mut self, at: u32, name: &str) -> ParseResult {
        let kind = match name {
            "true" => NodeKind::Bool(true),
            "false" => NodeKind::Bool(false),
            "null" => NodeKind::Null,
            PARAMS => return self.param(at),
            _ if RESERVED.contains(&name) => {
                let message =
                    format!("`{name}` is a reserved word; an input of that name is input(\"{name}\")");
                return Err(Fault::syntax(at, message));
            }
            _ => match self.locals.iter().rposition(|local| **local == *name) {
                Some(slot) => NodeKind::Local(slot),
                None => {
                    self.reads.input(name, at);
                    NodeKind::Input(name.into())
                }
            },
        };
        self.node(at, 0, kind)
    }

    /// `params.name` or `params["name"]`.
    fn param(&mut self, at: u32) -> ParseResult {
        let name = match (self.peek().clone(), self.peek_after(1).clone(), self.peek_after(2).clone()) {
            (Token::Sign("."), Token::Name(name), _) => {
                self.next += 2;
                name
            }
            (Token::Sign("["), Token::Text(name), Token::Sign("]")) => {
                self.next += 3;
                name
            }
            _ => return Err(Fault::syntax(at, "a parameter is written params.name or params[\"name\"]")),
        };
        self.reads.param(&name, at);
        self.node(at, 0, NodeKind::Param(name))
    }

    /// A name that can be a variable of a comprehension.
    pub(super) fn variable(&mut self) -> ParseResult<Box<str>> {
        let at = self.at();
        match self.peek().clone() {
            Token::Name(name) => {
                if [PARAMS, "true", "false", "null", "in"].contains(&&*name) || RESERVED.contains(&&*name) {
                    return Err(Fault::syntax(at, format!("`{name}` cannot be the name of a variable")));
                }
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("the name of a variable")),
        }
    }
}
