//! Bodies of every form, at every endpoint that takes one: each is answered, and its work grows with its size.

use std::time::Duration;

use estimand_testkit::process::{estimand, free_port};

use crate::with_the_processor;

const SIZES: [usize; 3] = [10_000, 40_000, 160_000];
/// If the largest takes more processor time than this,
const LITTLE: Duration = Duration::from_millis(300);
/// it is so many times that of the smallest at most: 16 would be right, and 256 the square.
const GROWTH: u32 = 48;
/// The shortest time that can be told from another.
const TICK: Duration = Duration::from_millis(10);

type Form = (&'static str, fn(usize) -> String);

const FORMS: &[Form] = &[
    ("nesting", |size| format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2))),
    ("keys", |size| object(size / 12, |n| format!("\"k{:06}\":1", 999_999 - n))),
    ("one key", |size| object(size / 6, |_| "\"k\":1".to_owned())),
    ("escapes", |size| format!("{{\"a\":\"{}\"}}", "\\u0061".repeat(size / 6))),
    ("white space", |size| format!("{{\"a\":{}1}}", " ".repeat(size))),
    ("a number", |size| format!("{{\"a\":{}}}", "9".repeat(size))),
    ("items", |size| list(size / 3, |_| "{}".to_owned())),
    ("a name", |size| format!("{{\"dataName\":\"{}\"}}", "a".repeat(size))),
    ("a value", |size| {
        let value = object(size / 12, |n| format!("\"k{n:06}\":1"));
        format!("{{\"dataName\":\"a\",\"nodeName\":\"n\",\"dataValue\":{value}}}")
    }),
    ("writes", |size| {
        list(size / 48, |n| format!("{{\"dataName\":\"a\",\"nodeName\":\"n{n}\",\"dataValue\":[{n}]}}"))
    }),
    ("inputs", |size| {
        let inputs = list(size / 10, |n| format!("\"i{n:06}\""));
        format!("{{\"dataName\":\"a\",\"cmd\":\"a\",\"max-Time\":1,\"inputs\":{inputs}}}")
    }),
    ("a command", |size| {
        format!("{{\"dataName\":\"a\",\"cmd\":\"{}\",\"max-Time\":1}}", "' '".repeat(size / 3))
    }),
    ("an expression", |size| {
        let sum = "1+(".repeat(size / 4);
        format!("{{\"dataName\":\"a\",\"mode\":\"expr\",\"cmd\":\"{sum}\",\"max-Time\":1}}")
    }),
    ("a selector", |size| {
        format!(
            "{{\"dataName\":\"a\",\"cmd\":\"a\",\"max-Time\":1,\"nodes\":\"{}a\"}}",
            "a=b,".repeat(size / 4)
        )
    }),
    ("variables", |size| {
        let env = object(size / 14, |n| format!("\"X{n:06}\":\"y\""));
        format!("{{\"dataName\":\"a\",\"cmd\":\"a\",\"max-Time\":1,\"env\":{env}}}")
    }),
    ("labels", |size| format!("{{\"labels\":{}}}", object(size / 14, |n| format!("\"l{n:06}\":\"y\"")))),
    ("no JSON", |size| "\u{fffd}#!".repeat(size / 5)),
];

fn list(items: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..items).map(item).collect::<Vec<_>>().join(","))
}

fn object(items: usize, item: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..items).map(item).collect::<Vec<_>>().join(","))
}

#[test]
fn the_work_of_a_body_grows_with_its_size_at_every_endpoint() {
    let _processor = with_the_processor();
    let up = estimand().args(["up", "--no-agent"]).port(free_port()).start();
    let http = up.http();
    let described = http.get("/openapi.json").expect_status(200).json();
    let (mut requests, mut slowest) = (0, (Duration::ZERO, String::new()));
    for (path, item) in described["paths"].as_object().unwrap() {
        let takers = item.as_object().unwrap().iter().filter(|(_, it)| it["requestBody"].is_object());
        for (method, _) in takers {
            let parts = path.split('/').map(|part| if part.starts_with('{') { "zz" } else { part });
            let (method, path) = (method.to_uppercase(), parts.collect::<Vec<_>>().join("/"));
            for (form, body) in FORMS {
                let spent = SIZES.map(|size| {
                    let (body, before) = (body(size), up.cpu_time());
                    let answer = http.request(&method, &path, &[], body.as_bytes());
                    let is_answered = answer.status < 500 || answer.status == 503;
                    assert!(is_answered, "{method} {path}, {form}, {size} bytes: {answer}");
                    requests += 1;
                    up.cpu_time() - before
                });
                let what = format!("{method} {path}, {form}: {spent:?} for {SIZES:?} bytes");
                let is_linear = spent[2] <= LITTLE || spent[2] <= spent[0].max(TICK) * GROWTH;
                assert!(is_linear, "{what}");
                if spent[2] > slowest.0 {
                    slowest = (spent[2], what);
                }
            }
        }
    }
    println!("{requests} bodies; at most {}", slowest.1);
    assert!(requests > 500, "{requests}");
}
