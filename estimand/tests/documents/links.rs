//! Looks where the links of Markdown pages lead: to a file of the repository, and to a heading in it.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are made, not written.
const MADE: [&str; 3] = ["target", ".git", "node_modules"];

/// All Markdown files below a folder.
pub fn markdown(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !MADE.contains(&name.as_str()) {
            files.extend(markdown(&path));
        } else if name.ends_with(".md") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// A line for each link that leads nowhere.
pub fn broken(root: &Path) -> Vec<String> {
    let mut broken = Vec::new();
    for file in markdown(root) {
        let text = fs::read_to_string(&file).unwrap();
        let links = targets(&text)
            .into_iter()
            .filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
        for target in links {
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let to = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let found = to.exists() && (heading.is_empty() || headings(&to).iter().any(|one| one == heading));
            if !found {
                broken.push(format!("{}: {target} leads nowhere", file.display()));
            }
        }
    }
    broken
}

/// The targets of `[text](target)`, outside of code.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut targets = Vec::new();
    for piece in prose.split("](").skip(1) {
        if let Some((target, _)) = piece.split_once(')') {
            targets.push(target.trim().to_owned());
        }
    }
    targets
}

fn headings(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    prose_lines(&text)
        .filter(|line| line.starts_with('#'))
        .map(|line| slug(line.trim_start_matches('#').trim()))
        .collect()
}

/// The name by which a heading is linked to.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence && !line.starts_with("    ")
    })
}

/// Without blocks of code and code within lines.
fn prose(text: &str) -> String {
    let lines: Vec<&str> = prose_lines(text).collect();
    lines.join("\n").split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn links_are_found_outside_of_code() {
    let text = "[a](b.md) and `[c](d)` and\n```\n[e](f)\n```\n[`g`](h.md#i-j)\n";
    assert_eq!(targets(text), ["b.md", "h.md#i-j"]);
    assert_eq!(slug("The second floor (planned)"), "the-second-floor-planned");
}
