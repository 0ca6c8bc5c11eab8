//! The plain functions. The parser has counted their arguments.

use super::{Answer, Evaluator, Outcome, finite, statistics, steps_of};
use crate::{
    error::{Fault, quoted},
    functions::Function,
    json::rendered,
    syntax::Node,
    value::{Text, Value},
};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn call(&mut self, at: u32, function: Function, args: &'a [Node]) -> Answer<'a> {
        match (function, args) {
            (Function::Abs, [x]) => self.numeric(at, x, "abs", f64::abs),
            (Function::Ceil, [x]) => self.numeric(at, x, "ceil", f64::ceil),
            (Function::Exp, [x]) => self.numeric(at, x, "exp", f64::exp),
            (Function::Floor, [x]) => self.numeric(at, x, "floor", f64::floor),
            (Function::Round, [x]) => self.numeric(at, x, "round", f64::round),
            (Function::Ln, [x]) => self.logarithm(at, x),
            (Function::Sqrt, [x]) => self.square_root(at, x),
            (Function::Pow, [x, y]) => {
                let (x, y) = (self.number(x, "pow")?, self.number(y, "pow")?);
                finite(at, x.powf(y)).map(Value::Number)
            }
            (Function::Clamp, [x, low, high]) => self.clamp(at, x, low, high),
            (Function::Min, _) => self.extreme(at, args, "min", f64::min),
            (Function::Max, _) => self.extreme(at, args, "max", f64::max),
            (Function::Sum, [list]) => self.of_list(at, list, "sum", statistics::sum),
            (Function::Mean, [list]) => self.of_list(at, list, "mean", statistics::mean),
            (Function::Median, [list]) => self.of_list(at, list, "median", statistics::median),
            (Function::Stddev, [list]) => self.of_list(at, list, "stddev", statistics::stddev),
            (Function::Size, [x]) => self.size(x),
            (Function::Double, [x]) => self.double(x),
            (Function::String, [x]) => self.string(x),
            (Function::Bool, [x]) => self.boolean(x),
            (Function::Contains, [x, y]) => self.look_into(x, y, "contains", |x, y| x.contains(y)),
            (Function::StartsWith, [x, y]) => self.look_into(x, y, "startsWith", |x, y| x.starts_with(y)),
            (Function::EndsWith, [x, y]) => self.look_into(x, y, "endsWith", |x, y| x.ends_with(y)),
            // The parser lets nothing else through.
            _ => Err(Fault::failed(at, "a wrong number of arguments")),
        }
    }

    fn numeric(&mut self, at: u32, x: &'a Node, name: &str, function: fn(f64) -> f64) -> Answer<'a> {
        finite(at, function(self.number(x, name)?)).map(Value::Number)
    }

    fn logarithm(&mut self, at: u32, x: &'a Node) -> Answer<'a> {
        match self.number(x, "ln")? {
            x if x > 0.0 => Ok(Value::Number(x.ln())),
            x => Err(Fault::failed(at, format!("there is no logarithm of {}", rendered(x)))),
        }
    }

    fn square_root(&mut self, at: u32, x: &'a Node) -> Answer<'a> {
        match self.number(x, "sqrt")? {
            x if x >= 0.0 => Ok(Value::Number(x.sqrt())),
            x => Err(Fault::failed(at, format!("there is no square root of {}", rendered(x)))),
        }
    }

    fn clamp(&mut self, at: u32, x: &'a Node, low: &'a Node, high: &'a Node) -> Answer<'a> {
        let (x, low, high) =
            (self.number(x, "clamp")?, self.number(low, "clamp")?, self.number(high, "clamp")?);
        if low > high {
            let message = format!("no number is at least {} and at most {}", rendered(low), rendered(high));
            return Err(Fault::failed(at, message));
        }
        Ok(Value::Number(x.clamp(low, high)))
    }

    /// The least or the greatest of the arguments, or of the one that is a list.
    fn extreme(&mut self, at: u32, args: &'a [Node], name: &str, pick: fn(f64, f64) -> f64) -> Answer<'a> {
        if let [list] = args {
            return self.of_list(at, list, name, |numbers| numbers.iter().copied().reduce(pick));
        }
        let mut result = None;
        for arg in args {
            let number = self.number(arg, name)?;
            result = Some(result.map_or(number, |result| pick(result, number)));
        }
        result.map(Value::Number).ok_or_else(|| Fault::failed(at, format!("{name} of nothing")))
    }

    fn of_list(
        &mut self,
        at: u32,
        list: &'a Node,
        name: &str,
        function: impl Fn(&mut [f64]) -> Option<f64>,
    ) -> Answer<'a> {
        let mut numbers = self.numbers(list, name)?;
        match function(&mut numbers) {
            Some(number) => finite(at, number).map(Value::Number),
            None => Err(Fault::failed(at, format!("there is no {name} of an empty list"))),
        }
    }

    fn numbers(&mut self, node: &'a Node, name: &str) -> Outcome<Vec<f64>> {
        let list = match self.evaluate(node)? {
            Value::List(list) => list,
            other => return Err(super::unfit(node.at, name, "a list of numbers", &other)),
        };
        self.budget.step(node.at, list.len())?;
        self.budget.build(node.at, list.len() * size_of::<f64>())?;
        list.iter()
            .map(|item| match item {
                Value::Number(number) => Ok(number),
                other => Err(super::unfit(node.at, name, "numbers", &other)),
            })
            .collect()
    }

    fn size(&mut self, node: &'a Node) -> Answer<'a> {
        let size = match self.evaluate(node)? {
            Value::Text(text) => {
                self.budget.step(node.at, steps_of(&text))?;
                text.chars().count()
            }
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            other => return Err(super::unfit(node.at, "size", "a string, a list or a map", &other)),
        };
        Ok(Value::Number(size as f64))
    }

    fn double(&mut self, node: &'a Node) -> Answer<'a> {
        match self.evaluate(node)? {
            Value::Number(number) => Ok(Value::Number(number)),
            Value::Bool(truth) => Ok(Value::Number(f64::from(u8::from(truth)))),
            Value::Text(text) => {
                self.budget.step(node.at, steps_of(&text))?;
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
                let wrong = || Fault::failed(node.at, format!("{} is not a number", quoted(&text)));
                number.map(Value::Number).ok_or_else(wrong)
            }
            other => Err(super::unfit(node.at, "double", "a string, a number or a truth", &other)),
        }
    }

    fn string(&mut self, node: &'a Node) -> Answer<'a> {
        let text = match self.evaluate(node)? {
            Value::Text(text) => return Ok(Value::Text(text)),
            Value::Number(number) => rendered(number).to_string(),
            Value::Bool(truth) => {
                return Ok(Value::Text(Text::Borrowed(if truth { "true" } else { "false" })));
            }
            other => return Err(super::unfit(node.at, "string", "a number, a truth or a string", &other)),
        };
        self.budget.build(node.at, text.len())?;
        Ok(Value::text(text))
    }

    fn boolean(&mut self, node: &'a Node) -> Answer<'a> {
        match self.evaluate(node)? {
            Value::Bool(truth) => Ok(Value::Bool(truth)),
            Value::Text(text) if &*text == "true" => Ok(Value::Bool(true)),
            Value::Text(text) if &*text == "false" => Ok(Value::Bool(false)),
            Value::Text(text) => {
                Err(Fault::failed(node.at, format!("{} is neither \"true\" nor \"false\"", quoted(&text))))
            }
            other => Err(super::unfit(node.at, "bool", "\"true\" or \"false\"", &other)),
        }
    }

    fn look_into(
        &mut self,
        x: &'a Node,
        y: &'a Node,
        name: &str,
        found: fn(&str, &str) -> bool,
    ) -> Answer<'a> {
        let (text, part) = (self.string_of(x, name)?, self.string_of(y, name)?);
        self.budget.step(x.at, steps_of(&text) + steps_of(&part))?;
        Ok(Value::Bool(found(&text, &part)))
    }

    fn string_of(&mut self, node: &'a Node, name: &str) -> Outcome<Text<'a>> {
        match self.evaluate(node)? {
            Value::Text(text) => Ok(text),
            other => Err(super::unfit(node.at, name, "strings", &other)),
        }
    }
}
