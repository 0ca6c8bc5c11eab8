//! The words of a line, as Netdata takes them apart: white space and `=` are between words, and a word that
//! begins with a quote goes to the next quote of its kind. There are no escapes.

/// More words than any line of Netdata's has; what comes after them is not looked at.
const MOST_WORDS: usize = 20;

pub(super) fn split(line: &str) -> Vec<&str> {
    let is_between = |char: char| char.is_whitespace() || char == '=';
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(is_between);
    while !rest.is_empty() && words.len() < MOST_WORDS {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap_or((quoted, "")),
            None => match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => rest.split_at(rest.find(is_between).unwrap_or(rest.len())),
            },
        };
        words.push(word);
        rest = after.trim_start_matches(is_between);
    }
    words
}
