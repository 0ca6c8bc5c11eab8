//! Pixels to the network's input: the shorter edge brought to 256, the middle 224 x 224 of that, each channel
//! normalised as ImageNet's are.
//!
//! Resizing is linear with a support that grows when shrinking, as Pillow does it and as such networks are trained;
//! only the pixels that the crop needs are computed, in one pass that keeps a row at a time. Nothing is rounded on
//! the way.

use crate::decode::Pixels;
use crate::model::alexnet::EDGE;

/// Length of the shorter edge before the crop.
const RESIZED: usize = 256;
/// Of ImageNet's images, as a share of 255.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// The numbers of one image.
pub const IMAGE_LEN: usize = 3 * EDGE * EDGE;

/// Writes the image's [`IMAGE_LEN`] numbers, a channel after the other.
pub fn fill(pixels: &Pixels, out: &mut [f32]) {
    assert_eq!(out.len(), IMAGE_LEN, "the caller's buffer is as large as an image");
    let shorter = pixels.width.min(pixels.height);
    let columns = Axis::new(pixels.width, shorter);
    let rows = Axis::new(pixels.height, shorter);
    let stride = pixels.width * 3;
    let (from, to) = (columns.first() * 3, columns.end() * 3);
    let mut row = vec![0.0f32; to - from];
    for y in 0..EDGE {
        row.fill(0.0);
        let (first, weights) = rows.weights(y);
        for (at, weight) in weights.iter().enumerate() {
            let source = &pixels.rgb[(first + at) * stride..][from..to];
            for (sum, sample) in row.iter_mut().zip(source) {
                *sum += weight * f32::from(*sample);
            }
        }
        for x in 0..EDGE {
            let (first, weights) = columns.weights(x);
            let mut sums = [0.0f32; 3];
            let source = &row[first * 3 - from..][..weights.len() * 3];
            for (weight, sample) in weights.iter().zip(source.chunks_exact(3)) {
                for channel in 0..3 {
                    sums[channel] += weight * sample[channel];
                }
            }
            for channel in 0..3 {
                let share = sums[channel] / 255.0;
                out[(channel * EDGE + y) * EDGE + x] = (share - MEAN[channel]) / DEVIATION[channel];
            }
        }
    }
}

/// The samples of each position of the crop along one edge, with their weights.
struct Axis {
    /// Per position: its first sample, and where its weights begin and end.
    spans: Vec<(usize, usize, usize)>,
    weights: Vec<f32>,
}

impl Axis {
    fn new(len: usize, shorter: usize) -> Self {
        let resized = RESIZED * len / shorter;
        // Half to even, as Python rounds.
        let cut = ((resized - EDGE) as f64 / 2.0).round_ties_even() as usize;
        let scale = len as f64 / resized as f64;
        let support = scale.max(1.0);
        let (mut spans, mut weights) = (Vec::with_capacity(EDGE), Vec::new());
        for position in cut..cut + EDGE {
            let centre = (position as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(len);
            let begin = weights.len();
            let distance = |at: usize| ((at as f64 + 0.5 - centre) / support).abs();
            weights.extend((first..end).map(|at| (1.0 - distance(at)).max(0.0) as f32));
            let sum: f32 = weights[begin..].iter().sum();
            weights[begin..].iter_mut().for_each(|weight| *weight /= sum);
            spans.push((first, begin, weights.len()));
        }
        Axis { spans, weights }
    }

    fn weights(&self, position: usize) -> (usize, &[f32]) {
        let (first, begin, end) = self.spans[position];
        (first, &self.weights[begin..end])
    }

    /// The first sample that any position needs.
    fn first(&self) -> usize {
        self.spans[0].0
    }

    /// Behind the last one.
    fn end(&self) -> usize {
        let (first, begin, end) = self.spans[EDGE - 1];
        first + end - begin
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn image(width: usize, height: usize, colour: impl Fn(usize, usize) -> [u8; 3]) -> Vec<f32> {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let rgb = places.flat_map(|(x, y)| colour(x, y)).collect();
        let mut out = vec![f32::NAN; IMAGE_LEN];
        fill(&Pixels { width, height, rgb }, &mut out);
        out
    }

    /// A position's number before it was normalised.
    fn sample(out: &[f32], channel: usize, x: usize, y: usize) -> f32 {
        (out[(channel * EDGE + y) * EDGE + x] * DEVIATION[channel] + MEAN[channel]) * 255.0
    }

    #[test]
    fn one_colour_stays_that_colour_at_any_size() {
        for (width, height) in [(1, 1), (500, 375), (375, 500), (256, 256), (3, 1000), (40, 31), (2000, 257)]
        {
            let out = image(width, height, |_, _| [200, 100, 7]);
            for (channel, expected) in [200.0, 100.0, 7.0].into_iter().enumerate() {
                for (x, y) in [(0, 0), (223, 0), (0, 223), (223, 223), (100, 50)] {
                    let got = sample(&out, channel, x, y);
                    assert!((got - expected).abs() < 1e-3, "{width} x {height}: {got} at {x}, {y}");
                }
            }
        }
    }

    #[test]
    fn an_image_of_the_right_size_is_only_cropped() {
        let out = image(256, 256, |x, y| [x as u8, y as u8, (x ^ y) as u8]);
        for (x, y) in [(0, 0), (223, 223), (17, 101)] {
            assert!((sample(&out, 0, x, y) - (x + 16) as f32).abs() < 1e-3);
            assert!((sample(&out, 1, x, y) - (y + 16) as f32).abs() < 1e-3);
            assert!((sample(&out, 2, x, y) - ((x + 16) ^ (y + 16)) as f32).abs() < 1e-3);
        }
    }

    #[test]
    fn the_middle_of_a_gradient_is_in_the_middle() {
        // 512 wide, shrunk by half: each position is the mean of its neighbourhood on a straight line.
        let out = image(768, 512, |x, _| [(x / 3) as u8, 0, 0]);
        let at = |x: usize| sample(&out, 0, x, 112);
        // 384 wide then, of which 80 are cut off; position x is at (x + 80 + 0.5) * 2 of the source.
        for x in [1, 111, 222] {
            let expected = ((x as f32 + 80.5) * 2.0 - 0.5) / 3.0 - 1.0 / 3.0;
            assert!((at(x) - expected).abs() < 0.2, "{} instead of {expected}", at(x));
        }
    }
}
