//! Tables: aligned columns, fitted to a width if there is one.
//!
//! When a table is too wide, its elastic column gives way first (a value, a command: what is long), and only
//! then all of them, the widest first. A cut text ends with `…`. A cell is one line and holds no control
//! character, whatever it was made from. A character counts as one column.

use std::ops::Range;

use super::Style;
use super::harmless::visible;

/// Between two columns.
const GAP: &str = "  ";
/// Before a note.
const INDENT: &str = "  ";
/// The elastic column gives way down to this; below, the others do as well.
const ELASTIC_LEAST: usize = 16;
/// No column becomes narrower, however narrow the terminal is: then its lines wrap.
const LEAST: usize = 4;

/// The tone of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    /// To be taken with care.
    Warning,
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
    /// The bytes of the text that the tone is for.
    marked: Range<usize>,
}

/// The widths that the columns of some rows need.
#[derive(Debug, Clone)]
pub struct Columns {
    natural: Vec<usize>,
    elastic: usize,
}

#[derive(Debug)]
pub struct Table {
    columns: Columns,
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    Row(Vec<Cell>),
    Note(Cell),
}

impl Cell {
    pub fn toned(text: &str, tone: Tone) -> Self {
        let text = visible(text).into_owned();
        Cell { marked: 0..text.len(), text, tone }
    }

    /// A subject and a verdict on it with its reason, such as `node-1: failed 3 times in a row: no sensor`. The tone is
    /// for the verdict alone, which ends with the first colon.
    pub fn verdict(subject: &str, verdict: &str, tone: Tone) -> Self {
        let (subject, verdict) = (visible(subject), visible(verdict));
        let before = if subject.is_empty() { String::new() } else { format!("{subject}: ") };
        let end = verdict.find(": ").unwrap_or(verdict.len());
        let marked = before.len()..before.len() + end;
        Cell { text: before + &verdict, tone, marked }
    }

    /// All of it, for a line of its own.
    pub fn shown(&self, colours: bool) -> String {
        self.painted(&self.text, colours)
    }

    /// A text that begins like its own, with the marked part coloured.
    fn painted(&self, text: &str, colours: bool) -> String {
        let colour = match self.tone {
            Tone::Warning => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
            Tone::Plain => return text.to_owned(),
        };
        let Some((before, rest)) = text.split_at_checked(self.marked.start).filter(|_| colours) else {
            return text.to_owned();
        };
        // Where the text was cut, the mark ends with it.
        let (marked, after) = rest.split_at_checked(self.marked.len()).unwrap_or((rest, ""));
        format!("{before}{colour}{marked}\x1b[0m{after}")
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::toned(text.as_ref(), Tone::Plain)
    }
}

impl Table {
    pub fn new<const N: usize>(header: [&str; N], elastic: usize) -> Self {
        let mut table = Table { columns: Columns::new(N, elastic), lines: Vec::new() };
        table.row(header.map(Cell::from));
        table
    }

    /// A table of these rows, the header first; their cells are as many.
    pub fn of(rows: Vec<Vec<Cell>>, elastic: usize) -> Self {
        let mut columns = Columns::new(rows.first().map_or(0, Vec::len), elastic);
        rows.iter().for_each(|row| columns.admit(row));
        Table { columns, lines: rows.into_iter().map(Line::Row).collect() }
    }

    pub fn row<const N: usize>(&mut self, row: [Cell; N]) {
        self.columns.admit(&row);
        self.lines.push(Line::Row(row.into()));
    }

    /// Something to say about the row above, on a line of its own that keeps to no column.
    pub fn note(&mut self, note: Cell) {
        self.lines.push(Line::Note(note));
    }

    pub fn render(&self, style: Style) -> String {
        let widths = self.columns.fit(style.width);
        let shown = |text: &Line| match text {
            Line::Row(row) => line(row, &widths, style.colours) + "\n",
            Line::Note(note) => {
                let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(INDENT.len()));
                let text = shortened(&note.text, room.max(LEAST));
                format!("{INDENT}{}\n", note.painted(&text, style.colours))
            }
        };
        self.lines.iter().map(shown).collect()
    }
}

impl Columns {
    pub fn new(count: usize, elastic: usize) -> Self {
        Columns { natural: vec![0; count], elastic }
    }

    /// Makes room for a row.
    pub fn admit(&mut self, row: &[Cell]) {
        for (width, cell) in self.natural.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }

    /// Forgets what the elastic column needed so far.
    pub fn relax(&mut self) {
        self.natural[self.elastic] = 0;
    }

    /// The widths with which a row takes no more than `total`, if that can be.
    pub fn fit(&self, total: Option<usize>) -> Vec<usize> {
        let mut widths = self.natural.clone();
        let Some(total) = total else { return widths };
        let room = total.saturating_sub(GAP.len() * widths.len().saturating_sub(1));
        let taken: usize = widths.iter().sum();
        let elastic = &mut widths[self.elastic];
        *elastic = elastic.saturating_sub(taken.saturating_sub(room)).max(ELASTIC_LEAST.min(*elastic));
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > LEAST => *widest -= 1,
                _ => break,
            }
        }
        widths
    }
}

/// One line, without trailing white space.
pub fn line(row: &[Cell], widths: &[usize], colours: bool) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let text = shortened(&cell.text, *width);
        let padding = width - text.chars().count();
        line.push_str(&cell.painted(&text, colours));
        line.push_str(&" ".repeat(padding));
        line.push_str(GAP);
    }
    line.truncate(line.trim_end().len());
    line
}

/// The text in at most `width` characters.
fn shortened(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(value: &str) -> Table {
        let mut table = Table::new(["NAME", "VALUE", "STATE"], 1);
        table.row([Cell::from("cpu"), Cell::from(value), Cell::from("fresh")]);
        table.row([Cell::from("cpu_usage"), Cell::from("1"), Cell::toned("stale", Tone::Warning)]);
        table
    }

    fn check(table: &Table, width: Option<usize>, expected: &[&str]) {
        let text = table.render(Style { width, colours: false });
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn columns_are_aligned_and_lines_end_with_their_text() {
        check(
            &table("0.42"),
            None,
            &["NAME       VALUE  STATE", "cpu        0.42   fresh", "cpu_usage  1      stale"],
        );
    }

    #[test]
    fn a_line_that_just_fits_is_left_alone() {
        let natural = table("twenty characters---").render(Style::default());
        let width = natural.lines().map(|line| line.chars().count()).max();
        check(&table("twenty characters---"), width, &natural.lines().collect::<Vec<_>>());
    }

    #[test]
    fn the_elastic_column_gives_way_first() {
        check(
            &table("a value that is rather long"),
            Some(35),
            &[
                "NAME       VALUE              STATE",
                "cpu        a value that is …  fresh",
                "cpu_usage  1                  stale",
            ],
        );
    }

    #[test]
    fn then_the_widest_one_does_until_nothing_more_can_be_cut() {
        check(
            &table("a value that is rather long"),
            Some(20),
            &["NAME    VALUE  STATE", "cpu     a va…  fresh", "cpu_u…  1      stale"],
        );
        let narrowest = table("long enough").render(Style { width: Some(1), colours: false });
        assert_eq!(narrowest.lines().next(), Some("NAME  VAL…  STA…"));
    }

    #[test]
    fn colours_are_not_counted_and_only_where_wanted() {
        let style = Style { width: Some(35), colours: true };
        let text = table("x").render(style);
        assert!(text.ends_with("cpu_usage  1      \u{1b}[33mstale\u{1b}[0m\n"), "{text:?}");
        assert!(!table("x").render(Style { colours: false, ..style }).contains('\u{1b}'));
    }

    #[test]
    fn a_note_stands_below_its_row_and_widens_no_column() {
        let mut table = table("1");
        table.note(Cell::toned("nothing was heard of it for a while", Tone::Bad));
        let last = |style| table.render(style).lines().last().map(str::to_owned);
        let plain = Style { width: Some(24), colours: false };
        assert_eq!(last(plain).as_deref(), Some("  nothing was heard of …"));
        assert_eq!(last(Style::default()).as_deref(), Some("  nothing was heard of it for a while"));
        let coloured = last(Style { width: Some(24), colours: true });
        assert_eq!(coloured.as_deref(), Some("  \u{1b}[31mnothing was heard of …\u{1b}[0m"));
        assert!(table.render(plain).starts_with("NAME       VALUE  STATE\n"));
    }

    #[test]
    fn the_colour_marks_a_verdict_and_nothing_around_it() {
        let cell = Cell::verdict("n1", "failed 3 times: no sensor: gone", Tone::Bad);
        assert_eq!(cell.shown(true), "n1: \u{1b}[31mfailed 3 times\u{1b}[0m: no sensor: gone");
        assert_eq!(cell.shown(false), "n1: failed 3 times: no sensor: gone");
        let mut table = table("1");
        table.note(Cell::verdict("ä1", "failed often: no sensor", Tone::Bad));
        for (width, expected) in [
            (20, "  ä1: \u{1b}[31mfailed often\u{1b}[0m:…"),
            (13, "  ä1: \u{1b}[31mfailed…\u{1b}[0m"),
            (6, "  ä1:…"),
        ] {
            let text = table.render(Style { width: Some(width), colours: true });
            assert_eq!(text.lines().last(), Some(expected), "{width}");
        }
    }

    #[test]
    fn nothing_in_a_cell_reaches_the_terminal_as_a_command() {
        let text = table("a\u{1b}[2J\nb").render(Style::default());
        assert!(text.contains("a\\u{1b}[2J\\nb"), "{text:?}");
        assert_eq!(text.lines().count(), 3);
    }
}
