//! Progress of a run for a terminal: a bar a node and one for all, redrawn in place.
//!
//! This module returns text and writes nothing. No line is wider than the given width: a terminal would wrap it, and
//! the wrapped part would stay when the bars are redrawn. Without a terminal, progress is one plain line every two
//! seconds.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::run::{NodeProgress, RunProgress, WorkerState};

/// Further nodes share one bar, so that the bars fit a screen.
const MAX_NODES: usize = 16;
/// A longer name is cut.
const MAX_NAME: usize = 24;
/// A shorter bar is left out.
const MIN_BAR: usize = 5;
const BETWEEN: &str = "  ";
/// Between plain lines.
const QUIET: Duration = Duration::from_secs(2);

/// One line a node, and one for all of them.
struct Row {
    name: String,
    done: usize,
    of: usize,
    /// Its speed, or its state if it does not work.
    about: String,
}

/// The bars, each in its own line of at most `width` columns.
pub fn bars(now: &RunProgress, width: usize) -> String {
    let shown = if now.nodes.len() > MAX_NODES { MAX_NODES - 1 } else { now.nodes.len() };
    let (shown, others) = now.nodes.split_at(shown);
    let mut rows: Vec<Row> = shown.iter().map(of_node).collect();
    rows.extend((!others.is_empty()).then(|| of_others(others)));
    rows.push(Row { name: "total".to_owned(), done: now.done, of: now.of, about: elapsed(now) });
    let widest = |text: fn(&Row) -> usize| rows.iter().map(text).max().unwrap_or(0);
    let name_width = widest(|row| row.name.len());
    // As wide as the counts will become, so that bars do not move.
    let count_width = widest(|row| row.count().len()).max(2 * now.of.to_string().len() + 1);
    let about_width = widest(|row| row.about.len()).max(WorkerState::Starting.as_str().len());
    let taken = name_width + count_width + about_width + 3 * BETWEEN.len();
    let bar_width = width.checked_sub(taken).filter(|bar| *bar >= MIN_BAR);
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("{:name_width$}{BETWEEN}", row.name);
        if let Some(bar_width) = bar_width {
            // Full only when it is all done.
            let full = (row.done * bar_width).checked_div(row.of).unwrap_or(0).min(bar_width);
            line.extend(["█".repeat(full), "░".repeat(bar_width - full), BETWEEN.to_owned()]);
        }
        // Writing to a string does not fail.
        let _ = write!(line, "{:>count_width$}{BETWEEN}{:>about_width$}", row.count(), row.about);
        text.extend(line.chars().take(width));
        text.push('\n');
    }
    text
}

fn of_node(node: &NodeProgress) -> Row {
    let about = match node.state {
        WorkerState::Working => format!("{:.1}/s", node.fps),
        state => state.as_str().to_owned(),
    };
    Row { name: node.name.chars().take(MAX_NAME).collect(), done: node.done, of: node.of, about }
}

fn of_others(nodes: &[NodeProgress]) -> Row {
    let sum = |of: fn(&NodeProgress) -> usize| nodes.iter().map(of).sum();
    let lost = nodes.iter().filter(|node| node.state == WorkerState::Lost).count();
    let about = match lost {
        0 => format!("{:.1}/s", nodes.iter().map(|node| node.fps).sum::<f64>()),
        lost => format!("{lost} lost"),
    };
    let name = format!("and {} others", nodes.len());
    Row { name, done: sum(|node| node.done), of: sum(|node| node.of), about }
}

fn elapsed(now: &RunProgress) -> String {
    now.seconds.map_or("starting".to_owned(), |seconds| format!("{seconds:.1} s"))
}

impl Row {
    fn count(&self) -> String {
        format!("{}/{}", self.done, self.of)
    }
}

/// All nodes in one line.
fn line(now: &RunProgress) -> String {
    let mut text = format!("{}: {} of {}", elapsed(now), now.done, now.of);
    for state in [WorkerState::Starting, WorkerState::Ready, WorkerState::Working, WorkerState::Lost] {
        match now.nodes.iter().filter(|node| node.state == state).count() {
            0 => {}
            count => text.extend([format!(", {count} {}", state.as_str())]),
        }
    }
    text.push('\n');
    text
}

/// Bars of one run after another.
#[derive(Debug)]
pub struct LiveBars {
    terminal: bool,
    width: usize,
    /// How many lines the bars on the terminal have.
    drawn: usize,
    /// Time of the last plain line, and the newer one that waits.
    said_at: Option<Instant>,
    held_back: Option<String>,
}

impl LiveBars {
    /// `terminal`: the text goes to a terminal of `width` columns.
    pub fn new(terminal: bool, width: usize) -> LiveBars {
        LiveBars { terminal, width, drawn: 0, said_at: None, held_back: None }
    }

    /// The text to write for this progress; may be empty.
    #[must_use = "nothing is shown until it is written"]
    pub fn show(&mut self, now: &RunProgress) -> String {
        self.show_at(now, Instant::now())
    }

    /// The text to write at the end of a run. The bars stay, and those of the next run go below them.
    #[must_use = "nothing is shown until it is written"]
    pub fn end(&mut self) -> String {
        self.drawn = 0;
        self.said_at = None;
        self.held_back.take().unwrap_or_default()
    }

    fn show_at(&mut self, now: &RunProgress, at: Instant) -> String {
        if self.terminal {
            return self.draw(now);
        }
        let line = line(now);
        if self.said_at.is_some_and(|said_at| at.saturating_duration_since(said_at) < QUIET) {
            self.held_back = Some(line);
            return String::new();
        }
        (self.said_at, self.held_back) = (Some(at), None);
        line
    }

    /// Moves to the first bar, and clears the rest of each line and everything below the last.
    fn draw(&mut self, now: &RunProgress) -> String {
        let bars = bars(now, self.width);
        let up = match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r"),
        };
        self.drawn = bars.lines().count();
        format!("{up}{}\x1b[J", bars.replace('\n', "\x1b[K\n"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn node(name: &str, state: WorkerState, done: usize, of: usize, fps: f64) -> NodeProgress {
        NodeProgress { name: name.to_owned(), state, done, of, fps }
    }

    fn now() -> RunProgress {
        let nodes = vec![
            node("node-1", WorkerState::Working, 120, 160, 20.25),
            node("node-2", WorkerState::Ready, 53, 53, 0.0),
            node("a-node-of-a-name-that-is-far-too-long", WorkerState::Lost, 0, 9, 0.0),
            node("n4", WorkerState::Starting, 0, 0, 0.0),
        ];
        RunProgress { seconds: Some(12.34), done: 173, of: 400, nodes }
    }

    #[test]
    fn bars_show_the_progress_of_each_node() {
        insta::assert_snapshot!(bars(&now(), 80));
    }

    #[test]
    fn many_nodes_share_one_bar() {
        let state = |i: usize| if i == 30 { WorkerState::Lost } else { WorkerState::Working };
        let nodes = (0..40).map(|i| node(&format!("n{i:02}"), state(i), i, 40, 1.0)).collect();
        insta::assert_snapshot!(bars(&RunProgress { seconds: None, done: 780, of: 1600, nodes }, 60));
    }

    #[test]
    fn no_line_is_wider_than_the_given_width() {
        let full = RunProgress { seconds: Some(1e6), done: 400, ..now() };
        for width in 0..120 {
            for text in [bars(&now(), width), bars(&full, width)] {
                assert_eq!(text.lines().count(), 5);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            }
        }
    }

    #[test]
    fn a_bar_is_full_only_when_all_is_done() {
        let mut now = now();
        (now.done, now.of) = (999_999, 1_000_000);
        assert!(bars(&now, 80).lines().last().unwrap().contains('░'));
        now.done += 1;
        assert!(!bars(&now, 80).lines().last().unwrap().contains('░'));
    }

    #[test]
    fn bars_are_redrawn_in_place_until_the_run_ends() {
        let mut live = LiveBars::new(true, 80);
        let first = live.show(&now());
        assert!(first.starts_with("node-1") && first.matches("\x1b[K\n").count() == 5, "{first:?}");
        // A node has joined: one line more than there was.
        let mut more = now();
        more.nodes.push(node("n5", WorkerState::Starting, 0, 0, 0.0));
        let second = live.show(&more);
        assert!(second.starts_with("\x1b[5A\rnode-1"), "{second:?}");
        assert!(live.show(&more).starts_with("\x1b[6A\r"));
        assert_eq!(live.end(), "");
        assert!(live.show(&now()).starts_with("node-1"), "the next run's bars are its own");
    }

    #[test]
    fn progress_without_a_terminal_is_a_line_every_two_seconds_and_one_at_the_end() {
        let mut live = LiveBars::new(false, 80);
        let start = Instant::now();
        let starting = RunProgress { seconds: None, done: 0, ..now() };
        let mut show =
            |now: &RunProgress, seconds: f64| live.show_at(now, start + Duration::from_secs_f64(seconds));
        assert_eq!(show(&starting, 0.0), "starting: 0 of 400, 1 starting, 1 ready, 1 working, 1 lost\n");
        assert_eq!(show(&starting, 1.9), "");
        assert_eq!(show(&now(), 2.0), "12.3 s: 173 of 400, 1 starting, 1 ready, 1 working, 1 lost\n");
        assert_eq!(show(&RunProgress { done: 400, ..now() }, 2.1), "");
        assert_eq!(live.end(), "12.3 s: 400 of 400, 1 starting, 1 ready, 1 working, 1 lost\n");
        assert_eq!(live.end(), "");
    }
}
