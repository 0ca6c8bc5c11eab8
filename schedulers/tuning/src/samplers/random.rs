//! Uniform draws, in the scale of each parameter.

use crate::draw::Draw;
use crate::space::{Point, Space};
use crate::trial::TrialNumber;

pub(super) fn point(space: &Space, seed: u64, number: TrialNumber) -> Point {
    let mut draw = Draw::new(seed, number);
    (0..space.dimensions()).map(|_| draw.unit()).collect()
}
