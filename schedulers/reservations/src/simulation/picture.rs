//! A simulated day as a drawing (SVG): the price and the use over time, and the welfare, of each way to price.
//!
//! Its colours are read on light and on dark ground, and the ground is drawn, too.

use std::fmt::Write as _;

use super::replay::Moment;
use super::study::{Figures, Kind};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 70.0;
const MARGIN: f64 = 46.0;
/// The most points that a line has.
const POINTS: usize = 160;
const BAR: f64 = 16.0;
const LINE: f64 = 24.0;
/// One for each way to price; they begin again.
const COLOURS: [&str; 7] = ["#7f8c8d", "#c98500", "#2f7ed8", "#d1495b", "#2a9d5c", "#8f5fd0", "#b5651d"];
const STYLE: &str = "<style>\
    .ground{fill:#fff}.words{fill:#222}.axis{stroke:#888;fill:none}.line{fill:none;stroke-width:1.3}\
    @media (prefers-color-scheme:dark){.ground{fill:#16181c}.words{fill:#ddd}}\
    </style>\n";

/// The day under one way to price.
#[derive(Debug, Clone)]
pub struct PricedDay {
    pub figures: Figures,
    pub moments: Vec<Moment>,
    /// The units that there are.
    pub capacity: u64,
}

/// One panel below the other: what was paid for a unit, the units in use, and what is earned of the worth of all jobs.
pub fn picture(title: &str, days: &[PricedDay]) -> String {
    let bars = MARGIN + LINE * (days.len() + 1) as f64;
    let total = (LEFT + WIDTH + MARGIN, 3.0 * MARGIN + 2.0 * HEIGHT + bars);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         {STYLE}<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
        total.0, total.1
    );
    words(&mut svg, LEFT, 18.0, title);
    legend(&mut svg, days);
    let credits = |moment: &Moment| moment.paid.map(|paid| paid.as_microcredits() as f64 / 1_000_000.0);
    let highest =
        days.iter().flat_map(|day| points(day, credits)).filter_map(|(_, paid)| paid).fold(0.0, f64::max);
    let mut panel = Panel::new(MARGIN + 12.0, highest, days);
    panel.frame(&mut svg, "what was paid for a unit and tick, in credits; gaps: nothing is promised then");
    for day in days {
        panel.line(&mut svg, day, credits);
    }
    let capacity = days.iter().map(|day| day.capacity).max().unwrap_or(0);
    panel = Panel::new(2.0 * MARGIN + 12.0 + HEIGHT, capacity as f64, days);
    panel.frame(&mut svg, "units promised and in use; the top is the capacity");
    for day in days {
        panel.line(&mut svg, day, |moment| Some(moment.used as f64));
    }
    welfare(&mut svg, 3.0 * MARGIN + 2.0 * HEIGHT, days);
    svg.push_str("</svg>\n");
    svg
}

/// An area with time from left to right.
struct Panel {
    top: f64,
    highest: f64,
    first: u64,
    last: u64,
}

impl Panel {
    fn new(top: f64, highest: f64, days: &[PricedDay]) -> Panel {
        let ticks = || days.iter().flat_map(|day| &day.moments).map(|moment| moment.at);
        Panel { top, highest, first: ticks().min().unwrap_or(0), last: ticks().max().unwrap_or(0) }
    }

    fn frame(&self, svg: &mut String, label: &str) {
        let (bottom, right) = (self.top + HEIGHT, LEFT + WIDTH);
        words(svg, LEFT, self.top - 6.0, label);
        words(svg, 8.0, self.top + 10.0, &short(self.highest));
        words(svg, 8.0, bottom, "0");
        words(svg, LEFT, bottom + 14.0, &format!("tick {}", self.first));
        words(svg, right - 60.0, bottom + 14.0, &format!("tick {}", self.last));
        let top = self.top;
        let _ =
            writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {top}H{right}M{LEFT} {top}V{bottom}H{right}\"/>");
    }

    /// A line that is broken where there is no number.
    fn line(&self, svg: &mut String, day: &PricedDay, value: impl Fn(&Moment) -> Option<f64>) {
        let scale = HEIGHT / if self.highest > 0.0 { self.highest } else { 1.0 };
        let step = WIDTH / self.last.saturating_sub(self.first).max(1) as f64;
        let (mut path, mut is_down) = (String::new(), false);
        for (at, value) in points(day, value) {
            if let Some(value) = value {
                let x = LEFT + at.saturating_sub(self.first) as f64 * step;
                let y = self.top + HEIGHT - value * scale;
                let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { "L" } else { "M" });
            }
            is_down = value.is_some();
        }
        let _ = writeln!(svg, "<path class=\"line\" stroke=\"{}\" d=\"{path}\"/>", colour(day));
    }
}

/// Means of stretches of the day, so that several lines are told apart.
fn points<'d>(
    day: &'d PricedDay,
    value: impl Fn(&Moment) -> Option<f64> + 'd,
) -> impl Iterator<Item = (u64, Option<f64>)> + 'd {
    let stretch = day.moments.len().div_ceil(POINTS).max(1);
    day.moments.chunks(stretch).map(move |moments| {
        let values: Vec<f64> = moments.iter().filter_map(&value).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        (moments.first().map_or(0, |moment| moment.at), mean)
    })
}

fn legend(svg: &mut String, days: &[PricedDay]) {
    let mut x = LEFT + WIDTH;
    for day in days.iter().rev() {
        let name = day.figures.pricing.as_str();
        x -= 7.0 * name.len() as f64 + 26.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"26\" width=\"12\" height=\"12\" fill=\"{}\"/>",
            colour(day)
        );
        words(svg, x + 16.0, 36.0, name);
    }
}

/// A bar for each way to price, and marks for what no way can pass.
fn welfare(svg: &mut String, top: f64, days: &[PricedDay]) {
    words(svg, LEFT, top + 6.0, "welfare: the worth of what was accepted, in hundredths of that of all jobs");
    let most = days.iter().map(|day| day.figures.welfare.max(day.figures.optimum).max(day.figures.bound));
    let scale = (WIDTH - 60.0) / most.fold(0.01, f64::max);
    let first = top + LINE;
    for (number, day) in days.iter().enumerate() {
        let y = first + LINE * number as f64;
        let wide = day.figures.welfare * scale;
        words(svg, 8.0, y + 12.0, day.figures.pricing.as_str());
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" fill=\"{}\"/>",
            colour(day)
        );
        words(svg, LEFT + wide + 6.0, y + 12.0, &format!("{:.1}", 100.0 * day.figures.welfare));
    }
    let Some(day) = days.first() else { return };
    let bottom = first + LINE * days.len() as f64;
    for (name, part, line) in [("bound", day.figures.bound, 0.0), ("optimum", day.figures.optimum, 14.0)] {
        let x = LEFT + part * scale;
        let _ = writeln!(
            svg,
            "<path class=\"axis\" stroke-dasharray=\"4 3\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>",
            first - 4.0
        );
        words(svg, x - 30.0, bottom + 12.0 + line, &format!("{name} {:.1}", 100.0 * part));
    }
}

fn colour(day: &PricedDay) -> &'static str {
    let place = Kind::ALL.iter().position(|kind| *kind == day.figures.pricing).unwrap_or(0);
    COLOURS[place % COLOURS.len()]
}

fn short(number: f64) -> String {
    if number < 100.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

fn words(svg: &mut String, x: f64, y: f64, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text class=\"words\" x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
}
