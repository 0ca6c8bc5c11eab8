//! The points that were left out.

/// How many reasons are described.
const REASONS_KEPT: usize = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejected {
    pub points: u64,
    /// Each once.
    reasons: Vec<String>,
    has_more: bool,
}

impl Rejected {
    pub fn push(&mut self, points: u64, reason: impl FnOnce() -> String) {
        self.points += points;
        if self.reasons.len() == REASONS_KEPT {
            self.has_more = true;
            return;
        }
        let reason = reason();
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// A sentence for people; none if no point was left out.
    pub fn sentence(&self) -> Option<String> {
        let points = if self.points == 1 { "1 point was" } else { &format!("{} points were", self.points) };
        let more = if self.has_more { "; and more" } else { "" };
        (self.points > 0).then(|| format!("{points} left out: {}{more}", self.reasons.join("; ")))
    }
}
