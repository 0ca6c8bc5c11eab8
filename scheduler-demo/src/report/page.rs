//! The page: one file with its drawings and its style inside. It loads nothing and runs nothing.

use std::fmt::Write as _;

use super::chart::{Bar, Bars, escape, sheet, timeline};
use crate::run::Run;

const STYLE: &str = include_str!("page.css");
/// Room to the right of the longest bar.
const ROOM: f64 = 1.05;

/// The report as HTML.
pub fn page(runs: &[Run]) -> String {
    let mut out = String::with_capacity(32 * 1024);
    let title = match runs {
        [] => "No runs".to_owned(),
        [run] => format!("{} images over {} nodes", run.items, run.nodes.len()),
        [run, ..] => format!("{} images over {} nodes, {} ways", run.items, run.nodes.len(), runs.len()),
    };
    out.push_str("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>");
    // Writing to a string does not fail.
    let _ = write!(out, "<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>");
    if let Some(run) = runs.first() {
        let at = run.began.format("%Y-%m-%d %H:%M UTC");
        let _ = write!(
            out,
            "<p>The scheduler and the images are the same each time; what it reads of the nodes' capability differs, or the \
             policy by which it divides. {at}.</p>"
        );
        out.push_str(&summary(runs));
        out.push_str(&times(runs));
        out.push_str(&overall(runs));
        out.push_str(&timelines(runs));
    }
    out.push_str("</body></html>\n");
    out
}

fn summary(runs: &[Run]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>Run</th><th>Policy</th><th class=\"n\">Seconds</th>\
         <th class=\"n\">Ideal</th><th class=\"n\">Over ideal</th><th class=\"n\">Moved</th>\
         <th class=\"n\">Fetched</th><th class=\"n\">Done twice</th></tr></thead><tbody>",
    );
    for run in runs {
        let cells = [
            format!("{:.1}", run.makespan),
            figure(run.ideal, 1),
            figure(run.over_ideal(), 3),
            run.moved.to_string(),
            run.fetched.to_string(),
            run.duplicates.to_string(),
        ];
        let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(&run.title), run.policy);
        let cells: String = cells.iter().map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
        let _ = write!(out, "{cells}</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// The paper's Figure 8 as a file of its own: how long each node worked, a drawing a run.
pub fn figure8(runs: &[Run]) -> String {
    let panels: Vec<Panel> = panels(runs);
    let drawings: Vec<(String, Bars<'_>)> =
        panels.iter().map(|panel| (panel.heading.clone(), panel.bars())).collect();
    sheet("How long each node worked, by how its capability was estimated", STYLE, &drawings)
}

/// The paper's Figure 8: a drawing a run, all to one scale.
fn times(runs: &[Run]) -> String {
    let mut out = String::from(
        "<h2>How long each node worked</h2><p>Seconds until a node was done with its last image. The better the \
         division, the closer the bars are to each other and to the ideal, in which all nodes work at the speed that \
         was measured until the end.</p><div class=\"figures\">",
    );
    for panel in panels(runs) {
        let _ = write!(out, "<figure><h3>{}</h3>{}</figure>", escape(&panel.heading), panel.bars().svg());
    }
    out.push_str("</div>");
    out
}

/// One run of the figure.
struct Panel {
    heading: String,
    bars: Vec<Bar>,
    /// Of all of them.
    most: f64,
    ideal: Option<(f64, String)>,
}

impl Panel {
    fn bars(&self) -> Bars<'_> {
        let line = self.ideal.as_ref().map(|(ideal, words)| (*ideal, words.as_str()));
        Bars { title: &self.heading, unit: "seconds", bars: &self.bars, most: self.most, line }
    }
}

fn panels(runs: &[Run]) -> Vec<Panel> {
    let all = runs.iter().flat_map(|run| run.nodes.iter().map(|node| node.seconds).chain([run.makespan]));
    let most = all.fold(0.0, f64::max) * ROOM;
    let bar = |node: &crate::run::NodeRecord| Bar {
        label: node.name.clone(),
        value: node.seconds,
        figure: format!("{:.1} s", node.seconds),
    };
    let panel = |(i, run): (usize, &Run)| Panel {
        heading: heading(i, run),
        bars: run.nodes.iter().map(bar).collect(),
        most,
        ideal: run.ideal.map(|ideal| (ideal, format!("ideal {ideal:.1} s"))),
    };
    runs.iter().enumerate().map(panel).collect()
}

/// As the paper's figure counts its parts, as far as letters go.
fn heading(i: usize, run: &Run) -> String {
    match ('a'..='z').nth(i) {
        Some(letter) => format!("({letter}) {}", run.title),
        None => format!("({}) {}", i + 1, run.title),
    }
}

fn overall(runs: &[Run]) -> String {
    let bars = |value: &dyn Fn(&Run) -> f64, digits: usize| -> Vec<Bar> {
        let bar = |run: &Run| Bar {
            label: run.title.clone(),
            value: value(run),
            figure: format!("{:.digits$}", value(run)),
        };
        runs.iter().map(bar).collect()
    };
    let most = |bars: &[Bar]| bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let over = bars(&|run| run.over_ideal().unwrap_or(0.0), 3);
    let moved = bars(&|run| run.moved as f64, 0);
    let title = "Makespan over ideal";
    let line = Some((1.0, "ideal"));
    let over = Bars { title, unit: "times", bars: &over, most: most(&over).max(1.0) * ROOM, line }.svg();
    let title = "Images moved";
    let moved =
        Bars { title, unit: "images", bars: &moved, most: most(&moved).max(1.0) * ROOM, line: None }.svg();
    format!(
        "<h2>The runs beside each other</h2><div class=\"figures\"><figure><h3>Makespan over ideal</h3>{over}\
         </figure><figure><h3>Images moved</h3>{moved}<figcaption>Images that the plan takes from one node and gives to \
         another.</figcaption></figure></div>"
    )
}

fn timelines(runs: &[Run]) -> String {
    let ends = runs.iter().flat_map(|run| {
        let last = run.nodes.iter().flat_map(|node| node.spans.iter().map(|span| span.to));
        last.chain([run.makespan])
    });
    let most = ends.fold(0.0, f64::max) * ROOM;
    let mut out = String::from(
        "<h2>Timelines</h2><p>A bar is a series of images, with their number. A gap is a wait.</p><div class=\"figures\">",
    );
    for (i, run) in runs.iter().enumerate() {
        let heading = escape(&heading(i, run));
        let svg = timeline(run, most);
        let _ = write!(out, "<figure><h3>{heading}</h3>{svg}{}{}</figure>", nodes(run), remarks(run));
    }
    out.push_str("</div>");
    out
}

fn nodes(run: &Run) -> String {
    let mut out = String::from(
        "<details><summary>In numbers</summary><div class=\"scroll\"><table><thead><tr><th>Node</th>\
         <th class=\"n\">Capability</th><th class=\"n\">Had</th><th class=\"n\">Plan</th><th class=\"n\">Did</th>\
         <th class=\"n\">Seconds</th><th class=\"n\">Images/s</th></tr></thead><tbody>",
    );
    for node in &run.nodes {
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"n\">{:.3}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{}</td></tr>",
            escape(&node.name),
            node.capability,
            node.held,
            node.target,
            node.did,
            node.seconds,
            figure(node.fps, 2),
        );
    }
    out.push_str("</tbody></table></div></details>");
    out
}

fn remarks(run: &Run) -> String {
    let events = run.events.iter().map(|event| {
        let why = if event.why.is_empty() { String::new() } else { format!(": {}", event.why) };
        format!("At {:.1} s {} {}{why}.", event.at, event.node, event.kind.as_str())
    });
    let all: String =
        events.chain(run.notes.iter().cloned()).map(|words| format!("<li>{}</li>", escape(&words))).collect();
    if all.is_empty() { all } else { format!("<ul>{all}</ul>") }
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}
