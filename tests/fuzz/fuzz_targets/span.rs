//! Lengths of time, as text and as JSON: what one displays as reads back as the same.

#![no_main]

use estimand_api::duration::Span;
use estimand_fuzz::{assert_line, text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(text) = text(data) else { return };
    let spans = [
        Span::parse(text).map_err(|error| assert_line(&error.to_string())),
        serde_json::from_str::<Span>(text).map_err(|error| assert_line(&error.to_string())),
    ];
    for span in spans.into_iter().flatten() {
        assert!(span <= Span::MAX);
        assert_eq!(Span::parse(&span.to_string()), Ok(span));
        assert_eq!(Span::from_micros(span.as_micros()), Ok(span));
        assert_eq!(serde_json::to_string(&span).ok(), Some(format!("\"{span}\"")));
    }
});
