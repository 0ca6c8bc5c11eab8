//! Minimizes a smooth function from its values and gradients (L-BFGS with backtracking).

use std::collections::VecDeque;

use crate::linear::dot;

/// Steps whose curvature is remembered.
const MEMORY: usize = 8;

/// The point with the least value that was found by at most so many evaluations. `of` returns a value and a gradient; a
/// value that is not finite counts as too high.
pub(crate) fn minimize(
    start: Vec<f64>,
    evaluations: usize,
    mut of: impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> Vec<f64> {
    let mut point = start;
    let (mut value, mut gradient) = of(&point);
    let mut steps: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    let mut left = evaluations.saturating_sub(1);
    while left > 0 && value.is_finite() {
        let mut direction = downhill(&gradient, &steps);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            steps.clear();
            direction = gradient.iter().map(|one| -one).collect();
            slope = dot(&direction, &gradient);
        }
        if slope > -1e-10 {
            break;
        }
        let longest = direction.iter().fold(0.0_f64, |most, one| most.max(one.abs()));
        // No coordinate moves by more than 1 at first: far away the function is not what it is here.
        let mut length = 1.0_f64.min(1.0 / longest);
        let found = loop {
            if left == 0 {
                break None;
            }
            left -= 1;
            let next: Vec<f64> =
                point.iter().zip(&direction).map(|(one, step)| one + length * step).collect();
            let (next_value, next_gradient) = of(&next);
            if next_value.is_finite() && next_value <= value + 1e-4 * length * slope {
                break Some((next, next_value, next_gradient));
            }
            length *= 0.4;
            if length < 1e-6 {
                break None;
            }
        };
        let Some((next, next_value, next_gradient)) = found else { break };
        let moved: Vec<f64> = next.iter().zip(&point).map(|(one, two)| one - two).collect();
        let turned: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(one, two)| one - two).collect();
        if dot(&moved, &turned) > 1e-12 {
            steps.push_back((moved, turned));
            if steps.len() > MEMORY {
                steps.pop_front();
            }
        }
        let gain = value - next_value;
        (point, value, gradient) = (next, next_value, next_gradient);
        if gain < 1e-6 * (1.0 + value.abs()) {
            break;
        }
    }
    point
}

/// The direction of a Newton step under the remembered curvature.
fn downhill(gradient: &[f64], steps: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|one| -one).collect();
    let mut parts = Vec::with_capacity(steps.len());
    for (moved, turned) in steps.iter().rev() {
        let part = dot(moved, &direction) / dot(moved, turned);
        direction.iter_mut().zip(turned).for_each(|(one, by)| *one -= part * by);
        parts.push(part);
    }
    if let Some((moved, turned)) = steps.back() {
        let scale = dot(moved, turned) / dot(turned, turned);
        direction.iter_mut().for_each(|one| *one *= scale);
    }
    for ((moved, turned), part) in steps.iter().zip(parts.iter().rev()) {
        let other = dot(turned, &direction) / dot(moved, turned);
        direction.iter_mut().zip(moved).for_each(|(one, by)| *one += (part - other) * by);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valley_of_rosenbrock_is_followed_to_its_end() {
        let found = minimize(vec![-1.2, 1.0], 200, |at| {
            let x = at[0];
            let y = at[1];
            let bend = y - x * x;
            let value = 100.0 * bend * bend + (1.0 - x) * (1.0 - x);
            (value, vec![-400.0 * x * bend - 2.0 * (1.0 - x), 200.0 * bend])
        });
        assert!((found[0] - 1.0).abs() < 1e-2 && (found[1] - 1.0).abs() < 1e-2, "{found:?}");
    }
}
