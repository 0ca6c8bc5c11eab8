//! The verdict on a run: its answer, checked against the registration, or the reason why there is none.

use estimand_api::registration::Registration;
use estimand_api::slot::MAX_QUARANTINED_CHARS;
use estimand_dialects::{Answer, Reading};

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<A = Answer> {
    /// Its answer, and what there is to say of it all the same.
    Good(A, Option<String>),
    /// It ended well and gave no value; what there is to say of that.
    Silent(String),
    /// There is nothing here that it could measure.
    NotHere(String),
    /// Its program is not on this node.
    Missing(String),
    /// It was run and gave nothing that can be used.
    Failed(String),
    /// It gave a value that is not what the registration declares.
    Quarantined {
        reason: String,
        value: String,
    },
    TimedOut(String),
    /// This agent does not run it.
    Refused(String),
    /// It was ended because its slot ends.
    Stopped,
}

impl<A> Verdict<A> {
    pub fn is_good(&self) -> bool {
        matches!(self, Verdict::Good(..) | Verdict::Silent(_) | Verdict::NotHere(_))
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Verdict::Missing(reason)
            | Verdict::Failed(reason)
            | Verdict::TimedOut(reason)
            | Verdict::Refused(reason)
            | Verdict::Quarantined { reason, .. } => Some(reason),
            Verdict::Good(..) | Verdict::Silent(_) | Verdict::NotHere(_) | Verdict::Stopped => None,
        }
    }

    /// A remark on a run that is no failure.
    pub fn note(&self) -> Option<&str> {
        match self {
            Verdict::Good(_, note) => note.as_deref(),
            Verdict::NotHere(what) => Some(what),
            _ => None,
        }
    }

    /// The same with advice for whoever operates the node.
    #[must_use]
    pub fn advised(self, advice: Option<String>) -> Self {
        let Some(advice) = advice else { return self };
        match self {
            Verdict::Good(answer, None) => Verdict::Good(answer, Some(advice)),
            Verdict::Good(answer, Some(note)) => Verdict::Good(answer, Some(format!("{note}; {advice}"))),
            Verdict::Silent(what) => Verdict::Silent(format!("{what} ({advice})")),
            Verdict::Failed(reason) => Verdict::Failed(format!("{reason} ({advice})")),
            other => other,
        }
    }
}

/// Judges what a dialect, a collector or an expression gave.
pub fn judge(registration: &Registration, read: Result<Reading, String>) -> Verdict {
    let Reading { answer, rejected } = match read {
        Ok(reading) => reading,
        Err(reason) => return Verdict::Failed(reason),
    };
    let note = rejected.sentence();
    if let Some(note) = note.as_ref().filter(|_| registration.strict) {
        return Verdict::Failed(format!("{note} (the registration is `strict`)"));
    }
    match unexpected(registration, &answer) {
        Some((reason, value)) => Verdict::Quarantined { reason, value },
        None => Verdict::Good(answer, note),
    }
}

/// The first value that is not what the registration declares, and why.
fn unexpected(registration: &Registration, answer: &Answer) -> Option<(String, String)> {
    if registration.expect.is_empty() {
        return None;
    }
    let check = |text: &str, of: &str| {
        let reason = registration.expect.check(text).err()?;
        let shown: String = text.chars().take(MAX_QUARANTINED_CHARS).collect();
        Some((format!("{of}{reason}"), shown))
    };
    match answer {
        Answer::Nothing => None,
        Answer::One(text) => check(text, ""),
        Answer::PerNode(answers) => {
            answers.iter().find_map(|(node, text)| check(text, &format!("of {node}: ")))
        }
    }
}
