//! Inputs in expressions: latest values, ages, states, windows, all nodes, parameters.

use estimand_expressions::{Budget, Expression};
use serde_json::json;

use crate::world::{World, check};

#[test]
fn latest_values() {
    check(
        &World::new(),
        &[
            ("1 - cpu.usageFraction", "0.75"),
            ("cpu.freeFraction * cpu.count", "6"),
            ("cpu['count']", "8"),
            ("cpu.cores['1'].usageFraction", "0.4"),
            ("cpu.cores", r#"{"0":{"usageFraction":0.1},"1":{"usageFraction":0.4}}"#),
            ("rows.rows[1].n", "2"),
            ("rows.rows[number - 5].n", "3"),
            ("number", "7"),
            ("number + 0", "7"),
            ("nothing", "null"),
            ("text", "\"grün\""),
            ("input('disk-io').sda.read", "7"),
            ("input('disk-io')[params.name].read", "7"),
            ("input('number')", "7"),
            ("-cpu.count", "-8"),
            ("node()", "\"node-1\""),
            // Names of forms and functions are names where nothing is called.
            ("mean + size", "at 1:1: mean has no value yet"),
            (
                "cpu.map",
                "at 1:5: no \"map\": there are \"usageFraction\", \"freeFraction\", \"count\", \"model\", \"iowaitPerSecond\" and 1 more",
            ),
            ("params.low * 10", "2"),
            ("params['a-b'][0]", "1"),
            ("has(params.low)", "true"),
            ("has(params.none)", "false"),
            ("has(params.none) ? params.none : 3", "3"),
            ("has(cpu.count)", "true"),
            ("has(cpu.none)", "false"),
            ("has(cpu['none'])", "false"),
            ("has(cpu.iowaitPerSecond)", "true"),
            ("has(cpu.none) ? cpu.none : 0", "0"),
            ("{'value': cpu.count, 'spread': 0}", r#"{"value":8,"spread":0}"#),
        ],
    );
}

#[test]
fn ages_and_states() {
    check(
        &World::new(),
        &[
            ("age(cpu)", "1.5"),
            ("age(cpu.count) < age(load)", "true"),
            ("age(stopped)", "at 1:1: stopped has no value yet"),
            ("age(cpu.none)", "at 1:1: cpu.none has no value yet"),
            ("state(cpu)", "\"fresh\""),
            ("state(load.one)", "\"stale\""),
            ("state(stopped)", "\"missing\""),
            ("state(cpu.none)", "\"missing\""),
            ("known(cpu)", "true"),
            ("known(cpu.cores['0'].usageFraction)", "true"),
            ("known(cpu.cores['7'].usageFraction)", "false"),
            ("known(cpu.iowaitPerSecond)", "false"),
            ("known(stopped)", "false"),
            ("known(input('disk-io'))", "true"),
            ("known(stopped) ? stopped.a : -1", "-1"),
            ("known(stopped) && stopped.a > 1", "false"),
        ],
    );
}

#[test]
fn windows() {
    check(
        &World::new(),
        &[
            ("mean(cpu.usageFraction, '5m')", "0.3"),
            ("mean(cpu.usageFraction, '20s')", "0.30000000000000004"),
            ("min(cpu.usageFraction, '1h')", "0.1"),
            ("max(cpu.usageFraction, '1d')", "0.5"),
            ("max(cpu['usageFraction'], '30s')", "0.4"),
            ("sum(cpu.usageFraction, '5m') > 1.19", "true"),
            ("count(cpu.usageFraction, '5m')", "4"),
            ("count(cpu, '5m')", "4"),
            ("count(cpu.usageFraction, '19999ms')", "1"),
            ("count(stopped, '5m')", "0"),
            ("round(stddev(cpu.usageFraction, '5m') * 1000)", "158"),
            ("stddev(single, '5m')", "0"),
            ("round(median(cpu.usageFraction, '5m') * 10)", "3"),
            ("median(cpu.usageFraction, '30s')", "0.2"),
            ("first(cpu.usageFraction, '5m')", "0.5"),
            ("last(cpu.usageFraction, '5m')", "0.2"),
            // 20 up, then a reset, then 20 up past what is no number, in 40 seconds.
            ("rate(counter, '5m')", "1"),
            ("count(counter, '5m')", "5"),
            ("rate(single, '5m')", "at 1:1: a rate needs two samples of single within 5m"),
            ("mean(stopped.x, '5m')", "at 1:1: no samples of stopped.x within 5m"),
            ("mean(cpu.cores['0'].x, '5m')", "at 1:1: no samples of cpu.cores[\"0\"].x within 5m"),
            ("first(holes.a, '5m')", "at 1:1: no samples of holes.a within 5m"),
            ("sum(holes.a, '5m')", "at 1:1: no samples of holes.a within 5m"),
            ("count(holes.a, '5m')", "1"),
            ("mean(cpu.usageFraction, '5m') < params.low + 0.2", "true"),
            ("['usageFraction'].map(f, last(cpu[f], '5m'))", "[0.2]"),
            ("min(min(cpu.usageFraction, '5m'), 0)", "0"),
        ],
    );
}

#[test]
fn across_the_nodes() {
    check(
        &World::new(),
        &[
            ("total(cpu.usageFraction)", "1"),
            ("average(cpu.usageFraction)", "0.5"),
            ("least(cpu.usageFraction)", "0.25"),
            ("greatest(cpu.count)", "8"),
            ("nodes(cpu)", "3"),
            ("nodes(cpu.count)", "2"),
            ("nodes(stopped)", "0"),
            ("total(cpu.none)", "at 1:1: no node has a number as cpu.none"),
            ("cpu.count / total(cpu.count)", "0.6666666666666666"),
            ("across(cpu.usageFraction)", r#"{"node-1":0.25,"node-2":0.75}"#),
            ("across(cpu.count)", r#"{"node-1":8,"node-2":4,"node-3":null}"#),
            ("across(cpu)['node-2'].count", "4"),
            ("across(stopped)", "{}"),
            ("across(cpu.usageFraction).transformMap(n, u, 1 - u)", r#"{"node-1":0.75,"node-2":0.25}"#),
            ("across(cpu).transformMap(n, c, has(c.usageFraction), c.count)", r#"{"node-1":8,"node-2":4}"#),
            ("across(cpu).filter(n, n != node())", r#"["node-2","node-3"]"#),
        ],
    );
}

#[test]
fn over_the_whole_cluster_there_is_no_node() {
    let world = World { node: None, facts: [].into(), ..World::new() };
    check(
        &world,
        &[
            ("node()", "null"),
            (
                "cpu",
                "at 1:1: cpu has no value of its own here, over the whole cluster: across(x) has all nodes'",
            ),
            ("nodes(cpu)", "3"),
        ],
    );
    let expression =
        Expression::parse("across(cpu.count).transformMap(n, c, c != null, {'value': c})").unwrap();
    let nodes = expression.evaluate(&world, Budget::over(4)).unwrap().to_nodes().unwrap();
    let expected = [("node-1", json!({"value": 8})), ("node-2", json!({"value": 4}))];
    assert_eq!(nodes, expected.map(|(node, value)| (node.to_owned(), value)));
    let expression = Expression::parse("1").unwrap();
    let error = expression.evaluate(&world, Budget::default()).unwrap().to_nodes().unwrap_err();
    assert_eq!(error.to_string(), "at 1:1: expected a map of the nodes' values, not a number");
}

#[test]
fn digits_of_large_numbers_are_kept_where_nothing_is_calculated() {
    let world = World::new();
    check(&world, &[("[large][0] == 9007199254740992", "true"), ("large + 2", "9007199254740994.0")]);
    check(&world, &[("across(cpu)['node-1']", r#"{"usageFraction":0.25,"count":8}"#)]);
}

#[test]
fn a_round_asks_the_nodes_once() {
    let expression =
        Expression::parse("cpu.count / total(cpu.count) + nodes(cpu.none) * least(cpu.count)").unwrap();
    let (mut round, mut world) = (expression.round(), World::new());
    let value = |answer: estimand_expressions::Value<'_>| answer.as_number().unwrap();
    assert_eq!(value(round.evaluate(&world, Budget::default()).unwrap()), 8.0 / 12.0);
    world.nodes.clear();
    assert_eq!(value(round.evaluate(&world, Budget::default()).unwrap()), 8.0 / 12.0);
    assert!(expression.evaluate(&world, Budget::default()).is_err());
}

#[test]
fn a_round_keeps_nothing_that_depends_on_the_node() {
    let expression = Expression::parse("['usageFraction', 'count'].map(f, total(cpu[f]))").unwrap();
    let world = World::new();
    let answer = expression.round().evaluate(&world, Budget::default()).unwrap().to_json().unwrap();
    assert_eq!(answer, json!([1, 12]));
}
