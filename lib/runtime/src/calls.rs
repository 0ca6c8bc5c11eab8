//! Calls to services of others: each has a deadline, and a circuit breaker stands in front of them.
//!
//! After some failures in a row the breaker opens: for a while nothing is sent to that service, so that neither side is
//! kept busy by attempts that fail. Then it is half open: calls are made, and the first outcome closes it or opens it
//! again, for longer. Repeating a call is up to the loop that makes it. The figures are on `/metrics`.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::back_off::BackOff;
use crate::metrics::{Counter, Exposition, Kind};

/// So many failures in a row open the breaker.
const MOST_FAILURES: u32 = 5;
/// For how long it is open the first time, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The calls to one service.
#[derive(Debug)]
pub struct Calls {
    pub(crate) service: &'static str,
    within: Duration,
    breaker: Mutex<Breaker>,
    succeeded: Counter,
    failed: Counter,
    refused: Counter,
}

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError<E> {
    #[error("{service} failed {MOST_FAILURES} times in a row or more; it is called again in {again_in:?}")]
    Open { service: &'static str, again_in: Duration },
    #[error("{service} gave no answer within {within:?}")]
    Late { service: &'static str, within: Duration },
    #[error(transparent)]
    Failed(E),
}

impl Calls {
    pub(crate) fn new(service: &'static str, within: Duration) -> Self {
        Calls {
            service,
            within,
            breaker: Mutex::new(Breaker::new()),
            succeeded: Counter::new(),
            failed: Counter::new(),
            refused: Counter::new(),
        }
    }

    /// Makes a call, unless the breaker is open.
    pub async fn call<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E>> {
        if let Err(again_in) = self.breaker().admit(Instant::now()) {
            self.refused.increment();
            return Err(CallError::Open { service: self.service, again_in });
        }
        let outcome = timeout(self.within, call).await;
        let mut breaker = self.breaker();
        if let Ok(Ok(answer)) = outcome {
            self.succeeded.increment();
            breaker.succeed();
            return Ok(answer);
        }
        self.failed.increment();
        breaker.fail(Instant::now());
        match outcome {
            Ok(Err(error)) => Err(CallError::Failed(error)),
            _ => Err(CallError::Late { service: self.service, within: self.within }),
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a breaker, of which calls go through the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    Closed,
    Open { until: Instant },
    HalfOpen,
}

/// Pure: the time comes in.
#[derive(Debug)]
struct Breaker {
    state: BreakerState,
    failures: u32,
    pauses: BackOff,
}

impl Breaker {
    fn new() -> Self {
        let pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Breaker { state: BreakerState::Closed, failures: 0, pauses }
    }

    /// A call may be made; otherwise the time after which one may.
    fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        if let BreakerState::Open { until } = self.state {
            if now < until {
                return Err(until - now);
            }
            self.state = BreakerState::HalfOpen;
        }
        Ok(())
    }

    fn succeed(&mut self) {
        (self.state, self.failures) = (BreakerState::Closed, 0);
        self.pauses.reset();
    }

    fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MOST_FAILURES {
            self.state = BreakerState::Open { until: now + self.pauses.pause() };
        }
    }
}

/// Writes how all calls go.
pub(crate) fn write(out: &mut Exposition<'_>, services: &[std::sync::Arc<Calls>]) {
    if services.is_empty() {
        return;
    }
    let name = "estimand_calls_total";
    out.family(name, Kind::Counter, "Calls to services of others; a refused one was not made.");
    for calls in services {
        let outcomes = [("ok", &calls.succeeded), ("failed", &calls.failed), ("refused", &calls.refused)];
        for (outcome, count) in outcomes {
            out.sample(name, &[("service", calls.service), ("outcome", outcome)], count.get() as f64);
        }
    }
    let name = "estimand_calls_breaker";
    let help = "1 for the state of the circuit breaker in front of a service: closed, half-open or open.";
    out.family(name, Kind::Gauge, help);
    for calls in services {
        let is = match calls.breaker().state {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half-open",
            BreakerState::Open { .. } => "open",
        };
        for state in ["closed", "half-open", "open"] {
            let value = if state == is { 1.0 } else { 0.0 };
            out.sample(name, &[("service", calls.service), ("state", state)], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_breaker_opens_after_failures_in_a_row_and_closes_with_a_success() {
        let (mut breaker, mut now) = (Breaker::new(), Instant::now());
        for _ in 1..MOST_FAILURES {
            breaker.fail(now);
        }
        breaker.succeed();
        for _ in 1..MOST_FAILURES {
            breaker.fail(now);
            assert_eq!(breaker.admit(now), Ok(()));
        }
        breaker.fail(now);
        let pause = breaker.admit(now).err();
        assert!(pause.is_some_and(|pause| pause <= FIRST_PAUSE && pause >= FIRST_PAUSE / 2), "{pause:?}");
        now += FIRST_PAUSE;
        assert_eq!((breaker.admit(now), breaker.state), (Ok(()), BreakerState::HalfOpen));
        breaker.fail(now);
        let pause = breaker.admit(now).err();
        assert!(pause.is_some_and(|pause| pause >= FIRST_PAUSE), "longer than before: {pause:?}");
        now += 2 * FIRST_PAUSE;
        assert_eq!(breaker.admit(now), Ok(()));
        breaker.succeed();
        assert_eq!((breaker.state, breaker.failures), (BreakerState::Closed, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_a_failure_and_an_open_breaker_makes_none() {
        let calls = Arc::new(Calls::new("theirs", Duration::from_secs(3)));
        let begun = Instant::now();
        let late = calls.call(pending::<Result<(), &str>>()).await;
        assert!(matches!(late, Err(CallError::Late { .. })) && begun.elapsed() < Duration::from_secs(4));
        for _ in 1..MOST_FAILURES {
            let failed = calls.call(ready(Err::<(), _>("no"))).await;
            assert!(matches!(failed, Err(CallError::Failed("no"))));
        }
        let refused = calls.call(async { Err::<(), _>("it was made") }).await;
        assert!(matches!(refused, Err(CallError::Open { .. })));
        tokio::time::sleep(FIRST_PAUSE).await;
        assert!(calls.call(ready(Ok::<_, &str>(7))).await.is_ok_and(|answer| answer == 7));
        let mut text = String::new();
        write(&mut Exposition::new(&mut text), &[calls]);
        for line in [
            "estimand_calls_total{service=\"theirs\",outcome=\"failed\"} 5\n",
            "estimand_calls_total{service=\"theirs\",outcome=\"refused\"} 1\n",
            "estimand_calls_breaker{service=\"theirs\",state=\"closed\"} 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
