//! Label selectors: what one displays as is the same selector.

#![no_main]

use std::collections::BTreeMap;

use estimand_api::selector::{MAX_SELECTOR_BYTES, Selector};
use estimand_fuzz::{assert_line, text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(text) = text(data) else { return };
    let selector = match Selector::parse(text) {
        Ok(selector) => selector,
        Err(error) => return assert_line(&error.to_string()),
    };
    let shown = selector.to_string();
    assert!(shown.len() <= MAX_SELECTOR_BYTES);
    let again = Selector::parse(&shown);
    assert_eq!(again.as_ref(), Ok(&selector));
    assert_eq!(again.map(|again| again.to_string()).as_deref(), Ok(&*shown));
    let labels =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let nodes: [BTreeMap<String, String>; 3] =
        [labels(&[]), labels(&[("zone", "a"), ("gpu", "")]), labels(&[("zone", "b"), ("in", "in")])];
    for node in &nodes {
        assert!(selector.matches(node) || !selector.is_empty());
    }
});
