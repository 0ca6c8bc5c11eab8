//! Points as a client of InfluxDB sends them: those of many measurements and nodes in one piece.
//!
//! A tag says which node a point is of, and is then not a part of its series. All points of a measurement on a node are one
//! value, as if a run there had printed them.

use std::collections::HashMap;

use super::line::Line;
use super::{Measurements, RejectedRecords, each_line};

/// The most fields in one piece.
pub const MAX_PUSHED_FIELDS: usize = 100_000;

/// A piece of points, as it was sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// In the order in which their measurements and nodes came first.
    pub values: Vec<PushedValue>,
    pub rejected: RejectedRecords,
}

/// The points of one measurement on one node.
#[derive(Debug, PartialEq, Eq)]
pub struct PushedValue {
    pub measurement: String,
    pub node: String,
    /// Compact JSON.
    pub value: Box<str>,
    /// The latest of their times, in microseconds since 1970; none if one of them is of now.
    pub at: Option<i64>,
}

/// Reads the points. `node_tag` names the tag that says their node; their times are counted in units of `unit` nanoseconds.
pub fn push(text: &str, node_tag: &str, unit: i64) -> Result<Push, String> {
    let mut nodes: Vec<(String, Measurements)> = Vec::new();
    let mut by_node: HashMap<String, usize> = HashMap::new();
    let mut rejected = RejectedRecords::default();
    let mut fields = 0;
    each_line(text, |line, place| {
        match line.map_err(str::to_owned).and_then(|line| of_node(line, node_tag, unit)) {
            Ok((node, line)) => {
                fields += line.fields.len();
                let at = *by_node.entry(node).or_insert_with_key(|node| {
                    nodes.push((node.clone(), Measurements::default()));
                    nodes.len() - 1
                });
                nodes[at].1.add(line);
            }
            Err(problem) => rejected.push(|| place.says(&problem)),
        }
        match fields > MAX_PUSHED_FIELDS {
            true => Err(format!("there are more than {MAX_PUSHED_FIELDS} fields; expected at most so many")),
            false => Ok(()),
        }
    })?;
    let mut values = Vec::new();
    for (node, measurements) in nodes {
        for measurement in measurements.all {
            let at = measurement.series.iter().map(|(_, point)| point.at.unwrap_or(i64::MAX)).max();
            match measurement.object().finish() {
                Ok(value) => values.push(PushedValue {
                    measurement: measurement.name,
                    node: node.clone(),
                    value,
                    at: at.filter(|at| *at < i64::MAX).map(|nanos| nanos.div_euclid(1_000)),
                }),
                Err(problem) => rejected.push(|| format!("`{}` of {node}: {problem}", measurement.name)),
            }
        }
    }
    Ok(Push { values, rejected })
}

/// Takes the node out of a line, and has its time in nanoseconds.
fn of_node(mut line: Line, node_tag: &str, unit: i64) -> Result<(String, Line), String> {
    let place = line.tags.iter().position(|(name, _)| name == node_tag);
    let place = place.ok_or_else(|| format!("says no node: it has no tag `{node_tag}`"))?;
    let (_, node) = line.tags.remove(place);
    line.at = match line.at {
        Some(at) => Some(at.checked_mul(unit).ok_or("has a time that is too far away")?),
        None => None,
    };
    Ok((node, line))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(push: &Push) -> Vec<(&str, &str, &str, Option<i64>)> {
        push.values.iter().map(|one| (&*one.measurement, &*one.node, &*one.value, one.at)).collect()
    }

    #[test]
    fn a_measurement_on_a_node_is_a_value() {
        let text = "cpu,host=a,cpu=cpu0 idle=1 5\ncpu,host=b idle=2 7\ncpu,cpu=cpu1,host=a idle=3 6\nmem,host=a free=4i";
        let found = push(text, "host", 1_000_000_000).unwrap();
        let at = |second| format!("1970-01-01T00:00:0{second}.000000Z");
        let cpus = format!(
            r#"{{"series":{{"cpu=cpu0":{{"fields":{{"idle":1}},"at":"{}"}},"cpu=cpu1":{{"fields":{{"idle":3}},"at":"{}"}}}}}}"#,
            at(5),
            at(6)
        );
        let other = format!(r#"{{"fields":{{"idle":2}},"at":"{}"}}"#, at(7));
        assert_eq!(
            values(&found),
            [
                ("cpu", "a", &*cpus, Some(6_000_000)),
                ("mem", "a", r#"{"fields":{"free":4}}"#, None),
                ("cpu", "b", &*other, Some(7_000_000)),
            ]
        );
        assert_eq!(found.rejected.count, 0);
    }

    #[test]
    fn lines_that_are_wrong_are_named_and_the_others_taken() {
        let found = push("m,host=a x=1\nm x=1\nm,host=a x=\n\nm,host=a y=2 99999999999999999", "host", 1_000)
            .unwrap();
        assert_eq!(values(&found), [("m", "a", r#"{"fields":{"x":1}}"#, None)]);
        let said = found.rejected.sentence().unwrap();
        for part in [
            "3 records",
            "line 2: `m x=1` says no node: it has no tag `host`",
            "line 3:",
            "line 5:",
            "too far away",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let many = "x=1,".repeat(MAX_PUSHED_FIELDS) + "x=1";
        assert!(push(&format!("m,host=a {many}"), "host", 1).unwrap_err().contains("fields"));
        assert_eq!(push("", "host", 1).unwrap(), Push::default());
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_what_is_taken_is_json(text in "[a-c, =\\\\\"host\n0-9it.-]{0,120}", unit in 1i64..2_000_000_000) {
            let found = push(&text, "host", unit).unwrap();
            for one in found.values {
                serde_json::from_str::<serde_json::Value>(&one.value).unwrap();
            }
        }
    }
}
