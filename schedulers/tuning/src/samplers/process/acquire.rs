//! The search for the point with the greatest expected improvement over the best mean of what was tried.

use crate::draw::Draw;
use crate::normal;
use crate::samplers::is_active;
use crate::space::{Point, Space};

use super::model::Model;

/// Points all over the space, and points near the best ones.
const ANYWHERE: usize = 400;
const NEARBY: usize = 200;
/// Points from which the search goes on, and its steps from each.
const STARTS: usize = 5;
const STEPS: usize = 80;

pub(super) fn best(space: &Space, model: &Model, draw: &mut Draw) -> Point {
    let mut means: Vec<(f64, &Point)> =
        model.points().iter().map(|point| (model.mean(point), point)).collect();
    means.sort_by(|one, two| one.0.total_cmp(&two.0));
    let goal = means[0].0;
    let score = |point: &[f64]| {
        let belief = model.belief(point);
        normal::log_improvement((goal - belief.mean) / belief.deviation) + belief.deviation.ln()
    };
    let mut found: Vec<(f64, Point)> = Vec::with_capacity(ANYWHERE + NEARBY);
    for place in 0..ANYWHERE + NEARBY {
        let candidate = if place < ANYWHERE {
            (0..space.dimensions()).map(|_| draw.unit()).collect()
        } else {
            let centre = means[draw.below(means.len().min(5))].1;
            moved(centre, if place.is_multiple_of(2) { 0.1 } else { 0.03 }, draw)
        };
        let candidate = space.snap(&candidate);
        found.push((score(&candidate), candidate));
    }
    found.sort_by(|one, two| two.0.total_cmp(&one.0));
    found.truncate(STARTS);
    for (value, point) in &mut found {
        let mut width = 0.1;
        for _ in 0..STEPS {
            let candidate = space.snap(&moved(point, width, draw));
            let next = score(&candidate);
            if next > *value {
                (*value, *point) = (next, candidate);
                width *= 1.5;
            } else {
                width = (width * 0.9_f64).max(1e-3);
            }
        }
    }
    found.sort_by(|one, two| two.0.total_cmp(&one.0));
    found.swap_remove(0).1
}

/// A point near another: one or some of its coordinates are moved.
fn moved(point: &[f64], width: f64, draw: &mut Draw) -> Point {
    let chance = 2.0 / point.len() as f64;
    let always = draw.below(point.len());
    let coordinate = |(at, one): (usize, &f64)| {
        if at != always && draw.unit() >= chance {
            return *one;
        }
        let from = if is_active(*one) { *one } else { draw.unit() };
        (from + width * draw.normal()).clamp(0.0, 1.0)
    };
    point.iter().enumerate().map(coordinate).collect()
}
