//! The names of data and of nodes, against their rules as the documentation has them.

#![no_main]

use estimand_api::names::{DataName, NodeName};
use estimand_fuzz::{assert_line, text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(text) = text(data) else { return };
    let keeps_to = |others: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
    let is_data = text.len() <= 128
        && keeps_to("_.:-")
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_node = (1..=253).contains(&text.len()) && keeps_to("._-");
    match DataName::parse(text) {
        Ok(name) => assert!(is_data && name.as_str() == text),
        Err(error) => {
            assert!(!is_data);
            assert_line(&error.to_string());
        }
    }
    match NodeName::parse(text) {
        Ok(name) => assert!(is_node && name.as_str() == text),
        Err(error) => {
            assert!(!is_node);
            assert_line(&error.to_string());
        }
    }
});
