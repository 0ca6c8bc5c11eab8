//! Reading and evaluating end, on a small stack, for any text and any values.

use std::{
    thread,
    time::{Duration, Instant},
};

use estimand_expressions::{Budget, ErrorKind, Expression, MOST_NESTING, MOST_SOURCE};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::world::{World, WorldFact};

/// An eighth of what a thread usually has. Without optimization a little more than half of it is needed.
const STACK: usize = 256 * 1024;

fn on_a_small_stack<T: Send>(inner: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        thread::Builder::new().stack_size(STACK).spawn_scoped(scope, inner).unwrap().join().unwrap()
    })
}

/// Reads it, evaluates it, renders it, lets go of it; says what is wrong.
fn survive(source: &str, world: &World) -> Option<ErrorKind> {
    let expression = match Expression::parse(source) {
        Ok(expression) => expression,
        Err(error) => return Some(error.kind),
    };
    let value = match expression.evaluate(world, Budget::default()) {
        Ok(value) => value,
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1);
            assert!(error.pointed(source).ends_with('^'));
            return Some(error.kind);
        }
    };
    value.to_json().err().map(|error| error.kind)
}

/// Layers that are put around an expression again and again: before it, after it.
const LAYERS: [(&str, &str); 26] = [
    ("(", ")"),
    ("[", "]"),
    ("{'a': ", "}"),
    ("{", ": 1}"),
    ("!", ""),
    ("-", ""),
    ("- -", ""),
    ("true ? ", " : 1"),
    ("true ? 1 : ", ""),
    ("(true ? 1 : ", ")"),
    ("", " ? 1 : 2"),
    ("", ".a"),
    ("", "[0]"),
    ("words[", "]"),
    ("abs(", ")"),
    ("min(1, ", ")"),
    ("", ".size()"),
    ("", ".map(x, x)"),
    ("[1].map(x, ", ")"),
    ("[1, 2].exists(x, ", ")"),
    ("1 + ", ""),
    ("true && ", ""),
    ("1 || 1 && 1 == 1 + 1 * (", ")"),
    ("1 || 1 && 1 == 1 + 1 * -[", "].size()[0]"),
    ("known(cpu[", "])"),
    ("mean(cpu[", "], '5m')"),
];

#[test]
fn no_nesting_is_too_deep() {
    on_a_small_stack(|| {
        let world = World::new();
        for (before, after) in LAYERS {
            for count in [1, 10, 31, 32, 33, 63, 64, 65, 130, 400, 1000, 4000, 200_000] {
                for (before, after) in [(before, after), (before, ""), ("", after)] {
                    let source = before.repeat(count) + "1" + &after.repeat(count);
                    survive(&source, &world);
                }
            }
        }
    });
}

#[test]
fn as_many_levels_are_read_as_is_said() {
    for (before, after) in [("(", ")"), ("[", "]"), ("-", ""), ("abs(", ")"), ("{'a': ", "}")] {
        let read = |count| Expression::parse(&(before.repeat(count) + "number" + &after.repeat(count)));
        assert!(read(MOST_NESTING).is_ok(), "{before}");
        let error = read(MOST_NESTING + 1).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooMuch, "{before}");
        assert!(error.message.starts_with("nested too deeply"), "{before}");
    }
}

#[test]
fn a_long_flat_expression_is_read() {
    on_a_small_stack(|| {
        let world = World::new();
        for (first, more) in [
            ("1", " + 1"),
            ("true", " && true"),
            ("1 == 1", " == true"),
            ("cpu", ".a"),
            ("cpu", "[0]"),
            ("", "true ? 1 : "),
            ("'a'", " + 'a'"),
        ] {
            let mut source = first.to_owned();
            while source.len() + more.len() < MOST_SOURCE {
                source += more;
            }
            source += if first.is_empty() { "1" } else { "" };
            assert!(Expression::parse(&source).is_ok(), "{more}");
            assert_ne!(survive(&source, &world), Some(ErrorKind::TooMuch), "{more}");
        }
    });
}

#[test]
fn a_text_of_a_megabyte_is_refused_as_too_long() {
    for source in ["a".repeat(1 << 20), "(".repeat(1 << 20), " ".repeat(MOST_SOURCE + 1)] {
        let error = Expression::parse(&source).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooMuch);
        assert_eq!((error.line, error.column), (1, 1));
    }
    assert!(Expression::parse(&(" ".repeat(MOST_SOURCE - 1) + "1")).is_ok());
}

/// Expressions that go through many elements, or make much of little.
const HEAVY: [&str; 12] = [
    "big.all(a, big.all(b, big.all(c, a + b + c >= 0)))",
    "big.map(a, big.map(b, big.map(c, a)))",
    "big.map(a, big) == big.map(b, big)",
    "big.exists(a, big.exists(b, 1 / 0 > 1))",
    "big.map(a, big.exists(b, b.none > 1) || true)",
    "big.map(a, long + long)",
    "big.filter(a, long.contains('b'))",
    "big.map(a, [a] + big + big)",
    "big.map(a, big in [[], words, big])",
    "big.map(a, sum(big))",
    "big.transformList(i, a, {long: {long: i}})",
    "big.map(a, {long + string(a): a}[long] == 1 || true)",
];

fn heavy_world() -> World {
    let mut world = World::new();
    let big: Vec<u32> = (0..10_000).collect();
    for (name, value) in [("big", json!(big)), ("long", json!("a".repeat(60_000)))] {
        world.facts.insert(name.to_owned(), WorldFact { value, age: 0.0, state: "fresh" });
    }
    world
}

#[test]
fn a_budget_ends_an_endless_evaluation() {
    let world = heavy_world();
    for source in HEAVY {
        let (begun, expression) = (Instant::now(), Expression::parse(source).unwrap());
        let error = expression.evaluate(&world, Budget::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooMuch, "{source}: {error}");
        // Milliseconds, if the machine has nothing else to do.
        assert!(begun.elapsed() < Duration::from_secs(60), "{source}");
    }
}

#[test]
fn a_spent_budget_is_made_up_for_by_nothing() {
    let (world, budget) = (heavy_world(), Budget { steps: 50, bytes: 1000 });
    for source in ["big.all(a, a >= 0) || true", "true && [1].exists(x, big.all(a, a >= 0) || true)"] {
        let error = Expression::parse(source).unwrap().evaluate(&world, budget).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooMuch, "{source}");
    }
}

#[test]
fn results_are_bounded_even_where_they_share() {
    let doubled = ".map(x, [x, x])".repeat(24);
    let world = World::new();
    let source = format!("[words]{doubled}");
    let expression = Expression::parse(&source).unwrap();
    let value = expression.evaluate(&world, Budget::default()).unwrap();
    let error = value.to_json().unwrap_err();
    assert_eq!(error.to_string(), "at 1:1: the result is larger than 64 KiB or nested too deeply");
    assert_eq!(survive(&format!("{source} == {source}"), &world), Some(ErrorKind::TooMuch));

    let text = |length: usize| {
        let mut world = World::new();
        let value = json!("\n".repeat(length));
        world.facts.insert("t".to_owned(), WorldFact { value, age: 0.0, state: "fresh" });
        survive("[t]", &world)
    };
    // Two a letter, with two quotes, two brackets and a comma that may follow.
    assert_eq!(text((64 * 1024 - 6) / 2), None);
    assert_eq!(text((64 * 1024 - 4) / 2), Some(ErrorKind::TooMuch));
}

#[test]
fn values_may_be_nested_deeper_than_any_expression() {
    let nest = |depth| (0..depth).fold(json!(1), |inner, _| json!({"a": [inner]}));
    let mut world = World::new();
    for name in ["deep", "deep2"] {
        world.facts.insert(name.to_owned(), WorldFact { value: nest(300), age: 0.0, state: "fresh" });
    }
    let world = &world;
    on_a_small_stack(|| {
        for source in ["deep", "deep == deep2", "deep in [deep2]", "[deep] == [deep2]", "{'a': deep}"] {
            assert_eq!(survive(source, world), Some(ErrorKind::TooMuch), "{source}");
        }
        assert_eq!(survive("deep != 1 && has(deep.a[0].a)", world), None);
    });
}

#[test]
fn results_nest_as_deep_as_values_may() {
    let mut world = World::new();
    for (name, depth) in [("most", 64), ("inner", 63)] {
        let value = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        world.facts.insert(name.to_owned(), WorldFact { value, age: 0.0, state: "fresh" });
    }
    for source in ["most", "[inner]", "{'a': inner}", "inner.map(x, x)", "{'a': {'b': most[0][0]}}"] {
        assert_eq!(survive(source, &world), None, "{source}");
    }
    for source in ["[most]", "{'a': most}", "[[inner]]", "inner.map(x, [[x]])", "[{'a': most[0]}]"] {
        assert_eq!(survive(source, &world), Some(ErrorKind::TooMuch), "{source}");
    }
}

const TOKENS: [&str; 60] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "true",
    "false",
    "null",
    "1",
    "0.5",
    "1e308",
    "'a'",
    "'5m'",
    "r'\\'",
    "\"",
    "cpu",
    "words",
    "rows",
    "params",
    "params.low",
    "stopped",
    "has(",
    "input(",
    "mean(",
    "rate(",
    "total(",
    "across(",
    "age(",
    "known(",
    ".map(x,",
    ".all(x,",
    ".transformMap(k, v,",
    ".a",
    ".size()",
    "size(",
    "clamp(",
    "max(",
    "x",
    " ",
    "//\n",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn any_text_is_read_or_refused(source in any::<String>()) {
        survive(&source, &World::new());
    }

    #[test]
    fn any_letters_of_the_language_are_read_or_refused(source in "[-a-cé0-9xeu.'\"\\\\(){}\\[\\]?:,!&|=<>+*/%\n ]{0,60}") {
        survive(&source, &World::new());
    }

    #[test]
    fn any_tokens_are_read_or_refused(tokens in proptest::collection::vec(proptest::sample::select(TOKENS.to_vec()), 0..40)) {
        survive(&tokens.concat(), &World::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_layers_are_survived(layers in proptest::collection::vec(proptest::sample::select(LAYERS.to_vec()), 0..80)) {
        on_a_small_stack(|| {
            let wrapped = |source: String, (before, after): &(&str, &str)| format!("{before}{source}{after}");
            survive(&layers.iter().fold("words".to_owned(), wrapped), &World::new());
        });
    }

    /// Comprehensions within each other over long lists, of all kinds.
    #[test]
    fn nested_comprehensions_end(kinds in proptest::collection::vec((0..8_usize, 0..5_usize), 1..6)) {
        let mut body = "v".to_owned();
        for (kind, over) in kinds {
            let over = ["big", "big.map(v, [v, v])", "words", "[big, big]", "{'a': big}"][over];
            body = match kind {
                0 => format!("{over}.map(v, {body})"),
                1 => format!("{over}.filter(v, {body} != null)"),
                2 => format!("{over}.all(v, {body} != null)"),
                3 => format!("{over}.exists(v, {body} == null)"),
                4 => format!("{over}.exists_one(v, {body} in [1])"),
                5 => format!("{over}.transformList(k, v, {body})"),
                6 => format!("{over}.transformMap(k, v, {body})"),
                _ => format!("size({over}.map(v, {body}) + {over})"),
            };
        }
        let begun = Instant::now();
        let mut world = heavy_world();
        world.facts.insert("v".to_owned(), WorldFact { value: Json::Null, age: 0.0, state: "fresh" });
        survive(&body, &world);
        prop_assert!(begun.elapsed() < Duration::from_secs(60), "{body}");
    }
}
