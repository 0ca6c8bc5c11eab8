//! `price`: what a start costs, as a picture or a table.

use chrono::Local;
use estimand_api::duration::Span;
use estimand_api::reservation::{PredictorRecord, PriceCurve, PricePoint};
use estimand_client::PriceQuery;

use super::resources;
use crate::arguments::reservations::{PriceArgs, WantedOptions};
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::words;

/// The widest picture.
const WIDTH: usize = 72;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Too little is free.
const FULL: char = '·';

pub async fn price(session: &mut Session, args: &PriceArgs) -> Result<(), Failure> {
    let WantedOptions { width, class, duration, from, by, .. } = &args.wanted;
    let amounts = resources(&args.wanted).into_iter().map(|(name, amount)| match amount.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={amount}"),
    });
    let query = PriceQuery {
        resources: amounts.collect::<Vec<_>>().join(","),
        duration: duration.clone().unwrap_or_default(),
        width: width.clone(),
        class: class.clone(),
        from: from.clone(),
        by: by.clone(),
    };
    let curve = session.client.prices(&query).await?;
    if session.out.json {
        return Ok(session.out.pretty(&curve)?);
    }
    if args.table {
        return Ok(session.out.table(&table(&curve))?);
    }
    for line in picture(&curve).into_iter().chain(curve.predictor.as_ref().map(expected)) {
        session.out.line(&line)?;
    }
    Ok(())
}

/// The demand that prices count on.
fn expected(predictor: &PredictorRecord) -> String {
    let PredictorRecord { name, period, bids, trained_at, .. } = predictor;
    if trained_at.is_none() {
        return "no demand to come is expected: every free slot has its least price".to_owned();
    }
    let period = Span::from_micros(period.saturating_mul(1_000_000)).unwrap_or(Span::MAX);
    format!(
        "demand to come is expected by `{name}`, from {} of the last {period}",
        words::count_u64(*bids, "request")
    )
}

fn clock(point: &PricePoint) -> String {
    point.start.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

fn table(curve: &PriceCurve) -> Table {
    let mut table = Table::new(["START", "CREDITS"], 0);
    for point in &curve.points {
        let price = point.price.as_deref().unwrap_or("too little is free");
        table.row([Cell::from(clock(point)), Cell::from(price)]);
    }
    table
}

/// The prices of a part of the starts, as a number for the picture; none if too little is free at all of them.
fn cheapest(points: &[PricePoint]) -> Option<(f64, &PricePoint)> {
    let priced = points.iter().filter_map(|point| Some((point.price.as_ref()?.parse::<f64>().ok()?, point)));
    // The first of equals.
    priced.reduce(|best, next| if next.0 < best.0 { next } else { best })
}

fn picture(curve: &PriceCurve) -> Vec<String> {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
        return vec!["there is no such start".to_owned()];
    };
    let Some((_, best)) = cheapest(&curve.points) else {
        return vec!["too little is free at every start".to_owned()];
    };
    let parts: Vec<Option<f64>> = curve
        .points
        .chunks(curve.points.len().div_ceil(WIDTH))
        .map(|part| cheapest(part).map(|(price, _)| price))
        .collect();
    let most = parts.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |price: &Option<f64>| match price {
        None => FULL,
        // Heights from the lowest to the highest bar; at a price of 0 throughout all are the lowest.
        Some(price) if most > 0.0 => BARS[((price / most * 7.0).round() as usize).min(7)],
        Some(_) => BARS[0],
    };
    vec![
        parts.iter().map(bar).collect(),
        format!("{} to {}, at most {most} credits ({FULL}: too little is free)", clock(first), clock(last)),
        format!("cheapest start: {}, {} credits", clock(best), best.price.as_deref().unwrap_or_default()),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn curve(prices: &[Option<&str>]) -> PriceCurve {
        let point = |(place, price): (usize, &Option<&str>)| PricePoint {
            start: chrono::DateTime::from_timestamp(place as i64 * 60, 0).unwrap(),
            price: price.map(str::to_owned),
        };
        let points = prices.iter().enumerate().map(point).collect();
        PriceCurve { slot: 60, duration: 60, points, revision: 1, predictor: None }
    }

    #[test]
    fn a_picture_has_a_bar_a_start_and_names_the_cheapest() {
        let lines = picture(&curve(&[Some("2"), None, Some("1"), Some("1"), Some("0")]));
        assert_eq!(lines[0], "█·▅▅▁");
        assert!(lines[2].contains(", 0 credits"), "{lines:?}");
        assert_eq!(picture(&curve(&[None]))[0], "too little is free at every start");
        assert_eq!(picture(&curve(&[]))[0], "there is no such start");
        let many = vec![Some("3"); 1_000];
        assert!(picture(&curve(&many))[0].chars().count() <= WIDTH);
    }
}
