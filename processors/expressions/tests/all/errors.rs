//! Expressions that are rejected, with the right place.

use estimand_expressions::{Budget, ErrorKind, Expression};

use crate::world::{World, check};

#[test]
fn texts_that_are_no_expression() {
    check(
        &World::new(),
        &[
            ("", "at 1:1: the expression ends here, where a value is expected"),
            ("  // nothing", "at 1:13: the expression ends here, where a value is expected"),
            ("1 +", "at 1:4: the expression ends here, where a value is expected"),
            ("1 2", "at 1:3: expected an operator or the end, not the number 2"),
            ("cpu cpu", "at 1:5: expected an operator or the end, not \"cpu\""),
            ("(1", "at 1:3: the expression ends here, where `)` is expected"),
            ("[1", "at 1:3: the expression ends here, where `]` is expected"),
            ("[,]", "at 1:2: expected a value, not `,`"),
            ("{'a' 1}", "at 1:6: expected `:`, not the number 1"),
            ("{1: 2}", "at 1:2: the keys of a map are strings: put it in quotes"),
            ("true ? 1", "at 1:9: the expression ends here, where `:` is expected"),
            ("1)", "at 1:2: expected an operator or the end, not `)`"),
            ("a = 1", "at 1:3: `=` is no operator: `==` compares"),
            ("a & b", "at 1:3: `&` is no operator: write it twice"),
            ("a | b", "at 1:3: `|` is no operator: write it twice"),
            ("a.`b`", "at 1:3: names are not quoted with backticks: write [\"name\"]"),
            ("a # b", "at 1:3: \"#\" means nothing here"),
            ("'ä' + ß", "at 1:7: \"ß\" means nothing here"),
            ("'a", "at 1:1: the string has no end: ' is missing"),
            ("'a\nb'", "at 1:1: the string has no end: ' is missing"),
            ("'''a''", "at 1:1: the string has no end: ''' is missing"),
            ("1 + '\\q'", "at 1:6: no such escape: a backslash itself is written \\\\"),
            ("'\\", "at 1:2: no such escape: a backslash itself is written \\\\"),
            ("'\\x4'", "at 1:2: the escape needs 2 digits that are a character"),
            ("'\\ud800'", "at 1:2: the escape needs 4 digits that are a character"),
            ("'\\400'", "at 1:2: no such escape: a backslash itself is written \\\\"),
            ("b'a'", "at 1:1: there are no bytes here: write a string"),
            ("1x", "at 1:2: a number ends here and a name begins: put something between"),
            ("0x", "at 1:1: a hexadecimal number is 0x and some digits"),
            ("1e999", "at 1:1: the number is too large"),
            ("if", "at 1:1: `if` is a reserved word; an input of that name is input(\"if\")"),
            ("in [1]", "at 1:1: `in` needs a value on its left"),
            (".a", "at 1:1: a name does not begin with a dot"),
            ("a.'b'", "at 1:3: expected the name of a field: write [\"b\"]"),
            ("a.?b", "at 1:3: there are no optional values here: use has(x.y)"),
            ("a[?b]", "at 1:3: there are no optional values here: use has(x.y)"),
            ("A{b: 1}", "at 1:2: there are no messages here: a map is written {\"key\": value}"),
            ("params", "at 1:1: a parameter is written params.name or params[\"name\"]"),
            ("params['a' + 'b']", "at 1:1: a parameter is written params.name or params[\"name\"]"),
            ("1 +\n\n  * 2", "at 3:3: expected a value, not `*`"),
        ],
    );
}

#[test]
fn calls_that_are_none() {
    check(
        &World::new(),
        &[
            ("flor(1)", "at 1:1: no function \"flor\": did you mean `floor`?"),
            ("1 + foo(1)", "at 1:5: no function \"foo\""),
            ("[1].foo(1)", "at 1:5: no function \"foo\""),
            ("abs()", "at 1:1: `abs` takes one argument, not 0"),
            ("abs(1, 2)", "at 1:1: `abs` takes one argument, not 2"),
            ("pow(1)", "at 1:1: `pow` takes 2 arguments, not 1"),
            ("clamp(1, 2)", "at 1:1: `clamp` takes 3 arguments, not 2"),
            ("'a'.contains()", "at 1:5: `contains` takes one argument, not 0"),
            ("'a'.size(1)", "at 1:5: `size` takes no argument, not 1"),
            ("contains('a', 'b')", "at 1:1: `contains` is written after a value: x.contains(y)"),
            ("'a'.abs()", "at 1:5: `abs` is no method: write abs(x)"),
            ("cpu.age()", "at 1:5: `age` is no method: write age(…)"),
            ("map([1], x, x)", "at 1:1: `map` is written after a list or a map: x.map(…)"),
            ("[1].map(x)", "at 1:10: expected `,`, not `)`"),
            ("[1].map(1, x)", "at 1:9: expected the name of a variable, not the number 1"),
            ("[1].map(params, 1)", "at 1:9: `params` cannot be the name of a variable"),
            ("[1].filter(x, x, x)", "at 1:5: it is written x.filter(v, condition)"),
            ("{}.transformMap(a, a, 1)", "at 1:20: the two variables have the same name"),
            (
                "'a'.matches('b')",
                "at 1:5: no function `matches`: there are no regular expressions here: contains, startsWith and endsWith look into strings",
            ),
            (
                "int(1)",
                "at 1:1: no function `int`: there is one kind of number: floor(x), ceil(x) or round(x) make it whole",
            ),
            ("has(cpu)", "at 1:5: `has` asks for a field: has(x.y)"),
            ("has()", "at 1:1: `has` asks for a field: has(x.y)"),
            ("has(rows.rows[0])", "at 1:15: `has` asks for a field: size(x) says how many a list has"),
            (
                "mean(cpu.usageFraction, '5x')",
                "at 1:25: \"5x\" is no window: it is a whole number and ms, s, m, h or d, like \"5m\"",
            ),
            (
                "mean(cpu, '0s')",
                "at 1:11: \"0s\" is no window: it is a whole number and ms, s, m, h or d, like \"5m\"",
            ),
            (
                "mean(cpu, '9999999999s')",
                "at 1:11: \"9999999999s\" is no window: it is a whole number and ms, s, m, h or d, like \"5m\"",
            ),
            ("mean(cpu, 5)", "at 1:11: the window is written out, like \"5m\": it must be known beforehand"),
            (
                "mean(cpu, 'a' + 'b')",
                "at 1:15: the window is written out, like \"5m\": it must be known beforehand",
            ),
            ("rate(cpu)", "at 1:6: `rate` looks at the past: rate(input.path, \"5m\")"),
            ("rate()", "at 1:1: it is written rate(input.path, \"5m\")"),
            ("mean()", "at 1:1: it is written mean(input.path, \"5m\")"),
            ("mean([1], '5m')", "at 1:6: expected an input, or an input and a path like cpu.usageFraction"),
            (
                "[cpu].map(x, mean(x, '5m'))",
                "at 1:19: expected an input, or an input and a path like cpu.usageFraction",
            ),
            ("age(1)", "at 1:5: expected an input, or an input and a path like cpu.usageFraction"),
            ("age()", "at 1:1: `age` takes one argument, not 0"),
            ("total(cpu, 1)", "at 1:1: `total` takes one argument, not 2"),
            ("input(cpu)", "at 1:7: the name of the input is written out: input(\"a-b\")"),
            ("input('')", "at 1:7: the name of the input is written out: input(\"a-b\")"),
            ("node(1)", "at 1:6: expected `)`, not the number 1"),
        ],
    );
}

#[test]
fn values_that_do_not_go_together() {
    check(
        &World::new(),
        &[
            ("1 - cpu.count / 0", "at 1:15: cannot divide by 0"),
            ("1 % 0", "at 1:3: there is no remainder of a division by 0"),
            ("1e308 * 10", "at 1:7: the result is too large a number"),
            ("-1e308 - 1e308", "at 1:8: the result is too large a number"),
            ("sqrt(-1)", "at 1:1: there is no square root of -1"),
            ("ln(0)", "at 1:1: there is no logarithm of 0"),
            ("exp(1000)", "at 1:1: the result is too large a number"),
            ("pow(-1, 0.5)", "at 1:1: the result is not a number"),
            ("clamp(1, 2, 1)", "at 1:1: no number is at least 2 and at most 1"),
            ("min([])", "at 1:1: there is no min of an empty list"),
            ("mean([])", "at 1:1: there is no mean of an empty list"),
            ("sum(['a'])", "at 1:5: sum takes numbers, not a string"),
            ("max('a', 1)", "at 1:5: max takes a number, not a string"),
            ("max('a')", "at 1:5: max takes a list of numbers, not a string"),
            ("abs('a')", "at 1:5: abs takes a number, not a string"),
            ("1 + 'a'", "at 1:3: cannot add a number and a string"),
            ("'a' - 'b'", "at 1:5: cannot subtract a string from a string"),
            ("[1] * 2", "at 1:5: cannot multiply a list by a number"),
            ("null / 2", "at 1:6: cannot divide null by a number"),
            ("{} % 2", "at 1:4: no remainder of a map by a number"),
            ("1 < 'a'", "at 1:3: cannot order a number and a string"),
            ("true < false", "at 1:6: cannot order true or false and true or false"),
            ("1 < 2 < 3", "at 1:7: cannot order true or false and a number"),
            ("1 in 2", "at 1:3: `in` looks into a list or a map, not a number"),
            ("'a' in 'abc'", "at 1:5: `in` looks into a list or a map; x.contains(y) looks into a string"),
            ("1 in {}", "at 1:3: a key is a string, not a number"),
            ("-'a'", "at 1:2: `-` takes a number, not a string"),
            ("!1", "at 1:2: `!` takes true or false, not a number"),
            ("1 && true", "at 1:1: `&&` takes true or false, not a number"),
            ("false || 'a'", "at 1:10: `||` takes true or false, not a string"),
            ("1 ? 2 : 3", "at 1:1: `?` takes true or false, not a number"),
            ("1 / 0 > 1 || false", "at 1:3: cannot divide by 0"),
            ("1 / 0 > 1 || 'a' > 1", "at 1:3: cannot divide by 0"),
            (
                "cpu.usage",
                "at 1:5: no \"usage\": there are \"usageFraction\", \"freeFraction\", \"count\", \"model\", \"iowaitPerSecond\" and 1 more",
            ),
            ("{}.a", "at 1:4: no \"a\": it is empty"),
            ("load['two']", "at 1:6: no \"two\": there is \"one\""),
            ("number.a", "at 1:8: a number has no fields: no \"a\""),
            ("number[0]", "at 1:8: a number has nothing in it to index"),
            ("rows.rows[3]", "at 1:11: index 3 is out of range: the list has 3"),
            ("rows.rows[0.5]", "at 1:11: the index of a list is a whole number from 0, not 0.5"),
            ("rows.rows[-1]", "at 1:11: the index of a list is a whole number from 0, not -1"),
            ("rows.rows['a']", "at 1:11: the index of a list is a number, not a string"),
            ("cpu.cores[0]", "at 1:11: the keys of a map are strings: write [\"0\"]"),
            ("cpu[true]", "at 1:5: the key of a map is a string, not true or false"),
            (
                "has(cpu.a.b)",
                "at 1:9: no \"a\": there are \"usageFraction\", \"freeFraction\", \"count\", \"model\", \"iowaitPerSecond\" and 1 more",
            ),
            ("has(number.a)", "at 1:12: a number has no fields"),
            ("{'a': 1, 'a': 2}", "at 1:1: the key \"a\" is there twice"),
            ("{number: 1}", "at 1:2: the key of a map is a string, not a number"),
            ("[1, 2].all(x, x)", "at 1:15: the condition takes true or false, not a number"),
            ("[0, 1].all(x, 1 / x > 0)", "at 1:17: cannot divide by 0"),
            ("[0, 1].exists_one(x, 1 / x > 0)", "at 1:24: cannot divide by 0"),
            ("number.map(x, x)", "at 1:8: this goes through a list or a map, not a number"),
            ("[1].transformMap(k, v, v)", "at 1:5: `transformMap` goes through a map: a list has no keys"),
            ("size(1)", "at 1:6: size takes a string, a list or a map, not a number"),
            ("double('x')", "at 1:8: \"x\" is not a number"),
            ("double('inf')", "at 1:8: \"inf\" is not a number"),
            ("bool('yes')", "at 1:6: \"yes\" is neither \"true\" nor \"false\""),
            ("string([])", "at 1:8: string takes a number, a truth or a string, not a list"),
            ("'a'.contains(1)", "at 1:14: contains takes strings, not a number"),
            ("params.none", "at 1:1: no parameter \"none\""),
            ("1 +\n  stopped", "at 2:3: stopped has no value yet"),
        ],
    );
}

#[test]
fn an_error_shows_its_place() {
    let source = "1 +\n  2 / 0";
    let error = Expression::parse(source).unwrap().evaluate(&World::new(), Budget::default()).unwrap_err();
    assert_eq!(error.pointed(source), "at 2:5: cannot divide by 0\n    2 / 0\n      ^");
    assert_eq!(error.kind, ErrorKind::Failed);
    assert_eq!(Expression::parse("1 +").unwrap_err().kind, ErrorKind::Syntax);
}

#[test]
fn a_missing_value_is_no_failure() {
    let missing = |source: &str| {
        Expression::parse(source).unwrap().evaluate(&World::new(), Budget::default()).unwrap_err().kind
    };
    for (source, input) in [
        ("stopped", "stopped"),
        ("1 + stopped.a.b", "stopped"),
        ("age(stopped)", "stopped"),
        ("mean(stopped, '5m')", "stopped"),
        ("total(stopped.x)", "stopped"),
        ("input('a-b').c", "a-b"),
        ("stopped > 1 || 1 / 0 > 1", "stopped"),
    ] {
        assert_eq!(missing(source), ErrorKind::Missing { input: input.to_owned() }, "{source}");
    }
}

#[test]
fn a_message_is_one_short_line_for_any_name() {
    let long = "x".repeat(2_000);
    let sources = [
        format!("input(\"{long}\")"),
        format!("{long} + 1"),
        r#"age(input("a\nb"))"#.to_owned(),
        r#"rate(input("a\u0085b"), "1h")"#.to_owned(),
        format!("mean(cpu.{long}.y, \"5m\")"),
        format!("total(cpu{})", "[1e308]".repeat(500)),
        "[1][1e308]".to_owned(),
        "{'a': 1}[1e308]".to_owned(),
        "1 1e308".to_owned(),
    ];
    for source in sources {
        let evaluated = Expression::parse(&source)
            .and_then(|expression| expression.evaluate(&World::new(), Budget::default()).map(drop));
        let message = evaluated.unwrap_err().message;
        assert!(!message.contains(char::is_control) && message.chars().count() < 200, "{message:?}");
    }
}
