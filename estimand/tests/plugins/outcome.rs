//! The expected outcomes of a plugin, and the comparison with its real one.

use std::fmt;

use serde_json::Value;

use crate::beside::RunBeside;
use crate::kernel::Figure;

/// A plugin and what may come of it on whatever machine.
pub struct Plugin {
    pub package: Package,
    /// Its file, and its arguments as a registration takes them. `{words}` in braces are the test's to replace.
    pub command: &'static str,
    /// The name under which it is called, for those that look at how they are called.
    pub called: Option<&'static str>,
    pub env: &'static [(&'static str, &'static str)],
    /// Any of them.
    pub outcomes: &'static [Outcome],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    Nagios,
    Munin,
    Prometheus,
}

pub enum Outcome {
    /// A value of which all of this is true, and of which nothing was left out unless that is said.
    Value(&'static [Check]),
    /// A failure whose reason has all of these words.
    Failure(&'static [&'static str]),
    /// It ran, and has nothing to say.
    Nothing,
    /// The outcome that the plugin itself has on this machine, run beside the agent.
    AsBeside,
}

/// Where in a value, as a JSON pointer, and what is there.
pub enum Check {
    /// Exactly this, in JSON.
    Is(&'static str, &'static str),
    /// A text with this in it.
    Says(&'static str, &'static str),
    /// A number from one to the other.
    Within(&'static str, f64, f64),
    /// A number between what the kernel said before and what it says now, give or take so much.
    Agrees(&'static str, Figure, f64),
    /// Something was left out, and this is said of it.
    LeftOut(&'static str),
}

/// An amount that nothing on this machine has.
pub const PLENTY: f64 = 1e18;

impl Package {
    pub fn folder(self) -> &'static str {
        match self {
            Package::Nagios => "/usr/lib/nagios/plugins",
            Package::Munin => "/usr/share/munin/plugins",
            Package::Prometheus => "/usr/share/prometheus-node-exporter-collectors",
        }
    }

    pub fn format(self) -> &'static str {
        match self {
            Package::Nagios => "nagios",
            Package::Munin => "munin",
            Package::Prometheus => "prometheus",
        }
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.package.folder(), self.command)?;
        self.called.map_or(Ok(()), |name| write!(f, ", called as {name}"))
    }
}

impl Plugin {
    /// The kernel's figures now, with which the value is compared.
    pub fn expected_figures(&self) -> Vec<f64> {
        let checks = self.outcomes.iter().flat_map(|outcome| match outcome {
            Outcome::Value(checks) => *checks,
            _ => &[],
        });
        checks
            .filter_map(|check| if let Check::Agrees(_, figure, _) = check { Some(figure()) } else { None })
            .collect()
    }

    pub fn depends_on_the_machine(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::AsBeside))
    }

    /// Ok if one of the outcomes came; else the reasons why none did.
    pub fn judge(
        &self,
        instance: &Value,
        value: Option<&Value>,
        before: &[f64],
        beside: Option<&RunBeside>,
    ) -> Result<(), String> {
        let mut before = before.iter().copied();
        let mut reasons = Vec::new();
        for outcome in self.outcomes {
            let judged = match (outcome, beside) {
                (Outcome::AsBeside, Some(beside)) => {
                    beside.judge(self.package, value, instance["lastError"].as_str())
                }
                _ => outcome.judge(instance, value, &mut before),
            };
            match judged {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("; "))
    }
}

impl Outcome {
    fn judge(
        &self,
        instance: &Value,
        value: Option<&Value>,
        before: &mut impl Iterator<Item = f64>,
    ) -> Result<(), String> {
        let error = instance["lastError"].as_str();
        match (self, value, error) {
            (Outcome::Value(checks), Some(value), None) => {
                let note = instance["note"].as_str().unwrap_or_default();
                let is_whole = !checks.iter().any(|check| matches!(check, Check::LeftOut(_)));
                if is_whole && !note.is_empty() {
                    return Err(format!("something was left out: {note}"));
                }
                checks.iter().try_for_each(|check| check.judge(value, note, before))
            }
            (Outcome::Failure(words), None, Some(error)) => {
                match words.iter().find(|words| !error.contains(*words)) {
                    None => Ok(()),
                    Some(words) => Err(format!("no {words:?} in {error:?}")),
                }
            }
            (Outcome::Nothing, None, None) => Ok(()),
            (expected, ..) => {
                // Figures that are not compared have to be passed over, or the next outcome would get its figures.
                if let Outcome::Value(checks) = expected {
                    let figures = checks.iter().filter(|check| matches!(check, Check::Agrees(..))).count();
                    before.by_ref().take(figures).for_each(drop);
                }
                let expected = match expected {
                    Outcome::Value(_) => "a value",
                    Outcome::Failure(_) => "a failure",
                    Outcome::Nothing => "nothing to say",
                    Outcome::AsBeside => "as the run beside it, for there was none",
                };
                Err(format!("it is not {expected}"))
            }
        }
    }
}

impl Check {
    fn judge(&self, value: &Value, note: &str, before: &mut impl Iterator<Item = f64>) -> Result<(), String> {
        let at = |pointer: &str| value.pointer(pointer).ok_or_else(|| format!("there is no {pointer}"));
        let number = |pointer: &str| {
            let found = at(pointer)?;
            found.as_f64().ok_or_else(|| format!("{pointer} is {found}, no number"))
        };
        let holds = |is_so: bool, pointer: &str, expected: String| match is_so {
            true => Ok(()),
            false => Err(format!("{pointer} is {}, not {expected}", at(pointer)?)),
        };
        match self {
            Check::Is(pointer, json) => {
                let expected: Value = serde_json::from_str(json).unwrap();
                holds(*at(pointer)? == expected, pointer, expected.to_string())
            }
            Check::Says(pointer, part) => {
                let says = at(pointer)?.as_str().is_some_and(|text| text.contains(part));
                holds(says, pointer, format!("a text with {part:?}"))
            }
            Check::Within(pointer, least, most) => holds(
                (*least..=*most).contains(&number(pointer)?),
                pointer,
                format!("from {least} to {most}"),
            ),
            Check::Agrees(pointer, figure, slack) => {
                let (before, now) = (before.next().unwrap(), figure());
                let (least, most) = (before.min(now) - slack, before.max(now) + slack);
                holds((least..=most).contains(&number(pointer)?), pointer, format!("from {least} to {most}"))
            }
            Check::LeftOut(part) => match note.contains(part) {
                true => Ok(()),
                false => Err(format!("nothing like {part:?} was left out, but {note:?}")),
            },
        }
    }
}
