//! A caller's text as the log has use for it.

use std::borrow::Cow;

/// How much of a path or a method stands in the log; the longest that means something is shorter.
const MAX_PATH_CHARS: usize = 512;

/// As much of a path or a method as a log has use for: anybody can send one of 60 KB.
pub(crate) fn logged(path: &str) -> Cow<'_, str> {
    match path.char_indices().nth(MAX_PATH_CHARS) {
        None => Cow::Borrowed(path),
        Some((end, _)) => format!("{}… ({} bytes)", &path[..end], path.len()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_does_not_fill_the_log() {
        assert_eq!(logged("/api/data"), "/api/data");
        let long = format!("/{}", "ä".repeat(30_000));
        let shown = logged(&long);
        assert!(
            shown.starts_with("/ää") && shown.ends_with("… (60001 bytes)") && shown.len() < 1_100,
            "{shown}"
        );
    }
}
