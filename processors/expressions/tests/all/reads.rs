//! The inputs that expressions read.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use estimand_expressions::{ErrorKind, Expression, Past, PastPart, Uses};

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn part(fields: &[&str], is_number: bool) -> PastPart {
    PastPart { fields: fields.iter().map(|field| (*field).to_owned()).collect(), is_number }
}

#[test]
fn only_the_part_that_is_looked_at_is_kept_of_the_past() {
    for (source, expected) in [
        ("mean(a, '1m')", part(&[], true)),
        ("max(a.b['c'].d, '1m')", part(&["b", "c", "d"], true)),
        ("count(a.b[0].c, '1m')", part(&["b"], false)),
        ("last(a[params.which].b, '1m')", part(&[], false)),
    ] {
        let past = Expression::parse(source).unwrap().uses().past;
        assert_eq!(past["a"].parts, BTreeSet::from([expected]), "{source}");
    }
}

#[test]
fn inputs_are_found_wherever_they_are() {
    let source = "cpu.a + input('disk-io').b > 1 ? mean(load.one, '5m') + max(load, '90s') : \
                  [memory].map(m, m + hidden.x)[rows] + (known(gpu) ? age(gpu.y) : total(hdfs)) + params.p \
                  + across(cpu).exists(hdfs2, hdfs2 == params['q-r']) || has(params.s) || mean(load, '1s') > 1";
    let expression = Expression::parse(source).unwrap();
    let inputs = ["cpu", "disk-io", "load", "memory", "hidden", "rows", "gpu", "hdfs"];
    assert_eq!(expression.inputs(), set(&inputs));
    let expected = Uses {
        past: BTreeMap::from([(
            "load".to_owned(),
            Past {
                window: Duration::from_secs(300),
                parts: BTreeSet::from([part(&[], true), part(&["one"], true)]),
            },
        )]),
        across: set(&["cpu", "hdfs"]),
        states: set(&["gpu"]),
        params: set(&["p", "q-r", "s"]),
    };
    assert_eq!(expression.uses(), expected);
    assert_eq!(expression.check(&set(&inputs), &set(&["p", "q-r"])), Ok(()));
}

#[test]
fn an_unknown_name_is_rejected_with_the_nearest_one() {
    let unknown = |source: &str, inputs: &[&str], params: &[&str]| -> Vec<String> {
        let errors = Expression::parse(source).unwrap().check(&set(inputs), &set(params)).unwrap_err();
        assert!(errors.iter().all(|error| error.kind == ErrorKind::Unknown));
        errors.iter().map(ToString::to_string).collect()
    };
    let inputs = ["cpu_usage", "disk-io", "memory"];
    for (source, expected) in [
        ("cpu_usag + 1", "at 1:1: no input \"cpu_usag\": did you mean `cpu_usage`?"),
        ("1 + Memory", "at 1:5: no input \"Memory\": did you mean `memory`?"),
        ("disk_io", "at 1:1: no input \"disk_io\": did you mean input(\"disk-io\")?"),
        ("age(x)", "at 1:5: no input \"x\": the inputs are cpu_usage, disk-io, memory"),
        ("params.lw", "at 1:1: no parameter \"lw\": did you mean params.low?"),
        ("params.other", "at 1:1: no parameter \"other\": the parameters are high, low"),
        ("{value: memory}", "at 1:2: no input \"value\": if it is a key of the map, write \"value\""),
    ] {
        assert_eq!(unknown(source, &inputs, &["high", "low"]), [expected], "{source}");
    }
    assert_eq!(
        unknown("params.b + a + a\n + c", &[], &[]),
        [
            "at 1:1: no parameter \"b\": there are no parameters",
            "at 1:12: no input \"a\": there are no inputs",
            "at 2:4: no input \"c\": there are no inputs",
        ]
    );
}
