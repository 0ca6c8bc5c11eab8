//! The output of client commands: tables and sentences for people, JSON and plain values for programs.
//!
//! Results go to standard output, remarks to standard error, so that a pipe carries results alone. A terminal
//! gets lines fitted to its width and colours; anything else gets everything, uncoloured. Writing fails only
//! as a [`Failure`](failure::Failure): the reader may have gone.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;

pub mod failure;
pub mod harmless;
pub mod table;
pub mod words;

use table::{Cell, Columns, Table};

/// The width of a terminal that does not tell it.
const USUAL_WIDTH: usize = 80;
const USUAL_HEIGHT: usize = 24;

/// The abilities of the terminal at standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// The columns of the terminal; none if it is no terminal, and lines may have any length.
    pub width: Option<usize>,
    pub colours: bool,
}

/// Standard output of one command. Written lines are there for sure after [`Output::flush`].
pub struct Output {
    to: BufWriter<Box<dyn Write>>,
    pub style: Style,
    /// The command was asked for JSON.
    pub json: bool,
}

impl Style {
    /// That of standard output.
    fn detect() -> Self {
        match io::stdout().is_terminal() {
            false => Style::default(),
            true => Style { width: Some(terminal_width()), colours: colours_wanted() },
        }
    }

    /// That of standard output as it is now, and how many lines there are.
    pub fn now() -> (Self, usize) {
        let height = terminal_size::terminal_size_of(io::stdout()).map(|(_, height)| usize::from(height.0));
        (Style::detect(), height.filter(|height| *height > 0).unwrap_or(USUAL_HEIGHT))
    }

    /// True if a terminal shows what is written.
    fn is_terminal(self) -> bool {
        self.width.is_some()
    }
}

impl Output {
    pub fn new(json: bool) -> Self {
        Output { to: BufWriter::new(Box::new(io::stdout())), style: Style::detect(), json }
    }

    /// Its lines, with nothing in them that a terminal would obey.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        text.split('\n').try_for_each(|line| self.verbatim(&harmless::visible(line)))
    }

    /// A line as it is: a script, or one that was made harmless already.
    pub fn verbatim(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(b"\n")
    }

    /// A text from elsewhere, for programs as it is; a terminal gets nothing that it would obey.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        match self.style.is_terminal() {
            true => words::lines(text).try_for_each(|line| self.verbatim(&line)),
            false => self.verbatim(text),
        }
    }

    /// A part of a text from elsewhere, as [`raw`](Self::raw) brings out a whole one.
    pub fn part(&mut self, text: &str) -> io::Result<()> {
        match self.style.is_terminal() {
            true => self.to.write_all(harmless::visible(text).as_bytes()),
            false => self.to.write_all(text.as_bytes()),
        }
    }

    /// Bytes from elsewhere, for programs.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// The end of such a text.
    pub fn end(&mut self, end: &str) -> io::Result<()> {
        self.to.write_all(end.as_bytes())
    }

    /// A line that means something as a whole.
    pub fn cell(&mut self, cell: &Cell) -> io::Result<()> {
        self.verbatim(&cell.shown(self.style.colours))
    }

    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        self.to.write_all(table.render(self.style).as_bytes())
    }

    /// Labelled lines about one thing, indented. Nothing of them is cut: whoever asks about one thing wants
    /// all of it.
    pub fn facts(&mut self, facts: &[(String, Cell)]) -> io::Result<()> {
        let mut columns = Columns::new(2, 1);
        let rows: Vec<[Cell; 2]> =
            facts.iter().map(|(label, what)| [Cell::from(format!("  {label}")), what.clone()]).collect();
        rows.iter().for_each(|row| columns.admit(row));
        let widths = columns.fit(None);
        rows.iter().try_for_each(|row| self.verbatim(&table::line(row, &widths, self.style.colours)))
    }

    /// JSON for reading by people too.
    pub fn pretty(&mut self, value: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string_pretty(value)?;
        self.verbatim(&harmless::harmless_json(&json))
    }

    /// JSON on one line.
    pub fn compact(&mut self, value: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(value)?;
        self.verbatim(&harmless::harmless_json(&json))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Says something beside the results. Nobody listening to remarks is no reason to fail.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{}", harmless::visible(text));
}

/// A remark that may well be passed over.
pub fn aside(text: &str) {
    let text = harmless::visible(text);
    let _ = match io::stderr().is_terminal() && colours_wanted() {
        true => writeln!(io::stderr(), "\x1b[2m{text}\x1b[0m"),
        false => writeln!(io::stderr(), "{text}"),
    };
}

/// Says something on standard output. If that is closed, nobody is kept from being served.
pub fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A terminal that does not know its width says nothing or 0.
fn terminal_width() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let known = |width: &usize| *width > 0;
    size.filter(known).or_else(|| columns().filter(known)).unwrap_or(USUAL_WIDTH)
}

fn colours_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !set("NO_COLOR") && !dumb
}
