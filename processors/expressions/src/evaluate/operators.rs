//! Operators between two values.

use super::{Answer, Evaluator, Outcome, finite, steps_of};
use crate::{
    error::Fault,
    syntax::{Link, Node, Operator},
    value::{ENTRY, List, Map, Value},
};

/// Values that are nested deeper are not compared. Those of a scope may be deeper than any that is built.
const MOST_DEPTH: usize = 100;

impl<'a> Evaluator<'a, '_> {
    pub(super) fn chain(&mut self, first: &'a Node, rest: &'a [Link]) -> Answer<'a> {
        let mut left = self.evaluate(first)?;
        for link in rest {
            let right = self.evaluate(&link.node)?;
            left = match (&left, &right) {
                (Value::Number(left), Value::Number(right)) => numbers(link, *left, *right)?,
                _ => self.others(link, &left, &right)?,
            };
        }
        Ok(left)
    }

    /// Operators over other values than two numbers.
    fn others(&mut self, link: &Link, left: &Value<'a>, right: &Value<'a>) -> Answer<'a> {
        let at = link.at;
        match (link.operator, left, right) {
            (Operator::Equal, _, _) => self.equal(at, left, right, 0).map(Value::Bool),
            (Operator::NotEqual, _, _) => self.equal(at, left, right, 0).map(|equal| Value::Bool(!equal)),
            (Operator::In, _, Value::List(list)) => self.is_in(at, left, list),
            (Operator::In, Value::Text(key), Value::Map(map)) => {
                self.budget.step(at, steps_of(key))?;
                Ok(Value::Bool(map.get(key).is_some()))
            }
            (Operator::Add, Value::Text(left), Value::Text(right)) => {
                let length = left.len() + right.len();
                self.budget.step(at, length / 16)?;
                self.budget.build(at, length)?;
                Ok(Value::text([&**left, &**right].concat()))
            }
            (Operator::Add, Value::List(left), Value::List(right)) => {
                let length = left.len() + right.len();
                self.budget.step(at, length)?;
                self.budget.build(at, length * ENTRY)?;
                Ok(Value::list(left.iter().chain(right.iter()).collect()))
            }
            (
                Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual,
                Value::Text(left),
                Value::Text(right),
            ) => {
                self.budget.step(at, steps_of(left).min(steps_of(right)))?;
                Ok(Value::Bool(ordered(link.operator, (**left).cmp(&**right))))
            }
            _ => Err(unfit(link, left, right)),
        }
    }

    fn is_in(&mut self, at: u32, value: &Value<'a>, list: &List<'a>) -> Answer<'a> {
        for item in list.iter() {
            if self.equal(at, value, &item, 0)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    /// Values of different kinds are not equal, which is no error.
    fn equal(&mut self, at: u32, left: &Value<'a>, right: &Value<'a>, depth: usize) -> Outcome<bool> {
        self.budget.step(at, 1)?;
        if depth > MOST_DEPTH {
            return Err(Fault::too_much(at, "what is compared is nested too deeply"));
        }
        match (left, right) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
            (Value::Number(left), Value::Number(right)) => Ok(left == right),
            (Value::Text(left), Value::Text(right)) => {
                self.budget.step(at, steps_of(left).min(steps_of(right)))?;
                Ok(**left == **right)
            }
            (Value::List(left), Value::List(right)) => self.equal_lists(at, left, right, depth),
            (Value::Map(left), Value::Map(right)) => self.equal_maps(at, left, right, depth),
            _ => Ok(false),
        }
    }

    fn equal_lists(&mut self, at: u32, left: &List<'a>, right: &List<'a>, depth: usize) -> Outcome<bool> {
        if left.len() != right.len() {
            return Ok(false);
        }
        for (left, right) in left.iter().zip(right.iter()) {
            if !self.equal(at, &left, &right, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_maps(&mut self, at: u32, left: &Map<'a>, right: &Map<'a>, depth: usize) -> Outcome<bool> {
        if left.len() != right.len() {
            return Ok(false);
        }
        for (key, value) in left.iter() {
            match right.get(&key) {
                Some(other) if self.equal(at, &value, &other, depth + 1)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

#[inline]
fn numbers<'a>(link: &Link, left: f64, right: f64) -> Answer<'a> {
    let number = match link.operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide if right == 0.0 => return Err(Fault::failed(link.at, "cannot divide by 0")),
        Operator::Divide => left / right,
        Operator::Remainder if right == 0.0 => {
            return Err(Fault::failed(link.at, "there is no remainder of a division by 0"));
        }
        Operator::Remainder => left % right,
        Operator::Equal => return Ok(Value::Bool(left == right)),
        Operator::NotEqual => return Ok(Value::Bool(left != right)),
        Operator::Less => return Ok(Value::Bool(left < right)),
        Operator::LessOrEqual => return Ok(Value::Bool(left <= right)),
        Operator::Greater => return Ok(Value::Bool(left > right)),
        Operator::GreaterOrEqual => return Ok(Value::Bool(left >= right)),
        Operator::In => return Err(unfit(link, &Value::Number(left), &Value::Number(right))),
    };
    finite(link.at, number).map(Value::Number)
}

fn ordered(operator: Operator, order: std::cmp::Ordering) -> bool {
    match operator {
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        _ => order.is_ge(),
    }
}

#[cold]
fn unfit(link: &Link, left: &Value<'_>, right: &Value<'_>) -> Box<Fault> {
    let (one, other) = (left.described(), right.described());
    let message = match link.operator {
        Operator::Add => format!("cannot add {one} and {other}"),
        Operator::Subtract => format!("cannot subtract {other} from {one}"),
        Operator::Multiply => format!("cannot multiply {one} by {other}"),
        Operator::Divide => format!("cannot divide {one} by {other}"),
        Operator::Remainder => format!("no remainder of {one} by {other}"),
        Operator::In if matches!(right, Value::Map(_)) => format!("a key is a string, not {one}"),
        Operator::In if matches!(right, Value::Text(_)) => {
            "`in` looks into a list or a map; x.contains(y) looks into a string".to_owned()
        }
        Operator::In => format!("`in` looks into a list or a map, not {other}"),
        _ => format!("cannot order {one} and {other}"),
    };
    Fault::failed(link.at, message)
}
