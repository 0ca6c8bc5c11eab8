//! Side by side with the `cel` crate, over random expressions of what both languages have: doubles, strings,
//! truths, lists, and the comprehensions.
//!
//! An expression that has a value here has the same value there. One that is wrong here is wrong there, too,
//! but for numbers: there `1.0 / 0.0` is infinite, here it is an error.

use cel::{Context, Program, Value as Cel};
use estimand_expressions::{Budget, Expression};
use proptest::{
    prelude::*,
    strategy::Union,
    test_runner::{TestCaseError, TestRunner},
};
use serde_json::{Value as Json, json};

use crate::world::{World, WorldFact};

/// Its square is infinite.
const LARGE: &str = "1e200";

/// Texts of expressions of one height, by what they should be.
#[derive(Clone)]
struct Level {
    number: BoxedStrategy<String>,
    truth: BoxedStrategy<String>,
    text: BoxedStrategy<String>,
    list: BoxedStrategy<String>,
}

fn of(texts: &[&'static str]) -> BoxedStrategy<String> {
    proptest::sample::select(texts.to_vec()).prop_map(str::to_owned).boxed()
}

/// Fills the holes of a form: `#` a number, `?` a truth, `$` a string, `@` a list, `~` any of them.
fn form(form: &'static str, below: &Level) -> BoxedStrategy<String> {
    let any =
        Union::new([&below.number, &below.truth, &below.text, &below.list].map(BoxedStrategy::clone)).boxed();
    form.chars().fold(Just(String::new()).boxed(), |before, letter| {
        let hole = match letter {
            '#' => &below.number,
            '?' => &below.truth,
            '$' => &below.text,
            '@' => &below.list,
            '~' => &any,
            _ => {
                return before
                    .prop_map(move |mut text| {
                        text.push(letter);
                        text
                    })
                    .boxed();
            }
        };
        (before, hole.clone()).prop_map(|(before, hole)| before + &hole).boxed()
    })
}

fn forms(forms: &[&'static str], below: &Level, smaller: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    let all = forms.iter().map(|text| form(text, below)).chain([smaller.clone()]);
    Union::new(all).boxed()
}

impl Level {
    fn ground() -> Level {
        Level {
            number: of(&["0.0", "1.0", "2.5", "-3.0", LARGE, "x", "v", "m.a"]),
            truth: of(&["true", "false", "b"]),
            text: of(&["'a'", "'bc'", "''", "s"]),
            list: of(&["[]", "[1.0, 2.0, 3.0]", "l"]),
        }
    }

    fn above(&self) -> Level {
        Level {
            number: forms(
                &[
                    "(# + #)",
                    "(# - #)",
                    "(# * #)",
                    "(# / #)",
                    "-(#)",
                    "double(size(@))",
                    "double(size($))",
                    "m['a']",
                ],
                self,
                &self.number,
            ),
            truth: forms(
                &[
                    "(# < #)",
                    "(# >= #)",
                    "($ <= $)",
                    "($ > $)",
                    "(~ == ~)",
                    "(~ != ~)",
                    "(? && ?)",
                    "(? || ?)",
                    "(~ && ?)",
                    "(~ || ?)",
                    "!(?)",
                    "(# in @)",
                    "@.all(v, ?)",
                    "@.exists(v, ?)",
                    "@.exists_one(v, ?)",
                    "$.contains($)",
                    "$.startsWith($)",
                    "$.endsWith($)",
                    "has(m.a)",
                    "has(m.z)",
                    "($ in m)",
                    "(m.z > #)",
                ],
                self,
                &self.truth,
            ),
            text: forms(&["($ + $)", "($ + ~)"], self, &self.text),
            list: forms(
                &["[#, #]", "(@ + @)", "@.map(v, #)", "@.map(v, ?, #)", "@.filter(v, ?)", "m.map(v, 1.0)"],
                self,
                &self.list,
            ),
        }
        .chosen(self)
    }

    /// With conditionals, whose sign is that of a hole.
    fn chosen(self, below: &Level) -> Level {
        let either = |mine: BoxedStrategy<String>, of: &BoxedStrategy<String>| {
            let conditional = (below.truth.clone(), of.clone(), of.clone())
                .prop_map(|(condition, then, otherwise)| format!("({condition} ? {then} : {otherwise})"));
            prop_oneof![6 => mine, 1 => conditional].boxed()
        };
        Level {
            number: either(self.number, &below.number),
            truth: either(self.truth, &below.truth),
            text: either(self.text, &below.text),
            list: either(self.list, &below.list),
        }
    }
}

fn any_expression() -> impl Strategy<Value = String> {
    let top = Level::ground().above().above().above();
    prop_oneof![top.number, top.truth, top.text, top.list]
}

fn variables() -> Vec<(&'static str, Json)> {
    vec![
        ("x", json!(4.0)),
        ("v", json!(-1.5)),
        ("s", json!("bca")),
        ("b", json!(true)),
        ("l", json!([0.0, 2.5])),
        ("m", json!({"a": 7.0, "b": 8.0})),
    ]
}

fn to_cel(json: &Json) -> Cel {
    match json {
        Json::Null => Cel::Null,
        Json::Bool(truth) => Cel::Bool(*truth),
        Json::Number(number) => Cel::Float(number.as_f64().unwrap()),
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => Cel::List(items.iter().map(to_cel).collect::<Vec<_>>().into()),
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.as_str(), to_cel(value)));
            fields.collect::<std::collections::HashMap<_, _>>().into()
        }
    }
}

/// With the order of a map's keys made ours, and numbers as they are here.
fn from_cel(value: &Cel) -> Json {
    match value {
        Cel::Bool(truth) => json!(truth),
        Cel::Int(number) => json!(*number as f64),
        Cel::Float(number) => json!(number),
        Cel::String(text) => json!(**text),
        Cel::List(items) => items.iter().map(from_cel).collect(),
        other => panic!("not of the common part: {other:?}"),
    }
}

/// Whole numbers are rendered without a fraction; `==` of JSON tells them apart.
fn as_floats(json: &Json) -> Json {
    match json {
        Json::Number(number) => json!(number.as_f64().unwrap()),
        Json::Array(items) => items.iter().map(as_floats).collect(),
        other => other.clone(),
    }
}

fn same(source: &str, world: &World, context: &Context<'_, '_>) -> Result<bool, TestCaseError> {
    let Ok(ours) = Expression::parse(source) else {
        return Err(TestCaseError::fail(format!("{source} is not read")));
    };
    let theirs = Program::compile(source).unwrap().execute(context);
    match (ours.evaluate(world, Budget::default()), theirs) {
        (Ok(ours), Ok(theirs)) => {
            let ours = as_floats(&ours.to_json().unwrap());
            prop_assert_eq!(ours, from_cel(&theirs), "{}", source);
            Ok(true)
        }
        (Ok(ours), Err(theirs)) => {
            Err(TestCaseError::fail(format!("{source}\n is {ours:?} here, {theirs} there")))
        }
        (Err(_), Err(_)) => Ok(false),
        (Err(ours), Ok(theirs)) => {
            let infinite = source.contains('/') || source.contains(LARGE);
            prop_assert!(infinite, "{}\n is wrong here ({}), {:?} there", source, ours, theirs);
            Ok(false)
        }
    }
}

#[test]
fn a_value_here_is_the_same_value_there() {
    let (mut world, mut context) = (World::new(), Context::default());
    for (name, value) in variables() {
        context.add_variable_from_value(name, to_cel(&value));
        world.facts.insert(name.to_owned(), WorldFact { value, age: 0.0, state: "fresh" });
    }
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) };
    let (mut runner, valued) = (TestRunner::new(config), std::cell::Cell::new(0));
    let result = runner.run(&any_expression(), |source| {
        valued.set(valued.get() + usize::from(same(&source, &world, &context)?));
        Ok(())
    });
    if let Err(wrong) = result {
        panic!("{wrong}");
    }
    // Not a comparison of errors with errors.
    assert!(valued.get() > 2000, "only {} had a value", valued.get());
}
