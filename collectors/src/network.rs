//! `network`: bytes and packets of each interface, their rates, its state and its speed.
//!
//! From `/proc/net/dev`: totals, and the difference between two samples; state and speed from sysfs. Invariant: two
//! interfaces that swapped their names, or one that was made again under an old name, are not compared with each
//! other, so an interface is the same only if both its name and its number are.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::samples::{Samples, per_second};
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Params, Reading, Roots, Surroundings, figures,
    files,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "network",
    about: "bytes, packets, errors and drops of each network interface, whether it is up, and its speed",
    params: &[],
    default: Some(DefaultRegistration { every: 5.0, once: false }),
    make,
};

fn make(_: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    Ok(Box::new(Network { roots: around.roots.clone(), samples: Samples::new() }))
}

struct Network {
    roots: Roots,
    samples: Samples<Vec<Interface>>,
}

impl Collector for Network {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let path = files::of_machine(&self.roots, "net/dev");
        let class = self.roots.sys.join("class/net");
        let take = || {
            let mut interfaces = parse(&files::text(&path)?);
            for interface in &mut interfaces {
                interface.number = files::number(&class.join(&interface.name).join("ifindex"));
            }
            Ok(interfaces)
        };
        let entries = self.samples.compare(until, take, |pair| {
            let entry = |now: &Interface| {
                let before = pair.before.iter().find(|before| before.is_same(now));
                now.entry(before, pair.elapsed, &Link::read(&class.join(&now.name)))
            };
            pair.now.iter().map(entry).collect::<Vec<_>>()
        })?;
        if entries.is_empty() {
            return Err(Failure::NotHere("there is no network interface".to_owned()));
        }
        let (interfaces, left_out) = figures::object(entries);
        Ok(Reading::Here(json!({"interfaces": interfaces, "leftOut": left_out})))
    }
}

/// Counters of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Direction {
    bytes: u64,
    packets: u64,
    errors: u64,
    dropped: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Interface {
    name: String,
    /// Given once for each that is made, as far as sysfs tells.
    number: Option<u64>,
    received: Direction,
    sent: Direction,
}

impl Interface {
    fn is_same(&self, other: &Interface) -> bool {
        self.name == other.name && self.number == other.number
    }

    fn entry(&self, before: Option<&Interface>, elapsed: Duration, link: &Link) -> figures::Entry {
        let rate = |field: fn(&Interface) -> u64| {
            figures::rate(before.and_then(|before| per_second(field(before), field(self), elapsed)))
        };
        let value = json!({
            "rxBytesPerSecond": rate(|interface| interface.received.bytes),
            "txBytesPerSecond": rate(|interface| interface.sent.bytes),
            "rxPacketsPerSecond": rate(|interface| interface.received.packets),
            "txPacketsPerSecond": rate(|interface| interface.sent.packets),
            "rxBytes": self.received.bytes,
            "txBytes": self.sent.bytes,
            "rxPackets": self.received.packets,
            "txPackets": self.sent.packets,
            "rxErrors": self.received.errors,
            "txErrors": self.sent.errors,
            "rxDropped": self.received.dropped,
            "txDropped": self.sent.dropped,
            "up": link.up,
            "speedBitsPerSecond": link.bits_per_second,
        });
        let weight = self.received.bytes.saturating_add(self.sent.bytes);
        figures::Entry { name: self.name.clone(), weight, value }
    }
}

/// The facts of an interface in sysfs; none where it has none, or the interface just went.
#[derive(Debug, Default, PartialEq)]
struct Link {
    up: Option<bool>,
    bits_per_second: Option<u64>,
}

impl Link {
    fn read(folder: &Path) -> Link {
        let flag_up = || {
            let flags = files::optional(&folder.join("flags"))?;
            u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok().map(|flags| flags & 1 == 1)
        };
        let up = match files::optional(&folder.join("operstate")).as_deref() {
            None => None,
            Some("up") => Some(true),
            // Loops, tunnels and some virtual ones never say; there it is what the administrator set.
            Some("unknown") => flag_up(),
            Some(_) => Some(false),
        };
        // Minus one, or an error, from those that have none. Asking those that are down can take the driver long.
        let megabits = if up == Some(true) { files::number(&folder.join("speed")) } else { None };
        // A driver's "unknown" may also come as the largest number of 32 bits.
        let megabits = megabits.filter(|megabits| *megabits > 0 && *megabits < u64::from(u32::MAX));
        Link { up, bits_per_second: megabits.and_then(|megabits| megabits.checked_mul(1_000_000)) }
    }
}

/// Two lines of headings, then a name, a colon and sixteen counters; the colon may touch the first of them.
fn parse(text: &str) -> Vec<Interface> {
    files::lines(text).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Interface> {
    // A name may have colons (an alias); counters have none.
    let (name, counters) = line.rsplit_once(':')?;
    let counters: Vec<u64> = counters.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let direction = |at: usize| {
        let [bytes, packets, errors, dropped] = *counters.get(at..at + 4)? else { return None };
        Some(Direction { bytes, packets, errors, dropped })
    };
    let name = name.trim_start().to_owned();
    Some(Interface { name, number: None, received: direction(0)?, sent: direction(8)? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const CAPTURED: &str = include_str!("../fixtures/net-dev");

    fn value_of(before: &[Interface], now: &Interface) -> Value {
        let before = before.iter().find(|before| before.is_same(now));
        now.entry(before, Duration::from_millis(500), &Link::default()).value
    }

    #[test]
    fn names_end_at_the_last_colon() {
        let interfaces = parse(CAPTURED);
        let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        assert_eq!(names, ["lo", "eth0", "eth0:1", "wlx 5", "veth12ab34c"]);
        let eth0 = &interfaces[1];
        assert_eq!(eth0.received, Direction { bytes: 694_724_018, packets: 34227, errors: 1, dropped: 2 });
        assert_eq!(eth0.sent, Direction { bytes: 2_282_934, packets: 22628, errors: 3, dropped: 4 });
        assert_eq!(interfaces[4].received.bytes, u64::MAX);
    }

    #[test]
    fn rates_are_for_the_time_between() {
        let before = parse("eth0: 100 10 0 0 0 0 0 0 50 5 0 0 0 0 0 0\n");
        let now = parse("eth0: 1100 11 0 0 0 0 0 0 49 5 0 0 0 0 0 0\n");
        let value = value_of(&before, &now[0]);
        assert_eq!((&value["rxBytesPerSecond"], &value["rxPacketsPerSecond"]), (&json!(2000.0), &json!(2.0)));
        assert_eq!(
            (&value["txBytesPerSecond"], &value["txBytes"]),
            (&Value::Null, &json!(49)),
            "it went back"
        );
    }

    #[test]
    fn interfaces_that_swapped_their_names_are_not_compared() {
        let numbered = |text: &str, numbers: [u64; 2]| {
            let mut interfaces = parse(text);
            interfaces
                .iter_mut()
                .zip(numbers)
                .for_each(|(interface, number)| interface.number = Some(number));
            interfaces
        };
        let (few, many) = ("10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0", "90 9 0 0 0 0 0 0 90 9 0 0 0 0 0 0");
        let before = numbered(&format!("a: {few}\nb: {many}\n"), [2, 3]);
        let now = numbered(&format!("a: {many}\nb: {few}\n"), [3, 2]);
        for interface in &now {
            assert_eq!(value_of(&before, interface)["rxBytesPerSecond"], Value::Null, "{}", interface.name);
        }
    }

    #[test]
    fn links_without_facts_have_nulls() {
        let machine = tempfile::tempdir().unwrap();
        let link = |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir_in(machine.path()).unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let Link { up, bits_per_second } = Link::read(folder.path());
            (up, bits_per_second)
        };
        assert_eq!(link(&[("operstate", "up\n"), ("speed", "10000\n")]), (Some(true), Some(10_000_000_000)));
        assert_eq!(link(&[("operstate", "up\n"), ("speed", "-1\n")]), (Some(true), None));
        assert_eq!(link(&[("operstate", "up\n"), ("speed", "4294967295\n")]), (Some(true), None));
        assert_eq!(link(&[("operstate", "unknown\n"), ("flags", "0x9\n")]), (Some(true), None));
        assert_eq!(link(&[("operstate", "unknown\n"), ("flags", "0x8\n")]), (Some(false), None));
        assert_eq!(link(&[("operstate", "lowerlayerdown\n"), ("speed", "1000\n")]), (Some(false), None));
        assert_eq!(link(&[]), (None, None));
    }

    #[test]
    fn a_truncated_line_is_left_out() {
        assert_eq!(parse("eth0: 1 2 3 4 5 6 7 8 9 10 11\n"), []);
        assert_eq!(parse("eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"), []);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "([a-z:. ]{0,6}:( [0-9]{0,21}){0,17}\n?|.{0,20}\n){0,4}") {
            for interface in parse(&text) {
                value_of(&parse(&text), &interface);
            }
        }
    }
}
