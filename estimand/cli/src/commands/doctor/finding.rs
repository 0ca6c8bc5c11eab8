//! A finding of `doctor`: one thing that was looked at, how it is, and the remedy where there is one.

use serde::Serialize;

use crate::output::Output;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Tone};
use crate::output::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    Ok,
    /// It could not be looked at; the finding says why.
    NotChecked,
    /// It works, and somebody should look at it.
    Warning,
    /// Something does not work.
    Failure,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub check: &'static str,
    pub level: Level,
    /// The finding itself.
    pub found: String,
    /// A command, or words where no command helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Finding { check, level: Level::Ok, found: found.into(), remedy: None }
    }

    pub fn not_checked(check: &'static str, found: impl Into<String>) -> Self {
        Finding { level: Level::NotChecked, ..Finding::ok(check, found) }
    }

    pub fn warning(check: &'static str, found: impl Into<String>) -> Self {
        Finding { level: Level::Warning, ..Finding::ok(check, found) }
    }

    pub fn failure(check: &'static str, found: impl Into<String>) -> Self {
        Finding { level: Level::Failure, ..Finding::ok(check, found) }
    }

    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Finding { remedy: Some(remedy.into()), ..self }
    }
}

/// The findings if there are any, else that all is well.
pub fn or_ok(findings: Vec<Finding>, check: &'static str, found: impl Into<String>) -> Vec<Finding> {
    match findings.is_empty() {
        true => vec![Finding::ok(check, found)],
        false => findings,
    }
}

pub fn count(findings: &[Finding], level: Level) -> usize {
    findings.iter().filter(|finding| finding.level == level).count()
}

/// One line a finding, its remedy below it, and the sum at the end.
pub fn print(out: &mut Output, findings: &[Finding]) -> Result<(), Failure> {
    const WORD: usize = 11;
    const CHECK: usize = 15;
    for Finding { check, level, found, remedy } in findings {
        let (word, tone) = match level {
            Level::Ok => ("ok", Tone::Plain),
            Level::NotChecked => ("not checked", Tone::Plain),
            Level::Warning => ("warning", Tone::Warning),
            Level::Failure => ("failure", Tone::Bad),
        };
        let word = Cell::toned(&format!("{word:WORD$}"), tone).shown(out.style.colours);
        let mut lines = found.split('\n');
        let first = Cell::from(lines.next().unwrap_or_default()).shown(false);
        out.verbatim(&format!("{word}  {check:CHECK$}  {first}"))?;
        let indent = " ".repeat(WORD + CHECK + 4);
        lines.try_for_each(|line| out.line(&format!("{indent}{line}")))?;
        if let Some(remedy) = remedy {
            out.line(&format!("{indent}remedy: {remedy}"))?;
        }
    }
    let sum = [
        Some(words::count(findings.len(), "check")),
        Some(words::count(count(findings, Level::Failure), "failure")),
        Some(words::count(count(findings, Level::Warning), "warning")),
    ];
    let sum: Vec<String> = sum.into_iter().flatten().collect();
    Ok(out.line(&sum.join(", "))?)
}
