//! The names of series within a value: their labels, as an exposition of Prometheus writes them.

/// `name="value"` for each, in the order given, with commas between them and without braces.
pub fn label_text<'l>(labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> String {
    let mut out = String::new();
    for (name, value) in labels {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        for char in value.chars() {
            match char {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                _ => out.push(char),
            }
        }
        out.push('"');
    }
    out
}
