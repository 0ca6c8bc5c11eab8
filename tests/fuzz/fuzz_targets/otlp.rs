//! Metrics of OpenTelemetry in both encodings: `Encoding::decode`, `Encoding::size`, `values`.

#![no_main]

use estimand_fuzz::{assert_short, assert_value};
use estimand_otlp::values::{Settings, values};
use estimand_otlp::{Encoding, Message};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let settings = Settings { series_attributes: vec!["k".to_owned()], ..Settings::default() };
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let size = encoding.size(data);
        let request = match encoding.decode(data) {
            Ok(request) => request,
            Err(error) => {
                assert_short(&error.to_string());
                continue;
            }
        };
        assert!(size > 0 || request.resource_metrics.is_empty(), "messages that take no memory");
        // It means the same when it is written again.
        let again = Encoding::Protobuf.decode(&request.encode_to_vec()).map(|again| again.encode_to_vec());
        assert_eq!(again.ok(), Some(request.encode_to_vec()));
        let found = values(request, &settings).expect("so little is within all bounds");
        for value in &found.values {
            assert_value(&value.text);
        }
        assert_eq!(found.rejected.sentence().is_some(), found.rejected.points > 0);
    }
});
