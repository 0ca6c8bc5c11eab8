//! Special forms: functions of an input itself, not of its latest value. Their first argument is an input, with a
//! path of fields if they look at a part of it.

use std::{collections::BTreeSet, time::Duration};

use super::{ParseResult, Parser};
use crate::{
    error::{Fault, named, quoted},
    functions::SPECIAL,
    json::rendered,
    reads::{Past, PastPart},
    syntax::{Across, Node, NodeKind, Over, Question, Statistic, Step, Subject, Window, highest_step},
    tokens::Token,
};

pub fn is_special(name: &str) -> bool {
    SPECIAL.contains(&name) || statistic(name).is_some()
}

pub fn question(name: &str) -> Option<Question> {
    Some(match name {
        "age" => Question::Age,
        "state" => Question::State,
        "known" => Question::Known,
        _ => return None,
    })
}

pub fn over(name: &str) -> Option<Over> {
    Some(match name {
        "total" => Over::Total,
        "average" => Over::Average,
        "least" => Over::Least,
        "greatest" => Over::Greatest,
        "nodes" => Over::Nodes,
        "across" => Over::Each,
        _ => return None,
    })
}

pub fn statistic(name: &str) -> Option<Statistic> {
    Some(match name {
        "mean" => Statistic::Mean,
        "min" => Statistic::Min,
        "max" => Statistic::Max,
        "sum" => Statistic::Sum,
        "count" => Statistic::Count,
        "stddev" => Statistic::Stddev,
        "median" => Statistic::Median,
        "first" => Statistic::First,
        "last" => Statistic::Last,
        "rate" => Statistic::Rate,
        _ => return None,
    })
}

/// How far back an aggregate looks, with its text; none if the name is meant as the plain function.
pub fn window_text(name: &str, args: &[Node]) -> ParseResult<Option<(Duration, Box<str>)>> {
    let plain = crate::functions::find(name).is_some();
    match args {
        [_, Node { kind: NodeKind::Text(text), at, .. }] => match duration(text) {
            Some(window) => Ok(Some((window, text.clone()))),
            None => Err(Fault::syntax(
                *at,
                format!(
                    "{} is no window: it is a whole number and ms, s, m, h or d, like \"5m\"",
                    quoted(text)
                ),
            )),
        },
        // `min(a, b)` of two numbers, `mean(list)`.
        [_, _] if plain && matches!(name, "min" | "max") => Ok(None),
        [_, second] => Err(Fault::syntax(
            second.at,
            "the window is written out, like \"5m\": it must be known beforehand",
        )),
        [first] if !plain => {
            Err(Fault::syntax(first.at, format!("`{name}` looks at the past: {name}(input.path, \"5m\")")))
        }
        _ if plain && (args.len() == 1 || matches!(name, "min" | "max")) => Ok(None),
        _ => Err(Fault::syntax(
            args.first().map_or(0, |first| first.at),
            format!("it is written {name}(input.path, \"5m\")"),
        )),
    }
}

/// `500ms`, `30s`, `5m`, `2h`, `1d`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    // So many that nothing overflows below.
    let count: u64 = text.get(..digits).filter(|digits| digits.len() <= 9)?.parse().ok()?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return None,
    };
    (count > 0).then(|| Duration::from_millis(count * unit))
}

impl Parser {
    /// `input("a-b")`, behind the opening bracket.
    pub(super) fn quoted_input(&mut self, at: u32) -> ParseResult {
        match self.peek().clone() {
            Token::Text(name) if !name.is_empty() => {
                self.next += 1;
                self.expect(")")?;
                self.reads.input(&name, at);
                self.node(at, 0, NodeKind::Input(name))
            }
            _ => Err(Fault::syntax(self.at(), "the name of the input is written out: input(\"a-b\")")),
        }
    }

    pub(super) fn question(&mut self, at: u32, what: Question) -> ParseResult {
        let name = match what {
            Question::Age => "age",
            Question::State => "state",
            Question::Known => "known",
        };
        let (subject, below) = self.one_subject(at, name)?;
        self.reads.states.insert(subject.input.to_string());
        self.node(at, below, NodeKind::Ask(what, Box::new(subject)))
    }

    pub(super) fn over(&mut self, at: u32, what: Over) -> ParseResult {
        let name = match what {
            Over::Total => "total",
            Over::Average => "average",
            Over::Least => "least",
            Over::Greatest => "greatest",
            Over::Nodes => "nodes",
            Over::Each => "across",
        };
        let (subject, below) = self.one_subject(at, name)?;
        self.reads.across.insert(subject.input.to_string());
        let same_everywhere = subject.steps.iter().all(|step| match step {
            Step::Field(..) => true,
            Step::Index(node) => {
                matches!(node.kind, NodeKind::Text(_) | NodeKind::Number(_) | NodeKind::Param(_))
            }
        });
        // A map is borrowed from the scope; only numbers outlive it.
        let kept = (same_everywhere && what != Over::Each).then(|| {
            self.kept += 1;
            self.kept - 1
        });
        self.node(at, below, NodeKind::Across(Box::new(Across { what, subject, kept })))
    }

    pub(super) fn window(
        &mut self,
        at: u32,
        what: Statistic,
        args: Vec<Node>,
        (window, text): (Duration, Box<str>),
    ) -> ParseResult {
        let (subject, below) = self.subject(at, args)?;
        let part = part(&subject.steps);
        let past = self.reads.past.entry(subject.input.to_string()).or_default();
        past.join(&Past { window, parts: BTreeSet::from([part.clone()]) });
        self.node(at, below, NodeKind::Window(Box::new(Window { what, subject, part, window, text })))
    }

    fn one_subject(&mut self, at: u32, name: &str) -> ParseResult<(Subject, u8)> {
        let args = self.separated(")", Self::expression)?;
        if args.len() != 1 {
            return Err(Fault::syntax(at, format!("`{name}` takes one argument, not {}", args.len())));
        }
        self.subject(at, args)
    }

    /// The input and the path that an argument is; and how high its indices are.
    fn subject(&mut self, at: u32, args: Vec<Node>) -> ParseResult<(Subject, u8)> {
        let place = args.first().map_or(at, |node| node.at);
        let (base, steps) = match args.into_iter().next().map(|node| node.kind) {
            Some(NodeKind::Path(base, steps)) => (base.kind, steps),
            Some(kind) => (kind, Box::default()),
            None => (NodeKind::Null, Box::default()),
        };
        let NodeKind::Input(input) = base else {
            return Err(Fault::syntax(
                place,
                "expected an input, or an input and a path like cpu.usageFraction",
            ));
        };
        let text = written(&input, &steps);
        let below = highest_step(&steps);
        Ok((Subject { input, steps, text }, below))
    }
}

/// The part of an input that steps lead to, as far as they are the same in each evaluation.
fn part(steps: &[Step]) -> PastPart {
    let name = |step: &Step| match step {
        Step::Field(_, name) => Some(name.to_string()),
        Step::Index(node) => match &node.kind {
            NodeKind::Text(name) => Some(name.to_string()),
            _ => None,
        },
    };
    let fields: Vec<String> = steps.iter().map_while(name).collect();
    let is_number = fields.len() == steps.len();
    PastPart { fields, is_number }
}

fn written(input: &str, steps: &[Step]) -> Box<str> {
    let mut text = input.to_owned();
    for step in steps {
        match step {
            Step::Field(_, name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Index(Node { kind: NodeKind::Text(name), .. }) => {
                text.push_str(&format!("[{}]", quoted(name)));
            }
            Step::Index(Node { kind: NodeKind::Number(number), .. }) => {
                text.push_str(&format!("[{}]", rendered(*number)));
            }
            Step::Index(_) => text.push_str("[…]"),
        }
    }
    named(&text).into()
}
