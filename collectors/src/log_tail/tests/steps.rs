//! Changes of a log in any order, with every line taken once.

use std::fs;

use proptest::prelude::*;

use super::Log;

#[derive(Debug, Clone)]
enum Step {
    Lines(usize),
    Piece,
    Rotate,
    Truncate,
    Restart,
    Look,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each line is taken once and in order, for any changes between collections.
    #[test]
    fn every_line_is_taken_once(steps in proptest::collection::vec(prop_oneof![
        4 => (1usize..5).prop_map(Step::Lines),
        2 => Just(Step::Piece),
        1 => Just(Step::Rotate),
        1 => Just(Step::Truncate),
        2 => Just(Step::Restart),
        4 => Just(Step::Look),
    ], 1..40)) {
        let log = Log::with("begin\n");
        let options = [("lines", "100"), ("pattern", "^n=(?<n>[0-9]+);$")];
        let mut tail = log.lasting(&options);
        let _ = tail.ask();
        let (mut next, mut rotations, mut open) = (0u64, 0, false);
        for step in steps {
            // The end of a line that was begun.
            let mut end = || if std::mem::take(&mut open) { ";\n" } else { "" };
            match step {
                Step::Lines(count) => {
                    let mut text = end().to_owned();
                    for _ in 0..count {
                        text.push_str(&format!("n={next};\n"));
                        next += 1;
                    }
                    log.add(text);
                }
                Step::Piece => {
                    let text = format!("{}n={next}", end());
                    (next, open) = (next + 1, true);
                    log.add(text);
                }
                // Of two rotations, or a truncation, between collections nobody could know.
                Step::Rotate => {
                    log.add(end());
                    let _ = tail.ask();
                    rotations += 1;
                    log.rename(&format!("worker.log.{rotations}"));
                    log.add("begin\n");
                }
                Step::Truncate => {
                    log.add(end());
                    let _ = tail.ask();
                    fs::write(&log.path, "").unwrap();
                }
                Step::Restart => tail = log.lasting(&options),
                Step::Look => { let _ = tail.ask(); }
            }
        }
        log.add(if open { ";\n" } else { "" });
        let shown = tail.ask().ok();
        let taken: Vec<u64> = shown.iter().flat_map(|value| value["matches"].as_array().unwrap())
            .map(|one| one["matched"]["n"].as_u64().unwrap()).collect();
        let expected: Vec<u64> = (next.saturating_sub(100)..next).collect();
        prop_assert_eq!(taken, expected);
        prop_assert_eq!(shown.map_or(0, |value| value["count"].as_u64().unwrap()), next);
    }
}
