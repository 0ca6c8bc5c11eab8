//! A Sobol sequence with Owen's scrambling by hashes (Burley, *Practical Hash-based Owen Scrambling*, 2020).
//!
//! The directions are those of Joe and Kuo for the first 21 dimensions; each further block of 21 is the same sequence in
//! another scrambled order, which keeps every parameter, and each pair within a block, evenly spread.

use crate::draw::mix;
use crate::space::Point;
use crate::trial::TrialNumber;

/// Degree and inner coefficients of a primitive polynomial, and the first directions of its dimension.
type Row = (u32, u32, &'static [u32]);

const ROWS: [Row; 20] = [
    (1, 0, &[1]),
    (2, 1, &[1, 3]),
    (3, 1, &[1, 3, 1]),
    (3, 2, &[1, 1, 1]),
    (4, 1, &[1, 1, 3, 3]),
    (4, 4, &[1, 3, 5, 13]),
    (5, 2, &[1, 1, 5, 5, 17]),
    (5, 4, &[1, 1, 5, 5, 5]),
    (5, 7, &[1, 1, 7, 11, 19]),
    (5, 11, &[1, 1, 5, 1, 1]),
    (5, 13, &[1, 1, 1, 3, 11]),
    (5, 14, &[1, 3, 5, 5, 31]),
    (6, 1, &[1, 3, 3, 9, 7, 49]),
    (6, 13, &[1, 1, 1, 15, 21, 21]),
    (6, 16, &[1, 3, 1, 13, 27, 49]),
    (6, 19, &[1, 1, 1, 15, 7, 5]),
    (6, 22, &[1, 3, 1, 15, 13, 25]),
    (6, 25, &[1, 1, 5, 5, 19, 61]),
    (7, 1, &[1, 3, 7, 11, 23, 15, 103]),
    (7, 4, &[1, 3, 7, 13, 13, 15, 69]),
];

/// The dimensions of a block: the first one needs no polynomial.
const BLOCK: usize = ROWS.len() + 1;

/// The directions of a dimension, one a bit of the index.
fn directions(dimension: usize) -> [u32; 32] {
    let mut directions = [0; 32];
    if dimension == 0 {
        for (bit, direction) in directions.iter_mut().enumerate() {
            *direction = 1 << (31 - bit);
        }
        return directions;
    }
    let (degree, inner, first) = ROWS[dimension - 1];
    let degree = degree as usize;
    for bit in 0..32 {
        if bit < degree {
            directions[bit] = first[bit] << (31 - bit);
            continue;
        }
        let mut next = directions[bit - degree] ^ (directions[bit - degree] >> degree);
        for place in 1..degree {
            if (inner >> (degree - 1 - place)) & 1 == 1 {
                next ^= directions[bit - place];
            }
        }
        directions[bit] = next;
    }
    directions
}

fn element(index: u32, dimension: usize) -> u32 {
    let bits = (0..32).filter(|bit| index >> bit & 1 == 1);
    let directions = directions(dimension);
    bits.fold(0, |sum, bit| sum ^ directions[bit as usize])
}

/// A random permutation in which each bit depends on those above it: Owen's scrambling of a binary fraction.
fn scramble(word: u32, seed: u32) -> u32 {
    let mut word = word.reverse_bits();
    word ^= word.wrapping_mul(0x3d20_adea);
    word = word.wrapping_add(seed);
    word = word.wrapping_mul((seed >> 16) | 1);
    word ^= word.wrapping_mul(0x0552_6c56);
    word ^= word.wrapping_mul(0x53a2_2864);
    word.reverse_bits()
}

pub(super) fn point(dimensions: usize, seed: u64, number: TrialNumber) -> Point {
    let coordinate = |dimension: usize| {
        let block = dimension / BLOCK;
        // The order of the elements is scrambled, too: blocks are then independent of each other.
        let order = mix(seed ^ mix(0x0b10_c000 + block as u64)) as u32;
        let index = scramble(number as u32, order);
        let own = mix(seed ^ mix(0xd100_0000 + dimension as u64)) as u32;
        let word = scramble(element(index, dimension % BLOCK), own);
        (f64::from(word) + 0.5) / 4_294_967_296.0
    };
    (0..dimensions).map(coordinate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_joe_and_kuo() {
        // The first eight points of `new-joe-kuo-6.21201` in three dimensions, in the order of binary numbers.
        let fraction = |index, dimension| f64::from(element(index, dimension)) / 4_294_967_296.0;
        let rows: Vec<[f64; 3]> = (0..4).map(|index| [0, 1, 2].map(|one| fraction(index, one))).collect();
        assert_eq!(rows, [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.25, 0.75, 0.75], [0.75, 0.25, 0.25]]);
    }

    #[test]
    fn each_power_of_two_of_points_is_spread_evenly_in_every_dimension() {
        for seed in 0..8 {
            let points: Vec<Point> = (0..64).map(|number| point(45, seed, number)).collect();
            for dimension in 0..45 {
                let mut cells: Vec<u32> =
                    points.iter().map(|point| (point[dimension] * 64.0) as u32).collect();
                cells.sort_unstable();
                assert_eq!(cells, (0..64).collect::<Vec<_>>(), "seed {seed}, dimension {dimension}");
            }
        }
    }

    #[test]
    fn pairs_within_a_block_are_spread_evenly() {
        let points: Vec<Point> = (0..16).map(|number| point(2, 5, number)).collect();
        let mut cells: Vec<u32> =
            points.iter().map(|one| (one[0] * 4.0) as u32 * 4 + (one[1] * 4.0) as u32).collect();
        cells.sort_unstable();
        assert_eq!(cells, (0..16).collect::<Vec<_>>());
    }
}
