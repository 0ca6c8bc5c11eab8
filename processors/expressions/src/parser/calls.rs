//! Names that are called: macros, special forms and plain functions, each with its number of arguments.

use super::{ParseResult, Parser, special};
use crate::{
    error::{Fault, nearest, quoted},
    functions::{self, Form, Signature},
    syntax::{Node, NodeKind, highest},
};

impl Parser {
    /// `name(…)`
    pub(super) fn call(&mut self, at: u32, name: &str) -> ParseResult {
        self.expect("(")?;
        match name {
            "has" => return self.has(at),
            "input" => return self.quoted_input(at),
            "node" => {
                self.expect(")")?;
                return self.node(at, 0, NodeKind::Here);
            }
            _ => {}
        }
        if let Some(what) = special::question(name) {
            return self.question(at, what);
        }
        if let Some(what) = special::over(name) {
            return self.over(at, what);
        }
        let mut args = self.separated(")", Self::expression)?;
        if let Some(what) = special::statistic(name)
            && let Some(window) = special::window_text(name, &args)?
        {
            args.truncate(1);
            return self.window(at, what, args, window);
        }
        match functions::find(name) {
            Some(signature) if signature.form == Form::Method => {
                Err(Fault::syntax(at, format!("`{name}` is written after a value: x.{name}(y)")))
            }
            Some(signature) => self.function(at, signature, 0, args),
            None => Err(unknown(at, name)),
        }
    }

    /// `receiver.name(…)`
    pub(super) fn method(&mut self, at: u32, name: &str, receiver: Node) -> ParseResult {
        self.expect("(")?;
        if let Some(what) = super::macros::find(name) {
            return self.each(at, what, receiver);
        }
        let args = self.separated(")", Self::expression)?;
        match functions::find(name) {
            Some(signature) if signature.form != Form::Plain => {
                self.function(at, signature, 1, std::iter::once(receiver).chain(args).collect())
            }
            Some(_) => Err(Fault::syntax(at, format!("`{name}` is no method: write {name}(x)"))),
            None if special::is_special(name) => {
                Err(Fault::syntax(at, format!("`{name}` is no method: write {name}(…)")))
            }
            None => Err(unknown(at, name)),
        }
    }

    /// `before` is how many of the arguments stand before the name.
    fn function(&mut self, at: u32, signature: &Signature, before: usize, args: Vec<Node>) -> ParseResult {
        let Signature { name, least, most, .. } = *signature;
        if args.len() < least || args.len() > most {
            let wanted = match least - before {
                0 => "no argument".to_owned(),
                1 if most > least => "one argument or more".to_owned(),
                1 => "one argument".to_owned(),
                count => format!("{count} arguments"),
            };
            let message = format!("`{name}` takes {wanted}, not {}", args.len() - before);
            return Err(Fault::syntax(at, message));
        }
        self.node(at, highest(&args), NodeKind::Call(signature.function, args.into()))
    }
}

#[cold]
fn unknown(at: u32, name: &str) -> Box<Fault> {
    if let Some((_, instead)) = functions::ABSENT.iter().find(|(absent, _)| *absent == name) {
        return Fault::syntax(at, format!("no function `{name}`: {instead}"));
    }
    let names = functions::PLAIN.iter().map(|signature| signature.name).chain(functions::SPECIAL);
    let message = match (super::macros::find(name), nearest(name, names)) {
        (Some(_), _) => format!("`{name}` is written after a list or a map: x.{name}(…)"),
        (None, Some(meant)) => format!("no function {}: did you mean `{meant}`?", quoted(name)),
        (None, None) => format!("no function {}", quoted(name)),
    };
    Fault::syntax(at, message)
}
