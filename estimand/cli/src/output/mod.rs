//! The output of client commands: tables and sentences for people, JSON and plain values for programs.
//!
//! Results go to standard output, remarks to standard error, so that a pipe carries results alone. A terminal
//! gets lines fitted to its width and colours; anything else gets everything, uncoloured. Writing fails only
//! as a [`Failure`](failure::Failure): the reader may have gone.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;

pub mod failure;
pub mod table;
pub mod words;

use table::{Cell, Columns, Table};

/// The abilities of the terminal at standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// The columns of the terminal; none: lines may have any length.
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
            true => Style {
                width: terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)),
                colours: colours_wanted(),
            },
        }
    }
}

impl Output {
    pub fn new(json: bool) -> Self {
        Output { to: BufWriter::new(Box::new(io::stdout())), style: Style::detect(), json }
    }

    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(b"\n")
    }

    /// A line that means something as a whole.
    pub fn cell(&mut self, cell: &Cell) -> io::Result<()> {
        self.line(&cell.shown(self.style.colours))
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
        rows.iter().try_for_each(|row| self.line(&table::line(row, &widths, self.style.colours)))
    }

    /// JSON for reading by people too.
    pub fn pretty(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.to, value)?;
        self.to.write_all(b"\n")
    }

    /// JSON on one line.
    pub fn compact(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, value)?;
        self.to.write_all(b"\n")
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Says something beside the results. Nobody listening to remarks is no reason to fail.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{}", words::visible(text));
}

/// A remark that may well be passed over.
pub fn aside(text: &str) {
    let text = words::visible(text);
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

fn colours_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !set("NO_COLOR") && !dumb
}
