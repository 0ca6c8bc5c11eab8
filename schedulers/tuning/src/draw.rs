//! Draws from a seed: SplitMix64, so that a study repeats exactly whatever version of a library it is built with.

use crate::normal;

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Draw {
    state: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection in which each bit of the input changes half of the output.
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Draw {
    /// The stream of a proposal: each pair of seed and number has its own.
    pub fn new(seed: u64, number: u64) -> Draw {
        Draw { state: mix(mix(seed.wrapping_add(GOLDEN)).wrapping_add(number.wrapping_mul(GOLDEN))) }
    }

    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1), in steps of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform below `count`, which must not be 0.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.word()) * count as u128) >> 64) as usize
    }

    /// Normal with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        normal::quantile(self.unit().max(f64::EPSILON))
    }

    /// An index with the probability of its weight.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut rest = self.unit() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            rest -= weight;
            if rest < 0.0 {
                return index;
            }
        }
        weights.len().saturating_sub(1)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_splitmix64() {
        // The first words of the reference implementation for the state 0.
        let mut draw = Draw { state: 0 };
        assert_eq!([draw.word(), draw.word()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut draw = Draw::new(1, 2);
        let normals: Vec<f64> = (0..20_000).map(|_| draw.normal()).collect();
        let mean = normals.iter().sum::<f64>() / 20_000.0;
        let square = normals.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
        let thirds = (0..30_000).filter(|_| draw.below(3) == 1).count();
        assert!((9_600..10_400).contains(&thirds), "{thirds}");
        let heavy = (0..30_000).filter(|_| draw.weighted(&[1.0, 3.0]) == 1).count();
        assert!((22_000..23_000).contains(&heavy), "{heavy}");
    }
}
