//! Blots out what differs from run to run and from machine to machine, and nothing else.
//!
//! Each placeholder stands for a shape that was checked, or for a text that is known to be right: `1.2s ago`
//! becomes `[span] ago` while `-1.2s ago` stays as it is, and shows in the snapshot's difference.

/// Texts of this run and this machine.
pub struct Redaction {
    /// Replaced wherever they stand.
    texts: Vec<(String, &'static str)>,
    /// Replaced where one fills a cell.
    cells: Vec<(String, &'static str)>,
    cores: String,
}

/// Between the cells of a line.
const GAP: &str = "  ";

impl Redaction {
    pub fn new(texts: &[(&str, &'static str)]) -> Self {
        let kernel = |file: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).unwrap();
            text.trim().to_owned()
        };
        let machine = format!("{}, Linux {}", std::env::consts::ARCH, kernel("osrelease"));
        let mut cells = vec![
            (kernel("hostname"), "[host]"),
            (machine, "[machine]"),
            (format!("version {}", env!("CARGO_PKG_VERSION")), "version [ours]"),
            ("little: it had ended before it was looked at".to_owned(), "[bytes]"),
        ];
        cells.extend(["cgroup v1", "cgroup v2", "subreaper"].map(|way| (way.to_owned(), "[containment]")));
        Redaction {
            texts: texts.iter().map(|(text, placeholder)| ((*text).to_owned(), *placeholder)).collect(),
            cells,
            cores: std::thread::available_parallelism().unwrap().to_string(),
        }
    }

    /// Columns are as wide as what stands in them, so what separates cells becomes two spaces.
    pub fn line(&self, line: &str) -> String {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        let cells = text.split(GAP).map(str::trim_start).filter(|cell| !cell.is_empty());
        let mut cells: Vec<String> = cells.map(|cell| self.cell(cell)).collect();
        for place in 0..cells.len() {
            let labelled = place > 0 && cells[place - 1] == "cores";
            let before_memory = cells.get(place + 1).is_some_and(|next| next == "[bytes]");
            if cells[place] == self.cores && (labelled || before_memory) {
                cells[place] = "[cores]".to_owned();
            }
        }
        format!("{indent}{}", cells.join(GAP)).trim_end().to_owned()
    }

    fn cell(&self, cell: &str) -> String {
        // The user's own words.
        if cell.starts_with("gap ") {
            return cell.to_owned();
        }
        if let Some((_, placeholder)) = self.cells.iter().find(|(text, _)| text == cell) {
            return (*placeholder).to_owned();
        }
        let mut cell = cell.to_owned();
        self.texts.iter().for_each(|(text, placeholder)| cell = cell.replace(text, placeholder));
        let words: Vec<&str> = cell.split(' ').collect();
        let mut out: Vec<String> = Vec::new();
        let mut place = 0;
        while let Some(word) = words.get(place) {
            let bare = word.trim_matches(['(', ')', ',']);
            let unit = words.get(place + 1).map(|unit| unit.trim_matches([')', ',']));
            let placeholder = match unit {
                Some("KiB" | "MiB" | "GiB" | "TiB") if is_number(bare, 1..=1) => {
                    place += 1;
                    "[bytes]"
                }
                _ if is_instant(bare) => "[time]",
                _ if is_span(bare) => "[span]",
                _ => bare,
            };
            out.push(word.replace(bare, placeholder));
            place += 1;
        }
        out.join(" ")
    }
}

fn is_instant(word: &str) -> bool {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    matches!(shape.as_str(), "0000-00-00T00:00:00.000Z" | "0000-00-00T00:00:00.000000Z")
        && word.starts_with("20")
}

/// Seconds or less, as ages and durations are written; what the tests write themselves is otherwise.
fn is_span(word: &str) -> bool {
    match word.strip_suffix("ms") {
        Some(number) => is_number(number, 0..=1),
        None => word.strip_suffix('s').is_some_and(|number| is_number(number, 0..=1)),
    }
}

/// Digits, and so many more after the point.
fn is_number(text: &str, decimals: std::ops::RangeInclusive<usize>) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    !whole.is_empty()
        && digits(whole)
        && digits(fraction)
        && decimals.contains(&fraction.len())
        && text.contains('.') != fraction.is_empty()
}

#[test]
fn only_what_has_the_right_shape_is_blotted_out() {
    let redaction = Redaction::new(&[("http://127.0.0.1:1", "http://[service]")]);
    let check = |line: &str, expected: &str| assert_eq!(redaction.line(line), expected);
    check("(1.2s ago), took 35ms", "([span] ago), took [span]");
    check("-1.2s ago  1.25s  .5s  s  ms  1.s", "-1.2s ago  1.25s  .5s  s  ms  1.s");
    check("  memory     23.5 GiB", "  memory  [bytes]");
    check("0 B  23 GiB  23.55 GiB  NaN GiB", "0 B  23 GiB  23.55 GiB  NaN GiB");
    check("since 2026-01-31T12:00:05.000Z", "since [time]");
    check("2026-01-31 12:00  2026-01-31T12:00:05Z", "2026-01-31 12:00  2026-01-31T12:00:05Z");
    check("at http://127.0.0.1:1/api", "at http://[service]/api");
    let cores = &redaction.cores;
    check(&format!("n1  {cores}  1.5 GiB  {cores}"), &format!("n1  [cores]  [bytes]  {cores}"));
}
