//! Numbers that look random and are the same everywhere for the same seed (SplitMix64).
//!
//! Models and pictures are made from them, and tests compare what was made with what it was before. That is why
//! no library's generator is used, which may change with its version. They are no secret and no good for one.

/// An endless sequence of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A sequence of its own for one part of a whole, so that a part stays what it is when another one changes.
    pub fn of_part(seed: u64, part: u64) -> Self {
        let mut random = Random(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Random(random.next())
    }

    #[expect(clippy::should_implement_trait, reason = "an iterator would have to say that it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From -1 up to, not including, 1.
    pub fn signed(&mut self) -> f32 {
        signed((self.next() >> 40) as u32)
    }

    /// From 0 up to, not including, 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    /// From `low` up to, not including, `high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Fills the slice with numbers from -`scale` up to, not including, `scale`; two of each number drawn.
    pub fn fill(&mut self, out: &mut [f32], scale: f32) {
        for pair in out.chunks_mut(2) {
            let drawn = self.next();
            pair[0] = signed((drawn >> 40) as u32) * scale;
            if let Some(second) = pair.get_mut(1) {
                *second = signed((drawn >> 8) as u32 & 0xff_ffff) * scale;
            }
        }
    }
}

/// 24 bits are all that a number of this size can tell apart.
fn signed(bits: u32) -> f32 {
    bits as f32 / (1 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_use_them() {
        let mut random = Random::new(1);
        let mut many = vec![0.0; 10_001];
        random.fill(&mut many, 2.0);
        let (low, high) = many.iter().fold((0f32, 0f32), |(low, high), x| (low.min(*x), high.max(*x)));
        assert!((-2.0..-1.99).contains(&low) && (1.99..2.0).contains(&high), "{low} {high}");
        let mean = many.iter().sum::<f32>() / many.len() as f32;
        assert!(mean.abs() < 0.05, "{mean}");
    }

    #[test]
    fn parts_differ() {
        assert_ne!(Random::of_part(7, 0).next(), Random::of_part(7, 1).next());
    }
}
