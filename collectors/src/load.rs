//! `load`: the number of threads that wanted to run, on average over one, five and fifteen minutes.
//!
//! From `/proc/loadavg`; the averages for each processor, from the list of those that are on line.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Params, Reading, Roots, Surroundings, figures,
    files,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "load",
    about: "how many wanted to run: load averages over 1, 5 and 15 minutes",
    params: &[],
    default: Some(DefaultRegistration { every: 5.0, once: false }),
    make,
};

fn make(_: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    Ok(Box::new(Load(around.roots.clone())))
}

struct Load(Roots);

impl Collector for Load {
    fn collect(&mut self, _: Instant) -> Result<Reading, Failure> {
        let text = files::text(&self.0.proc.join("loadavg"))?;
        let online = files::optional(&self.0.sys.join("devices/system/cpu/online"));
        let cores = online.and_then(|online| files::count_of_list(&online)).filter(|cores| *cores > 0);
        let load =
            parse(&text).ok_or_else(|| Failure::Failed(format!("/proc/loadavg is {:?}", text.trim())))?;
        Ok(Reading::Here(load.value(cores)))
    }
}

#[derive(Debug, PartialEq)]
struct Load3 {
    averages: [f64; 3],
    runnable: u64,
    threads: u64,
}

impl Load3 {
    fn value(&self, cores: Option<u64>) -> Value {
        let [one, five, fifteen] = self.averages;
        let per_core = |load: f64| figures::fraction(cores.map(|cores| load / cores as f64));
        json!({
            "one": one, "five": five, "fifteen": fifteen,
            "onePerCore": per_core(one), "fivePerCore": per_core(five), "fifteenPerCore": per_core(fifteen),
            "runnable": self.runnable, "threads": self.threads,
        })
    }
}

/// `0.04 0.10 0.05 2/345 6789`.
fn parse(text: &str) -> Option<Load3> {
    let mut words = text.split_ascii_whitespace();
    let mut average =
        || words.next()?.parse().ok().filter(|average: &f64| average.is_finite() && *average >= 0.0);
    let averages = [average()?, average()?, average()?];
    let (runnable, threads) = words.next()?.split_once('/')?;
    Some(Load3 { averages, runnable: runnable.parse().ok()?, threads: threads.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn averages_come_with_those_for_each_core() {
        let load = parse("1.50 0.10 12.05 2/345 6789\n").map(|load| load.value(Some(4)));
        let expected = json!({
            "one": 1.5, "five": 0.1, "fifteen": 12.05,
            "onePerCore": 0.375, "fivePerCore": 0.025, "fifteenPerCore": 3.0125,
            "runnable": 2, "threads": 345,
        });
        assert_eq!(load, Some(expected));
        let unknown = parse("1.50 0.10 12.05 2/345 6789\n").map(|load| load.value(None));
        assert!(unknown.is_some_and(|value| value["onePerCore"].is_null()));
    }

    #[test]
    fn a_truncated_line_is_no_load() {
        for text in ["", "1.5", "1.5 0.1 12.0 2", "1.5 0.1 12.0 2/", "NaN 0 0 1/2 3", "-1 0 0 1/2 3"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,60}") {
            parse(&text);
        }
    }
}
