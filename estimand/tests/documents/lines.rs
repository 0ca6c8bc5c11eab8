//! Compares what was printed with what a page says.
//!
//! `…` within a line stands for any text, also for none; a line of `…` alone stands for any lines, also for none. Two or
//! more spaces are like any other two or more, because columns are as wide as what stands in them.

const ANY: char = '…';

/// Nothing if the lines are as expected, else both side by side: `-` is expected, `+` was printed.
pub fn difference(expected: &[String], printed: &[String]) -> Option<String> {
    let expected: Vec<String> = expected.iter().map(|line| even(line)).collect();
    let printed: Vec<String> = printed.iter().map(|line| even(line)).collect();
    let cost = costs(&expected, &printed);
    if cost[0][0] == 0 {
        return None;
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < expected.len() || j < printed.len() {
        let next = steps(&expected, &printed, i, j)
            .into_iter()
            .min_by_key(|step| step.cost + cost[step.i][step.j])
            .unwrap();
        match (next.i - i, next.j - j) {
            (1, 0) if next.cost > 0 => out += &format!("- {}\n", expected[i]),
            (0, 1) if next.cost > 0 => out += &format!("+ {}\n", printed[j]),
            (_, 1) => out += &format!("  {}\n", printed[j]),
            _ => {}
        }
        (i, j) = (next.i, next.j);
    }
    Some(out)
}

struct Step {
    i: usize,
    j: usize,
    cost: usize,
}

/// How many lines are too few or too many from each pair of places on.
fn costs(expected: &[String], printed: &[String]) -> Vec<Vec<usize>> {
    let mut cost = vec![vec![0; printed.len() + 1]; expected.len() + 1];
    for i in (0..=expected.len()).rev() {
        for j in (0..=printed.len()).rev() {
            let best =
                steps(expected, printed, i, j).into_iter().map(|step| step.cost + cost[step.i][step.j]).min();
            cost[i][j] = best.unwrap_or(0);
        }
    }
    cost
}

/// The ways to go on from a pair of places; a match first, so that it is preferred.
fn steps(expected: &[String], printed: &[String], i: usize, j: usize) -> Vec<Step> {
    let any_lines = expected.get(i).is_some_and(|line| line.trim() == ANY.to_string());
    let mut steps = Vec::new();
    if i < expected.len() && j < printed.len() && !any_lines && is_like(&expected[i], &printed[j]) {
        steps.push(Step { i: i + 1, j: j + 1, cost: 0 });
    }
    if i < expected.len() {
        steps.push(Step { i: i + 1, j, cost: usize::from(!any_lines) });
    }
    if j < printed.len() {
        steps.push(Step { i, j: j + 1, cost: usize::from(!any_lines) });
    }
    steps
}

fn even(line: &str) -> String {
    let text = line.trim_end();
    let start = text.len() - text.trim_start().len();
    let words = text[start..].split("  ").map(str::trim).filter(|part| !part.is_empty());
    format!("{}{}", &text[..start], words.collect::<Vec<_>>().join("  "))
}

fn is_like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split(ANY);
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
fn compare(expected: &str, printed: &str) -> Option<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    difference(&lines(expected), &lines(printed))
}

#[test]
fn lines_are_equal_but_for_what_a_wildcard_stands_for() {
    for (expected, printed) in [
        ("", ""),
        ("a   b", "a  b "),
        ("… ago", "4.7s ago"),
        ("{\"at\":\"…\",\"v\":…}", "{\"at\":\"now\",\"v\":1}"),
        ("a\n…\nb", "a\nb"),
        ("a\n…\nb", "a\n1\n2\nb"),
        ("…", ""),
        ("  …: failed", "  vm: failed"),
    ] {
        assert_eq!(compare(expected, printed), None, "{expected:?} and {printed:?}");
    }
}

#[test]
fn a_difference_shows_both_sides() {
    assert_eq!(compare("a\nb\nc", "a\nx\nc").unwrap(), "  a\n- b\n+ x\n  c\n");
    assert_eq!(compare("a\n…\nb", "a\n1").unwrap(), "  a\n  1\n- b\n");
    assert_eq!(compare("", "a").unwrap(), "+ a\n");
    assert_eq!(compare("… ago", "4.7s ago?").unwrap(), "- … ago\n+ 4.7s ago?\n");
    assert_eq!(compare(" a", "a").unwrap(), "-  a\n+ a\n");
}
