//! Draws that are the same on every machine and in every version.

use estimand_placement::policy::mix;

pub(crate) struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(mix(seed))
    }

    /// A number above 0 and at most 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((mix(self.0) >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.fraction().ln()
    }

    /// One of these, each as likely; nothing is drawn if there are none.
    pub fn one_of(&mut self, all: &[u64]) -> Option<u64> {
        let last = all.len().checked_sub(1)?;
        let place = (self.fraction() * all.len() as f64).ceil() as usize;
        all.get(place.saturating_sub(1).min(last)).copied()
    }
}
