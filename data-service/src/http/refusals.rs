//! The pushes of programs that are refused, whole or in part: told in the log, once a sender, and counted.
//!
//! A program that exports metrics rarely shows its user what it was answered, and goes on. Its operator looks here.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use estimand_api::problem::Problem;
use estimand_runtime::metrics::{Counter, Exposition, Kind};
use estimand_web::Principal;

/// Further senders are only counted.
const MAX_SENDERS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    Otlp,
    Influx,
}

#[derive(Debug, Default)]
pub struct Refusals {
    otlp: Counts,
    influx: Counts,
    /// The senders that the log has told of.
    told: Mutex<HashSet<(Protocol, String)>>,
}

#[derive(Debug, Default)]
struct Counts {
    pushes: Counter,
    left_out: Counter,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Otlp => "otlp",
            Protocol::Influx => "influx",
        })
    }
}

impl Refusals {
    /// Notes that a push was refused as a whole. A push that is to come again later is not refused.
    pub fn note(&self, protocol: Protocol, sender: &Principal, problem: &Problem) {
        if problem.retry_after.is_some() {
            return;
        }
        self.counts(protocol).pushes.add(1);
        if self.is_new(protocol, sender) {
            let reason = &problem.detail;
            tracing::warn!(%protocol, %sender, reason, "a push is refused; further ones of this sender are only counted");
        }
    }

    /// Notes that so many points or lines of a push were left out.
    pub fn note_left_out(&self, protocol: Protocol, sender: &Principal, count: u64, reason: &str) {
        self.counts(protocol).left_out.add(count);
        if self.is_new(protocol, sender) {
            tracing::warn!(
                %protocol, %sender, reason,
                "a part of a push is refused; further ones of this sender are only counted"
            );
        }
    }

    /// Appends the counts in Prometheus' text form.
    pub fn write(&self, out: &mut String) {
        let mut exposition = Exposition::new(out);
        let all = [(Protocol::Otlp, &self.otlp), (Protocol::Influx, &self.influx)];
        let name = "estimand_push_refused_total";
        exposition.family(name, Kind::Counter, "Pushes of programs that were refused as a whole.");
        for (protocol, counts) in all {
            exposition.sample(name, &[("protocol", &protocol.to_string())], counts.pushes.get() as f64);
        }
        let name = "estimand_push_left_out_total";
        exposition.family(
            name,
            Kind::Counter,
            "Points and lines left out of pushes that were taken in part.",
        );
        for (protocol, counts) in all {
            exposition.sample(name, &[("protocol", &protocol.to_string())], counts.left_out.get() as f64);
        }
    }

    fn counts(&self, protocol: Protocol) -> &Counts {
        match protocol {
            Protocol::Otlp => &self.otlp,
            Protocol::Influx => &self.influx,
        }
    }

    /// True if the log has not told of the sender yet, which it does now.
    fn is_new(&self, protocol: Protocol, sender: &Principal) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MAX_SENDERS && told.insert((protocol, sender.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn a_sender_is_told_of_once_and_counted_each_time() {
        let refusals = Refusals::default();
        let sender = |last: u8| Principal::peer(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)));
        assert!(refusals.is_new(Protocol::Otlp, &sender(1)) && !refusals.is_new(Protocol::Otlp, &sender(1)));
        assert!(refusals.is_new(Protocol::Otlp, &sender(2)) && refusals.is_new(Protocol::Influx, &sender(1)));
        for _ in 0..3 {
            refusals.note(Protocol::Otlp, &sender(1), &Problem::too_large("as it was told to"));
        }
        refusals.note(Protocol::Otlp, &sender(1), &Problem::unavailable("later", 1));
        refusals.note_left_out(Protocol::Influx, &sender(1), 5, "as it was told to");
        let mut text = String::new();
        refusals.write(&mut text);
        assert!(text.contains("estimand_push_refused_total{protocol=\"otlp\"} 3\n"), "{text}");
        assert!(text.contains("estimand_push_left_out_total{protocol=\"influx\"} 5\n"), "{text}");
    }
}
