//! Drawings as SVG, which take their colours from the page they are in.
//!
//! Each drawing has a title, and each mark one of its own, shown under the pointer. Drawings side by side are given one
//! scale, so that they can be compared.

use std::fmt::Write as _;

use crate::run::{NodeRecord, Run};

const WIDTH: f64 = 640.0;
const LABELS: f64 = 132.0;
/// Room for the figure behind the longest bar.
const FIGURES: f64 = 70.0;
const ROW: f64 = 28.0;
const BAR: f64 = 16.0;
const TOP: f64 = 24.0;
const AXIS: f64 = 26.0;
const LABEL_CHARS: usize = 17;
const TICKS: f64 = 5.0;

/// One bar: its label, its length, and the figure behind it.
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub figure: String,
}

/// Bars below each other.
pub struct Bars<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    pub bars: &'a [Bar],
    /// The value at the right end.
    pub most: f64,
    /// A line across, with its words.
    pub line: Option<(f64, &'a str)>,
}

impl Bars<'_> {
    pub fn svg(&self) -> String {
        let mut out = open(self.height(), self.title);
        out.push_str(&self.content());
        out.push_str("</svg>");
        out
    }

    pub fn height(&self) -> f64 {
        TOP + self.bars.len() as f64 * ROW + AXIS
    }

    /// The drawing without its frame, for a file of several.
    pub fn content(&self) -> String {
        let (height, scale, mut out) = (self.height(), Scale::new(self.most), String::new());
        axis(&mut out, &scale, height, self.unit);
        // Last, so that the line does not go through them.
        let mut figures = String::new();
        for (i, bar) in self.bars.iter().enumerate() {
            let y = TOP + i as f64 * ROW + (ROW - BAR) / 2.0;
            let (x, width) = (scale.at(0.0), scale.at(bar.value) - scale.at(0.0));
            label(&mut out, &bar.label, y + BAR / 2.0);
            let (name, figure) = (escape(&bar.label), escape(&bar.figure));
            push(
                &mut out,
                format_args!(
                    r#"<rect class="bar" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="2"><title>{name}: {figure}</title></rect>"#
                ),
            );
            let (x, y) = (x + width + 6.0, y + BAR / 2.0);
            push(&mut figures, format_args!(r#"<text class="figure" x="{x:.1}" y="{y:.1}">{figure}</text>"#));
        }
        if let Some((value, words)) = self.line {
            let (x, bottom) = (scale.at(value), height - AXIS);
            push(
                &mut out,
                format_args!(
                    r#"<line class="mark" x1="{x:.1}" x2="{x:.1}" y1="{y:.1}" y2="{bottom:.1}"/>"#,
                    y = TOP - 6.0
                ),
            );
            let words = escape(words);
            push(
                &mut out,
                format_args!(r#"<text class="words" x="{x:.1}" y="{y:.1}">{words}</text>"#, y = TOP - 14.0),
            );
        }
        out + &figures
    }
}

/// Drawings below each other in one file, each under its heading, with the style inside.
pub fn sheet(title: &str, style: &str, drawings: &[(String, Bars<'_>)]) -> String {
    /// Around all of it, and for a heading.
    const MARGIN: f64 = 16.0;
    const HEADING: f64 = 34.0;
    let below = |(_, bars): &(String, Bars<'_>)| HEADING + bars.height();
    let (width, height) = (WIDTH + 2.0 * MARGIN, drawings.iter().map(below).sum::<f64>() + 2.0 * MARGIN);
    let title = escape(title);
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title><style>{style}</style><rect class="card" width="{width}" height="{height}"/>"#
    );
    let mut y = MARGIN;
    for (heading, bars) in drawings {
        let (words, content) = (escape(heading), bars.content());
        push(
            &mut out,
            format_args!(
                r#"<g transform="translate({MARGIN},{y})"><text class="heading" x="0" y="10">{words}</text><g transform="translate(0,{HEADING})">{content}</g></g>"#
            ),
        );
        y += HEADING + bars.height();
    }
    out.push_str("</svg>\n");
    out
}

/// The spans in which each node worked, and the events of the run.
pub fn timeline(run: &Run, most: f64) -> String {
    let height = TOP + run.nodes.len() as f64 * ROW + AXIS;
    let scale = Scale::new(most);
    let mut out = open(height, &format!("When each node worked: {}", run.title));
    axis(&mut out, &scale, height, "seconds");
    for (i, node) in run.nodes.iter().enumerate() {
        let y = TOP + i as f64 * ROW + (ROW - BAR) / 2.0;
        label(&mut out, &node.name, y + BAR / 2.0);
        spans(&mut out, node, &scale, y);
    }
    for event in &run.events {
        let Some(row) = run.nodes.iter().position(|node| node.name == event.node) else { continue };
        let (x, y) = (scale.at(event.at), TOP + row as f64 * ROW + 2.0);
        let what = format!("{} {} at {:.1} s. {}", event.node, event.kind.as_str(), event.at, event.why);
        let (kind, words, what) = (event.kind.as_str(), event.kind.as_str(), escape(what.trim()));
        push(
            &mut out,
            format_args!(
                r#"<g class="event {kind}"><title>{what}</title><line x1="{x:.1}" x2="{x:.1}" y1="{y:.1}" y2="{end:.1}"/><text x="{tx:.1}" y="{ty:.1}">{words}</text></g>"#,
                end = y + ROW - 4.0,
                tx = x + 4.0,
                ty = y + ROW / 2.0 - 2.0,
            ),
        );
    }
    let (x, bottom) = (scale.at(run.makespan), height - AXIS);
    push(
        &mut out,
        format_args!(
            r#"<line class="mark" x1="{x:.1}" x2="{x:.1}" y1="{y:.1}" y2="{bottom:.1}"/>"#,
            y = TOP - 6.0
        ),
    );
    let done = format!("all done, {:.1} s", run.makespan);
    push(
        &mut out,
        format_args!(r#"<text class="words" x="{x:.1}" y="{y:.1}">{done}</text>"#, y = TOP - 14.0),
    );
    out.push_str("</svg>");
    out
}

fn spans(out: &mut String, node: &NodeRecord, scale: &Scale, y: f64) {
    let name = escape(&node.name);
    for span in &node.spans {
        let x = scale.at(span.from);
        // Even the shortest span is visible.
        let width = (scale.at(span.to) - x).max(1.0);
        let (from, to, items) = (span.from, span.to, span.items);
        push(
            out,
            format_args!(
                r#"<rect class="span" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="2"><title>{name}: {items} images, {from:.1} to {to:.1} s</title></rect>"#
            ),
        );
        let words = items.to_string();
        if width > 9.0 * words.len() as f64 + 8.0 {
            let (x, y) = (x + width / 2.0, y + BAR / 2.0);
            push(out, format_args!(r#"<text class="inside" x="{x:.1}" y="{y:.1}">{words}</text>"#));
        }
    }
}

struct Scale {
    most: f64,
}

impl Scale {
    fn new(most: f64) -> Scale {
        Scale { most: if most > 0.0 && most.is_finite() { most } else { 1.0 } }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value / self.most).clamp(0.0, 1.0);
        LABELS + part * (WIDTH - LABELS - FIGURES)
    }

    /// A round number of which about five make the whole.
    fn step(&self) -> f64 {
        let rough = self.most / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| rough <= factor * power).unwrap_or(10.0);
        factor * power
    }
}

fn open(height: f64, title: &str) -> String {
    let title = escape(title);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"><title>{title}</title>"#
    )
}

fn axis(out: &mut String, scale: &Scale, height: f64, unit: &str) {
    let (bottom, step) = (height - AXIS, scale.step());
    let digits = if step < 1.0 { (-step.log10().floor()) as usize } else { 0 };
    let mut tick = 0;
    while f64::from(tick) * step <= scale.most * 1.0001 {
        let value = f64::from(tick) * step;
        let x = scale.at(value);
        push(
            out,
            format_args!(r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom:.1}"/>"#),
        );
        let y = bottom + 13.0;
        push(out, format_args!(r#"<text class="tick" x="{x:.1}" y="{y:.1}">{value:.digits$}</text>"#));
        tick += 1;
    }
    let (y, unit) = (bottom + 13.0, escape(unit));
    push(out, format_args!(r#"<text class="unit" x="{WIDTH}" y="{y:.1}">{unit}</text>"#));
}

/// A long name is cut; its title has all of it.
fn label(out: &mut String, name: &str, y: f64) {
    let mut short = name.to_owned();
    if let Some((end, _)) = name.char_indices().nth(LABEL_CHARS)
        && name.chars().count() > LABEL_CHARS
    {
        short.truncate(end);
        short.push('…');
    }
    let (x, short, name) = (LABELS - 8.0, escape(&short), escape(name));
    push(out, format_args!(r#"<text class="label" x="{x}" y="{y:.1}">{short}<title>{name}</title></text>"#));
}

/// Writing to a string does not fail.
fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(what);
}

/// Text as it may stand in an element or an attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Neither HTML nor XML has words for these.
            c if c.is_control() && !c.is_whitespace() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
