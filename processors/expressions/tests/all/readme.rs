//! The page about the language says what is so: examples with results in its tables are evaluated.

use serde_json::Value;

use crate::world::{World, outcome};

/// The words in backticks in a cell of a table.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn examples_are_as_the_page_has_them() {
    let (page, world) = (include_str!("../../README.md"), World::new());
    let mut count = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let (examples, results) = (quoted(cells[1]), quoted(cells.last().unwrap()));
        if examples.len() != results.len() || cells.last().unwrap().contains("null there") {
            continue;
        }
        for (example, result) in examples.into_iter().zip(results) {
            let Ok(expected) = serde_json::from_str::<Value>(result) else { continue };
            assert_eq!(outcome(example, &world), expected.to_string(), "{line}");
            count += 1;
        }
    }
    assert!(count > 50, "only {count} examples were found");
}
