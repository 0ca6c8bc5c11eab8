//! Writes, alone and in batches: one that was taken and written as JSON is taken as the same, and a batch takes what a
//! single write takes.

#![no_main]

use estimand_api::write::{Content, Write};
use estimand_fuzz::{assert_refused, assert_value};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let single = Write::parse(data);
    check_batch(&Write::parse_batch(data));
    let batch = Write::parse_batch(&[b"[", data, b"]"].concat());
    check_batch(&batch);
    match single {
        Ok(write) => {
            check(&write);
            assert_eq!(batch, Ok(vec![write]));
        }
        Err(problem) => {
            assert_refused(&problem);
            // Every refusal has a reason.
            assert!(!problem.detail.contains("is not a write of a value"), "{problem:?}");
            assert!(batch.is_err() || batch.is_ok_and(|writes| writes.len() != 1));
        }
    }
});

fn check_batch(batch: &Result<Vec<Write>, estimand_api::problem::Problem>) {
    match batch {
        Ok(writes) => writes.iter().for_each(check),
        Err(problem) => assert_refused(problem),
    }
}

fn check(write: &Write) {
    if let Content::Value { text, provenance, .. } = &write.content {
        assert_value(text);
        provenance.as_deref().map(assert_value);
    }
    let mut body = Vec::new();
    write.push_json(&mut body);
    assert_eq!(Write::parse(&body).as_ref(), Ok(write));
}
