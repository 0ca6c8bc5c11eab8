//! The dialect `nodes`: the values are those of the object that `json` sees.

#![no_main]

use estimand_api::registration::Format;
use estimand_dialects::Answer;
use estimand_fuzz::dialects::{feed, read_whole};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    feed(Format::Nodes, data);
    let Ok(Answer::PerNode(values)) = read_whole(Format::Nodes, data).map(|reading| reading.answer) else {
        return;
    };
    let members: Vec<String> = values.iter().map(|(node, json)| format!("\"{node}\":{json}")).collect();
    let object = format!("{{{}}}", members.join(","));
    let whole = read_whole(Format::Json, object.as_bytes()).map(|reading| reading.answer);
    assert_eq!(whole, Ok(Answer::One(object.into())));
});
