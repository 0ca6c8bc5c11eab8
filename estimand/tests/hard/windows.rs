//! Windows of expressions over large values: an agent keeps the numbers that they look at.

use std::time::Instant;

use estimand_testkit::place::Place;
use estimand_testkit::plane::{Plane, Together};
use estimand_testkit::processes;
use serde_json::{Value, json};

use crate::figures::mebibytes;
use crate::long_or;

/// Numbers in a list, which take many times as much when they are parsed.
const NUMBERS: usize = 30_000;
const NODES: usize = 20;
const MOST_GROWTH: u64 = 256 << 20;

/// One batch of values of some 60 KB each.
fn write_all(plane: &Plane, round: u64) {
    let value = |node| {
        let list: Vec<u64> = vec![7; NUMBERS];
        json!({"dataName": "large", "nodeName": format!("n{node}"), "dataValue": {"number": round, "list": list}})
    };
    let batch: Vec<Value> = (0..NODES).map(value).collect();
    plane.data.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
}

#[test]
fn windows_keep_the_numbers_that_they_look_at() {
    let _alone = crate::with_the_processor();
    let place = Place::new("windows");
    let services = Together::start(&place);
    let agent = place.agent("n0", services.url());
    let plane = &services.plane;
    let derived = |name: &str, text: &str| {
        json!({
            "dataName": name, "kind": "processor", "mode": "expr", "cmd": text, "inputs": ["large"], "max-Time": 1,
            "replicas": 1,
        })
    };
    write_all(plane, 0);
    plane.register(&derived("mean_of_it", "mean(large.number, '1h')"));
    plane.register(&derived("latest_of_it", "large.number"));
    plane.register(&derived("too_much", "count(large.list[0], '1h')"));
    plane.until_value("mean_of_it", "n0", "there", |value| value["dataValue"] == 0.0);
    let before = processes::rss_bytes(agent.process.pid());
    let (rounds, began) = (long_or(400, 30), Instant::now());
    let follow = |round: u64| {
        write_all(plane, round);
        // As fast as the agent follows, and no faster: it would skip some.
        plane.until_value("latest_of_it", "n0", "followed", |value| value["dataValue"] == round as f64);
    };
    (1..=rounds).for_each(follow);
    let written = rounds * NODES as u64 * 2 * NUMBERS as u64;
    let grown = processes::rss_bytes(agent.process.pid()).saturating_sub(before);
    println!(
        "{} MiB of values in {:?}: {} MiB before, {} MiB more",
        mebibytes(written),
        began.elapsed(),
        mebibytes(before),
        mebibytes(grown)
    );
    assert!(grown < MOST_GROWTH, "{} MiB more than before", mebibytes(grown));
    // A window keeps its first number while it grows. That is 0, unless the instance lost its lease on a busy machine and
    // began anew.
    let first_in = |round: u64| {
        let mean = plane.until_value("mean_of_it", "n0", "that of whole rounds", |value| {
            let first = 2.0 * value["dataValue"].as_f64().unwrap() - round as f64;
            first.fract() == 0.0 && (0.0..round as f64).contains(&first)
        });
        2.0 * mean["dataValue"].as_f64().unwrap() - round as f64
    };
    let mut first = first_in(rounds);
    let grows = (rounds + 1..rounds + 10).any(|round| {
        follow(round);
        std::mem::replace(&mut first, first_in(round)) == first
    });
    assert!(grows, "the window lost its first number each time: {first}");
    // Values that have to be kept whole are too much, and the instance says so.
    plane.until_instance("too_much", "n0", "to say the bound", |instance| {
        instance["lastError"]
            .as_str()
            .is_some_and(|error| error.contains("4 MiB") && error.contains("`large`"))
    });
}
