#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Parses, matches against labels written as `k=v k=v`, and expects the canonical text.
fn check(selector: &str, labels: &str, matches: bool, canonical: &str) {
    let selector = Selector::parse(selector).unwrap();
    let labels = labels.split_whitespace().map(|label| label.split_once('=').unwrap());
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    assert_eq!(selector.matches(&labels), matches, "{selector} {labels:?}");
    assert_eq!(selector.to_string(), canonical);
}

#[test]
fn each_kind_of_requirement() {
    check("", "", true, "");
    check("  ", "a=1", true, "");
    check("a=1", "a=1 b=2", true, "a=1");
    check("a = 1", "a=2", false, "a=1");
    check("a==1", "", false, "a=1");
    check("a=", "a=", true, "a=");
    check("a=", "", false, "a=");
    check("a!=1", "a=1", false, "a!=1");
    check("a != 1", "a=2", true, "a!=1");
    check("a!=1", "", true, "a!=1");
    check("a in (y, x,x)", "a=x", true, "a in (x,y)");
    check("a in(x)", "a=z", false, "a in (x)");
    check("a in (x)", "", false, "a in (x)");
    check("a in (,)", "a=", true, "a in (,)");
    check("a in (x,)", "a=", true, "a in (,x)");
    check("a notin (x,y)", "a=x", false, "a notin (x,y)");
    check("a notin (x,y)", "a=z", true, "a notin (x,y)");
    check("a notin (x)", "", true, "a notin (x)");
    check("a", "a=", true, "a");
    check("a", "b=1", false, "a");
    check("!a", "a=1", false, "!a");
    check("! a", "b=1", true, "!a");
}

#[test]
fn all_requirements_must_hold_and_key_words_can_be_keys() {
    check("a=1 , !c,b in (2)", "a=1 b=2", true, "a=1,!c,b in (2)");
    check("a=1,b=2", "a=1 b=3", false, "a=1,b=2");
    check("in in (in)", "in=in", true, "in in (in)");
    check("notin,in=x", "notin=1 in=x", true, "notin,in=x");
    check("node.io/zone-1=a_b", "node.io/zone-1=a_b", true, "node.io/zone-1=a_b");
}

#[test]
fn errors_point_at_the_place() {
    let check = |text: &str, start: &str| {
        let error = Selector::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text}: {error}");
    };
    check(",", "at character 1: found `,`; expected a label key");
    check("a=b,,c", "at character 5: found `,`; expected a label key");
    check("a=b, ", "at character 6: found the end; expected a label key");
    check("a b", "at character 3: found `b`; expected `=`, `!=`");
    check("a index (b)", "at character 3: found `index`; expected `=`");
    check("ü=1", "at character 1: found `ü`; expected a label key");
    check("a=ü", "at character 3: found `ü`; expected a label value");
    check("a=b/c", "at character 4: found `/c`; expected `,`");
    check("a in b", "at character 6: found `b`; expected `(`");
    check("a in ()", "at character 7: found `)`; expected at least one value");
    check("a in (b", "at character 8: found the end; expected `,` and another value");
    check("!!a", "at character 2: found `!`; expected a label key");
    check("a===b", "at character 4: found `=`; expected a label value");
    check("-a", "at character 1: found `-a`; expected a label key");
    check(&format!("a={}", "v".repeat(254)), "at character 3: found `vvvv");
    check(&"k".repeat(64), "at character 1: found `kkkk");
    check(&"a,".repeat(33), "the selector has more than 32");
    // Displayed with a space before each parenthesis, this would be too long to be read again.
    let item = format!("{} in({})", "k".repeat(60), "v".repeat(36));
    check(&vec![item; 10].join(","), "the selector has 1029 bytes");
    check(&" ".repeat(1025), "the selector has 1025 bytes");
}

fn any_requirement() -> impl Strategy<Value = Requirement> {
    let value = || "[A-Za-z0-9._-]{0,8}";
    let values = || prop::collection::btree_set(value(), 1..4);
    let condition = prop_oneof![
        Just(Condition::Exists),
        Just(Condition::Absent),
        value().prop_map(Condition::Is),
        value().prop_map(Condition::IsNot),
        values().prop_map(Condition::In),
        values().prop_map(Condition::NotIn),
    ];
    let key = prop_oneof!["[A-Za-z0-9][A-Za-z0-9._/-]{0,8}", Just("in".to_owned()), Just("notin".to_owned())];
    (key, condition).prop_map(|(key, condition)| Requirement { key, condition })
}

proptest! {
    #[test]
    fn texts_of_the_pattern_are_read(text in &PATTERN[1..PATTERN.len() - 1]) {
        let read = Selector::parse(&text);
        prop_assert!(matches!(read, Ok(_) | Err(SelectorError::TooLong { .. })), "{text}: {read:?}");
    }

    #[test]
    fn a_displayed_selector_parses_to_the_same(requirements in prop::collection::vec(any_requirement(), 0..12)) {
        let selector = Selector { requirements };
        prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[a(),!= in\u{a0}ü\n-]{0,24}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
