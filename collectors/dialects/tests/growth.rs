//! The work of each dialect grows with the output that it reads and no faster: else a slot could stop its agent.

use estimand_dialects::{ALL, Dialect, Output};
use estimand_testkit::growth::is_linear;

type Line = fn(usize) -> String;

/// Lines of an output by their number. Every dialect takes some of them for something.
const LINES: [(&str, Line); 9] = [
    ("fields", |n| format!("f{n}.value {n}\n")),
    ("one name", |_| "a.value 1\n".to_owned()),
    ("series", |n| format!("m{{l=\"{n}\"}} {n}\n")),
    ("types", |n| format!("# TYPE m{n} gauge\nm{n} 1\n")),
    ("influx", |n| format!("m,t={n} f={n} {n}\n")),
    ("pairs", |n| format!("k{n}=v{n}\n")),
    ("rows", |n| format!("{n},b,c\n")),
    ("charts", |n| format!("CHART c.{n} '' t u\nDIMENSION d{n}\nBEGIN c.{n}\nSET d{n} = 1\nEND\n")),
    ("text", |n| format!("word{n} \u{e4}\n")),
];

#[test]
fn every_dialect_reads_in_proportion() {
    for kind in ALL {
        let check = |what: &str, output: &dyn Fn(usize) -> String| {
            let bytes = |units| output(units).into_bytes().into_boxed_slice();
            is_linear(&format!("{} of {what}", kind.name), bytes, |output| read(kind.dialect, output));
        };
        for (name, line) in LINES {
            check(name, &|units| (0..units).map(line).collect());
        }
        check("an object", &|units| format!("{{{}}}", joined(units, ",", |n| format!("\"n{n}\":{n}"))));
        check("performance data", &|units| {
            format!("OK | {}", joined(units, " ", |n| format!("l{n}={n};;;0")))
        });
    }
}

fn joined(units: usize, by: &str, unit: impl Fn(usize) -> String) -> String {
    (0..units).map(unit).collect::<Vec<_>>().join(by)
}

fn read(dialect: &dyn Dialect, stdout: &[u8]) -> bool {
    dialect.read(Output { stdout, exit: 0 }).is_ok()
}
