//! Statistics of numbers; none where there are too few. They may overflow: callers check.

pub fn sum(numbers: &mut [f64]) -> Option<f64> {
    Some(numbers.iter().sum())
}

pub fn mean(numbers: &mut [f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// Of the numbers themselves, not of what they may be a sample of; so 0 of a single one.
pub fn stddev(numbers: &mut [f64]) -> Option<f64> {
    let mean = mean(numbers)?;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    Some((squares / numbers.len() as f64).sqrt())
}

/// The middle one, or the mean of the two in the middle.
pub fn median(numbers: &mut [f64]) -> Option<f64> {
    let middle = numbers.len() / 2;
    if numbers.is_empty() {
        return None;
    }
    let even = numbers.len().is_multiple_of(2);
    let (below, upper, _) = numbers.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    match below.iter().copied().max_by(f64::total_cmp) {
        Some(lower) if even => Some(lower / 2.0 + upper / 2.0),
        _ => Some(upper),
    }
}
