//! The past of an input on one node: of each part that a formula looks at the numbers, and no more.
//!
//! Memory is bounded, of one part and of all together. What goes beyond is forgotten; until the window has passed again,
//! whoever asks for it is told so instead of being shown a part of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use estimand_expressions::{Past, PastPart};
use serde_json::Value;

/// The most of one part that is kept.
const MAX_SAMPLES: usize = 4_096;
/// The most memory that one part of an input takes on one node.
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;
/// The most that the past of all inputs on all nodes takes.
const MAX_PAST_BYTES: usize = 128 * 1024 * 1024;
const MEBIBYTE: usize = 1024 * 1024;

/// The memory that all pasts take; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct PastBytes(Arc<AtomicUsize>);

/// The past of one input on one node.
#[derive(Debug, Default)]
pub struct FactPast(BTreeMap<PastPart, Series>);

/// The past of one part of it, oldest first, the latest included.
#[derive(Debug)]
struct Series {
    samples: VecDeque<(i64, Sample)>,
    bytes: usize,
    all: PastBytes,
    /// When it last took too much memory, and which bound that was.
    overflow: Option<(i64, Bound)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    OnePart,
    AllInputs,
}

#[derive(Debug)]
enum Sample {
    Number(f64),
    Null,
    /// There is something, which is no number.
    Something,
    Whole(Box<Value>),
}

impl Sample {
    fn of(part: &PastPart, found: &Value) -> Self {
        match found {
            found if !part.is_number => Sample::Whole(Box::new(found.clone())),
            Value::Null => Sample::Null,
            found => found.as_f64().map_or(Sample::Something, Sample::Number),
        }
    }

    fn value(&self) -> Cow<'_, Value> {
        match self {
            Sample::Number(number) => Cow::Owned(Value::from(*number)),
            Sample::Null => Cow::Owned(Value::Null),
            Sample::Something => Cow::Owned(Value::Bool(true)),
            Sample::Whole(value) => Cow::Borrowed(value),
        }
    }

    fn bytes(&self) -> usize {
        let beside = if let Sample::Whole(value) = self { weight(value) } else { 0 };
        size_of::<(i64, Sample)>() + beside
    }
}

/// Roughly how much memory a parsed value takes.
fn weight(value: &Value) -> usize {
    const KEY: usize = size_of::<String>() + 2 * size_of::<usize>();
    let within = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| KEY + key.len() + weight(value)).sum(),
        _ => 0,
    };
    size_of::<Value>() + within
}

impl FactPast {
    /// Keeps the parts that are looked at, and adds a value to each unless it is older than the last one: the order is
    /// that of collection, which deliveries need not keep.
    pub fn remember(&mut self, past: Option<&Past>, at: i64, value: &Value, all: &PastBytes) {
        let Some(past) = past else { return self.0.clear() };
        self.0.retain(|part, _| past.parts.contains(part));
        let window = i64::try_from(past.window.as_micros()).unwrap_or(i64::MAX);
        for part in &past.parts {
            let series = self.0.entry(part.clone()).or_insert_with(|| Series::new(all));
            if series.samples.back().is_none_or(|(last, _)| *last < at)
                && let Some(found) = part.of(value)
            {
                series.push(at, Sample::of(part, found));
            }
            series.forget(at.saturating_sub(window));
        }
    }

    /// Puts kept history of a part before what is known already.
    pub fn recall(&mut self, part: &PastPart, mut older: Vec<(i64, Value)>) {
        let Some(series) = self.0.get_mut(part) else { return };
        let first = series.samples.front().map_or(i64::MAX, |(at, _)| *at);
        older.retain(|(at, _)| *at < first);
        older.sort_by_key(|(at, _)| *at);
        let room = MAX_SAMPLES.saturating_sub(series.samples.len());
        for (at, value) in older.into_iter().rev().take(room) {
            series.push_front(at, Sample::of(part, &value));
        }
    }

    /// The samples of a part since an instant. The error says why they are not known.
    pub fn since(
        &self,
        input: &str,
        part: &PastPart,
        oldest: i64,
    ) -> Result<impl Iterator<Item = (i64, Cow<'_, Value>)>, String> {
        let series = self.0.get(part);
        if let Some((at, bound)) = series.and_then(|series| series.overflow)
            && at >= oldest
        {
            return Err(bound.exceeded_by(input));
        }
        let samples = series.into_iter().flat_map(|series| &series.samples);
        Ok(samples.filter(move |(at, _)| *at >= oldest).map(|(at, sample)| (*at, sample.value())))
    }
}

impl Bound {
    fn exceeded_by(self, input: &str) -> String {
        let (bytes, of) = match self {
            Bound::OnePart => (MAX_PART_BYTES, "one input on one node"),
            Bound::AllInputs => (MAX_PAST_BYTES, "all inputs"),
        };
        format!(
            "the past of `{input}` takes too much memory: at most {} MiB of {of} are kept; use a shorter window, or \
             look at a number in the value",
            bytes / MEBIBYTE
        )
    }
}

impl Series {
    fn new(all: &PastBytes) -> Self {
        Series { samples: VecDeque::new(), bytes: 0, all: all.clone(), overflow: None }
    }

    fn push(&mut self, at: i64, sample: Sample) {
        if let Some(bound) = self.exceeded_with(sample.bytes()) {
            self.clear();
            self.overflow = Some((at, bound));
        } else {
            self.count(sample.bytes());
            self.samples.push_back((at, sample));
        }
    }

    /// A history that is too long is cut.
    fn push_front(&mut self, at: i64, sample: Sample) {
        if self.exceeded_with(sample.bytes()).is_none() {
            self.count(sample.bytes());
            self.samples.push_front((at, sample));
        }
    }

    fn exceeded_with(&self, more: usize) -> Option<Bound> {
        if self.bytes + more > MAX_PART_BYTES {
            return Some(Bound::OnePart);
        }
        (self.all.0.load(Ordering::Relaxed) + more > MAX_PAST_BYTES).then_some(Bound::AllInputs)
    }

    fn count(&mut self, more: usize) {
        self.bytes += more;
        self.all.0.fetch_add(more, Ordering::Relaxed);
    }

    fn forget(&mut self, oldest: i64) {
        while self.samples.len() > MAX_SAMPLES || self.samples.front().is_some_and(|(at, _)| *at < oldest) {
            let Some((_, sample)) = self.samples.pop_front() else { break };
            self.bytes -= sample.bytes();
            self.all.0.fetch_sub(sample.bytes(), Ordering::Relaxed);
        }
    }

    fn clear(&mut self) {
        self.all.0.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        self.samples = VecDeque::new();
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn number() -> PastPart {
        PastPart { fields: vec!["a".to_owned()], is_number: true }
    }

    fn looked_at(seconds: u64, part: PastPart) -> Past {
        Past { window: Duration::from_secs(seconds), parts: [part].into() }
    }

    fn seen(past: &FactPast, part: &PastPart, oldest: i64) -> Result<Vec<Value>, String> {
        Ok(past.since("x", part, oldest)?.map(|(_, value)| value.into_owned()).collect())
    }

    #[test]
    fn of_a_large_value_the_number_is_kept() {
        let (all, mut fact) = (PastBytes::default(), FactPast::default());
        let past = looked_at(3_600, number());
        for at in 0..1_000 {
            fact.remember(Some(&past), at, &json!({"a": at, "filler": "x".repeat(60_000)}), &all);
        }
        fact.remember(Some(&past), 1_000, &json!({"a": "text"}), &all);
        fact.remember(Some(&past), 1_001, &json!({"a": null}), &all);
        fact.remember(Some(&past), 1_002, &json!({"b": 1}), &all);
        assert_eq!(seen(&fact, &number(), 999).unwrap(), [json!(999.0), json!(true), json!(null)]);
        assert!(all.0.load(Ordering::Relaxed) < 64 * 1024, "{all:?}");
        fact.remember(None, 1_003, &json!(1), &all);
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_window_that_is_too_large_says_so_until_it_has_passed() {
        let (all, mut fact) = (PastBytes::default(), FactPast::default());
        let past = looked_at(10, PastPart::whole());
        let large = json!("x".repeat(MAX_PART_BYTES / 4));
        for second in 0..5 {
            fact.remember(Some(&past), second * 1_000_000, &large, &all);
        }
        let reason = seen(&fact, &PastPart::whole(), 0).unwrap_err();
        assert!(reason.contains("4 MiB") && reason.contains("`x`"), "{reason}");
        assert!(all.0.load(Ordering::Relaxed) < MAX_PART_BYTES);
        fact.remember(Some(&past), 9_000_000, &json!(1), &all);
        assert_eq!(seen(&fact, &PastPart::whole(), 5_000_000).unwrap(), [json!(1)]);
    }

    #[test]
    fn all_windows_together_are_bounded() {
        let all = PastBytes::default();
        let past = looked_at(10, PastPart::whole());
        let large = json!("x".repeat(MAX_PART_BYTES / 2));
        let remember = |_| {
            let mut fact = FactPast::default();
            fact.remember(Some(&past), 0, &large, &all);
            fact
        };
        let facts: Vec<FactPast> = (0..2 * MAX_PAST_BYTES / MAX_PART_BYTES).map(remember).collect();
        let reason = seen(facts.last().unwrap(), &PastPart::whole(), 0).unwrap_err();
        assert!(reason.contains("128 MiB"), "{reason}");
        assert!(all.0.load(Ordering::Relaxed) <= MAX_PAST_BYTES);
        drop(facts);
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }
}
