//! A node's part of a job, as the scheduler writes it: `{"images":["a.jpg",…],"revision":3}`.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

/// Of the reason why something is no part, which may quote it.
const MAX_REASON_CHARS: usize = 300;

/// The images that a node is to classify, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub images: Vec<String>,
    /// The scheduler's number of this version of the part; it comes back in every line of progress.
    pub revision: u64,
}

impl Part {
    /// An image that is named twice is in it once.
    pub fn read(value: &Value) -> Result<Self, String> {
        let mut part = Part::deserialize(value)
            .map_err(|error| format!(r#"the part is not {{"images":[…],"revision":n}}: {error}"#))
            .map_err(|reason| reason.chars().take(MAX_REASON_CHARS).collect::<String>())?;
        let mut known = HashSet::new();
        part.images.retain(|image| known.insert(image.clone()));
        Ok(part)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_keeps_its_order_and_has_each_image_once() {
        let part = Part::read(&json!({ "images": ["b", "a", "b"], "revision": 2 })).unwrap();
        assert_eq!(part, Part { images: vec!["b".into(), "a".into()], revision: 2 });
    }

    #[test]
    fn an_invalid_part_is_rejected_with_a_reason() {
        for wrong in [json!([]), json!({ "images": ["a"] }), json!({ "images": [1], "revision": 1 })] {
            let error = Part::read(&wrong).unwrap_err();
            assert!(error.starts_with(r#"the part is not {"images":"#), "{error}");
        }
    }
}
