//! Algorithm 1 of the paper: a study that no longer improves declines offers, so that others get them.
//!
//! [`literal`] is the algorithm as it is printed, and [`corrected`] does what its text wants; [`Answers`] is the rule by
//! which a level turns into offers that are declined. The level of the literal one is shared by all studies: whoever has
//! a plateau lowers everybody that comes after. The corrected level is a study's own, and is a function of its results alone.

use crate::trial::Direction;

/// The least and relative difference from the mean of earlier ones that counts as equal to it.
const NEAR: f64 = 0.1;

/// The constants of both forms.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// k: no study is judged that has not more than k·m.
    pub multiple: usize,
    /// m: the best results that are compared.
    pub compared: usize,
    /// G, one a level; the last one stays.
    pub thresholds: Vec<f64>,
    /// Results among which a new best must be, or the corrected form lowers the study by a level.
    pub window: usize,
    /// d0: offers that are declined for each level.
    pub declined: u64,
    /// The lowest level of the corrected form.
    pub most: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            multiple: 2,
            compared: 3,
            thresholds: vec![0.01, 0.005, 0.001],
            window: 10,
            declined: 1,
            most: 3,
        }
    }
}

impl Rules {
    fn threshold(&self, level: u64) -> f64 {
        let last = self.thresholds.len().saturating_sub(1);
        let place = usize::try_from(level).unwrap_or(usize::MAX).min(last);
        self.thresholds.get(place).copied().unwrap_or(0.0)
    }
}

/// State of the literal form between its calls. A greater number is served later: 0 comes first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Literal {
    /// P, of all studies together.
    pub priority: u64,
    /// j, the threshold in force.
    pub threshold: u64,
    /// Earlier differences g: their sum and number.
    sum: f64,
    count: u64,
}

/// Algorithm 1 as printed: `running` is n, the tasks of the study that run; `results` is F. Returns p of the study.
///
/// Literally, n counts what runs, so that a study of which few trials run at a time is never judged; and the least
/// difference of two neighbours is nearly always small, so that a study that is judged is lowered.
pub fn literal(
    rules: &Rules,
    state: &mut Literal,
    direction: Direction,
    running: usize,
    results: &[f64],
) -> u64 {
    let m = rules.compared;
    if running <= rules.multiple * m || results.len() < 2 {
        return state.priority;
    }
    let best = best(direction, results, m);
    let least = best.windows(2).map(|two| (two[0] - two[1]).abs()).fold(f64::INFINITY, f64::min);
    let mean = (state.count > 0).then(|| state.sum / state.count as f64);
    let is_as_before = mean.is_some_and(|mean| (least - mean).abs() <= NEAR * mean.abs());
    state.sum += least;
    state.count += 1;
    if least < rules.threshold(state.threshold) || is_as_before {
        state.priority += 1;
        state.threshold += 1;
    }
    state.priority
}

/// The level of a study by its results in the order in which they were stored: one for each window without a new best,
/// and one more while the best few hardly differ. A new best brings it back to the front.
pub fn corrected(rules: &Rules, direction: Direction, results: &[f64]) -> u64 {
    let m = rules.compared;
    if results.len() <= rules.multiple * m {
        return 0;
    }
    let best = best(direction, results, m);
    let worst = results.iter().map(|value| direction.loss(*value)).fold(f64::NEG_INFINITY, f64::max);
    let first = best.first().copied().unwrap_or(0.0);
    let last = best.last().copied().unwrap_or(0.0);
    let latest = results.iter().position(|value| direction.loss(*value) <= first).unwrap_or(0);
    let stale = (results.len() - 1 - latest) / rules.window.max(1);
    let level = (stale as u64).min(rules.most);
    let is_flat = stale > 0 && last - first < rules.threshold(level) * (worst - first);
    (level + u64::from(is_flat)).min(rules.most)
}

/// The losses of the best `count` results, the best first.
fn best(direction: Direction, results: &[f64], count: usize) -> Vec<f64> {
    let mut losses: Vec<f64> = results.iter().map(|value| direction.loss(*value)).collect();
    losses.sort_by(f64::total_cmp);
    losses.truncate(count);
    losses
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Accept,
    Decline,
}

/// Offers that a study has declined since it last accepted one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    declined: u64,
    /// The amount of the first one.
    offered: u64,
    /// Levels by which the study was raised again, because nobody took what it declined.
    raised: u64,
}

impl Answers {
    /// The answer to an offer of some amount at a level: d = level·d0 are declined, then one is accepted. If what is offered
    /// has not shrunk meanwhile, nobody else wants it, and the study is raised by one.
    pub fn answer(&mut self, rules: &Rules, level: u64, offered: u64) -> Answer {
        let level = level.saturating_sub(self.raised);
        if self.declined < level * rules.declined {
            if self.declined == 0 {
                self.offered = offered;
            }
            self.declined += 1;
            return Answer::Decline;
        }
        if self.declined > 0 && offered >= self.offered {
            self.raised += 1;
        }
        self.declined = 0;
        Answer::Accept
    }

    /// The answer of [`Answers::answer`] while another framework waits; else the offer is accepted, because nobody would gain.
    pub fn answer_if_others_wait(
        &mut self,
        rules: &Rules,
        level: u64,
        offered: u64,
        others_wait: bool,
    ) -> Answer {
        if others_wait {
            return self.answer(rules, level, offered);
        }
        *self = Answers::default();
        Answer::Accept
    }

    /// Forgets that the study was raised: its level has changed.
    pub fn level_changed(&mut self) {
        *self = Answers::default();
    }
}
