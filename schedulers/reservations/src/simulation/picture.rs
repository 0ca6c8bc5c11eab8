//! The price over a day and the use of its capacity, as a drawing (SVG).

use std::fmt::Write as _;

use super::replay::Moment;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 160.0;
const MARGIN: f64 = 40.0;

/// Two panels, one above the other: the price of a unit at each tick, and the units in use then.
pub fn picture(title: &str, moments: &[Moment], capacity: u64) -> String {
    let credits = |moment: &Moment| moment.price.map(|price| price.as_microcredits() as f64 / 1_000_000.0);
    let highest = moments.iter().filter_map(credits).fold(0.0, f64::max);
    let (total_width, total_height) = (WIDTH + 2.0 * MARGIN, 2.0 * HEIGHT + 3.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total_width} {total_height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<text x=\"{MARGIN}\" y=\"16\">{}</text>\n",
        escaped(title)
    );
    panel(
        &mut svg,
        MARGIN,
        "credits a unit and tick; gaps: nothing is left",
        highest,
        moments.iter().map(credits),
    );
    let used = moments.iter().map(|moment| Some(moment.used as f64));
    panel(&mut svg, 2.0 * MARGIN + HEIGHT, "units in use", capacity as f64, used);
    svg.push_str("</svg>\n");
    svg
}

/// One line from left to right, broken where there is no number.
fn panel(
    svg: &mut String,
    top: f64,
    label: &str,
    highest: f64,
    points: impl ExactSizeIterator<Item = Option<f64>>,
) {
    let step = WIDTH / points.len().max(2).saturating_sub(1) as f64;
    let scale = HEIGHT / if highest > 0.0 { highest } else { 1.0 };
    let mut path = String::new();
    let mut is_down = false;
    for (place, value) in points.enumerate() {
        if let Some(value) = value {
            let (x, y) = (MARGIN + place as f64 * step, top + HEIGHT - value * scale);
            let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { "L" } else { "M" });
        }
        is_down = value.is_some();
    }
    let (bottom, right) = (top + HEIGHT, MARGIN + WIDTH);
    let _ = write!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{:.0}\">{label}; at most {highest:.2}</text>\n\
         <path d=\"M{MARGIN} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
         <path d=\"{path}\" fill=\"none\" stroke=\"#06c\"/>\n",
        top - 6.0
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
