//! The one driver of background loops.
//!
//! Background work is a function without input that may be repeated: a round reads again everything that it needs and
//! does all of it. A [`Driver`] runs rounds when one is requested through [`Rounds`] and when a period is over. Of
//! failures in a row that last it logs one, and their end; between them it pauses, longer and longer. It ends when it
//! is told to, in the middle of a round too. The figures of rounds are on `/metrics`.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::back_off::BackOff;
use crate::metrics::{Counter, Exposition, Gauge, Kind};
use crate::rounds::Rounds;
use crate::tasks::Tasks;
use crate::trouble::Trouble;

/// Background work.
pub trait Work: Send {
    type Error: Display;

    /// Does all that is to be done now. It may be dropped at any point when the driver ends.
    fn round(&mut self) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// When the next round begins, unless one is asked for earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// After the driver's period.
    Period,
    /// At that time, or after the period if that is earlier.
    At(Instant),
    /// Never: the driver ends.
    End,
}

/// A background loop.
#[derive(Debug, Clone, Copy)]
pub struct Loop {
    /// Its name in the figures.
    pub name: &'static str,
    /// Names the work in the log, as in "reading the registry".
    pub activity: &'static str,
    /// How often it looks although nothing was asked for.
    pub every: Duration,
    /// The first pause after a failure, and the longest.
    pub pauses: (Duration, Duration),
}

impl Loop {
    /// Runs the loop as a task. `rounds` finds in what is shared where its rounds are asked for. `make` is called again after
    /// a panic, so that the work begins with nothing of before.
    pub fn spawn<S, W>(
        self,
        tasks: &Tasks,
        shared: &Arc<S>,
        rounds: fn(&S) -> &Rounds,
        make: impl Fn(Arc<S>) -> W + Send + 'static,
    ) where
        S: Send + Sync + 'static,
        W: Work + 'static,
        W::Error: Send,
    {
        let Loop { name, activity, every, pauses: (first, longest) } = self;
        let (shared, drivers) = (Arc::clone(shared), tasks.clone());
        tasks.spawn(name, move |stop| {
            let mut driver = drivers.driver(name, activity).every(every).pauses(first, longest);
            let (shared, mut work) = (Arc::clone(&shared), make(Arc::clone(&shared)));
            async move { driver.run(&mut work, rounds(&shared), stop.requested()).await }
        });
    }
}

/// Runs the rounds of one piece of background work.
#[derive(Debug)]
pub struct Driver {
    activity: &'static str,
    period: Option<Duration>,
    back_off: BackOff,
    trouble: Trouble,
    figures: Arc<LoopFigures>,
}

impl Driver {
    /// `activity` names the work in the log, as in "reading the registry". Without a period, rounds are made when they
    /// are asked for.
    pub(crate) fn new(activity: &'static str, figures: Arc<LoopFigures>) -> Self {
        let back_off = BackOff::new(Duration::from_millis(200), Duration::from_secs(5));
        Driver { activity, period: None, back_off, trouble: Trouble::default(), figures }
    }

    /// Rounds run this often even if none is asked for.
    pub fn every(self, period: Duration) -> Self {
        Driver { period: Some(period), ..self }
    }

    /// The pauses after failures.
    pub fn pauses(self, first: Duration, longest: Duration) -> Self {
        Driver { back_off: BackOff::new(first, longest), ..self }
    }

    /// The first failure in a row is told, although it may be over in a moment: each one loses something.
    pub fn telling_at_once(self) -> Self {
        Driver { trouble: Trouble::told_at_once(), ..self }
    }

    /// Makes rounds until `end`, or until one says that it was the last. The first begins at once.
    pub async fn run<W: Work>(
        &mut self,
        work: &mut W,
        rounds: &Rounds,
        end: impl Future<Output = ()> + Send,
    ) {
        tokio::select! {
            () = end => {}
            () = self.make_rounds(work, rounds) => {}
        }
        // A loop that has ended fails no more.
        self.figures.failing.set(0);
    }

    async fn make_rounds<W: Work>(&mut self, work: &mut W, rounds: &Rounds) {
        loop {
            let (ticket, begun) = (rounds.begin(), Instant::now());
            let outcome = work.round().await;
            self.figures.count(outcome.is_ok(), begun);
            match outcome {
                Ok(next) => {
                    if self.trouble.over() {
                        tracing::info!("{} works again", self.activity);
                    }
                    self.back_off.reset();
                    rounds.end(ticket);
                    let period = self.period.map(|period| Instant::now() + period);
                    let at = match next {
                        Next::Period => period,
                        Next::At(at) => Some(period.map_or(at, |period| period.min(at))),
                        Next::End => return,
                    };
                    tokio::select! {
                        () = rounds.asked_since(ticket) => {}
                        () = sleep_until(at.unwrap_or_else(Instant::now)), if at.is_some() => {}
                    }
                }
                Err(error) => {
                    let (least, pause) = (self.back_off.first(), self.back_off.pause());
                    match self.trouble.failed(pause) {
                        true => tracing::warn!(%error, "{} failed; it is tried again", self.activity),
                        false => tracing::debug!(%error, "{} failed", self.activity),
                    }
                    rounds.fail(ticket);
                    // A request gets an attempt soon, but many requests do not make attempts without a pause.
                    sleep(least.min(pause)).await;
                    tokio::select! {
                        () = rounds.asked_since(ticket) => {}
                        () = sleep(pause.saturating_sub(least)) => {}
                    }
                }
            }
        }
    }
}

/// How the rounds of one loop go.
#[derive(Debug)]
pub(crate) struct LoopFigures {
    pub(crate) name: &'static str,
    succeeded: Counter,
    failed: Counter,
    /// 1 while the last round failed.
    failing: Gauge,
    /// Microseconds that the last round took.
    took: AtomicU64,
}

impl LoopFigures {
    pub(crate) fn new(name: &'static str) -> Self {
        LoopFigures {
            name,
            succeeded: Counter::new(),
            failed: Counter::new(),
            failing: Gauge::new(),
            took: AtomicU64::new(0),
        }
    }

    fn count(&self, is_ok: bool, begun: Instant) {
        if is_ok { &self.succeeded } else { &self.failed }.increment();
        self.failing.set(i64::from(!is_ok));
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Relaxed);
    }
}

/// Writes how all loops go.
pub(crate) fn write(out: &mut Exposition<'_>, loops: &[Arc<LoopFigures>]) {
    if loops.is_empty() {
        return;
    }
    let name = "estimand_background_rounds_total";
    out.family(name, Kind::Counter, "Rounds of background loops, by how they ended.");
    for figures in loops {
        for (outcome, count) in [("ok", &figures.succeeded), ("failed", &figures.failed)] {
            out.sample(name, &[("loop", figures.name), ("outcome", outcome)], count.get() as f64);
        }
    }
    let name = "estimand_background_failing";
    out.family(name, Kind::Gauge, "1 while the last round of the loop failed.");
    for figures in loops {
        out.sample(name, &[("loop", figures.name)], figures.failing.get() as f64);
    }
    let name = "estimand_background_round_seconds";
    out.family(name, Kind::Gauge, "How long the last round of the loop took.");
    for figures in loops {
        let seconds = Duration::from_micros(figures.took.load(Ordering::Relaxed)).as_secs_f64();
        out.sample(name, &[("loop", figures.name)], seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::Tasks;

    /// Fails as often as it is told to; notes when each round began.
    struct Scripted {
        failures: usize,
        began: Vec<Instant>,
        last: usize,
    }

    impl Work for Scripted {
        type Error = &'static str;

        async fn round(&mut self) -> Result<Next, &'static str> {
            self.began.push(Instant::now());
            match self.began.len() {
                round if round <= self.failures => Err("not yet"),
                round if round == self.last => Ok(Next::End),
                _ => Ok(Next::Period),
            }
        }
    }

    fn gaps(work: &Scripted) -> Vec<u128> {
        work.began.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_follow_the_period_and_failures_their_pauses() {
        let tasks = Tasks::new();
        let mut driver = tasks.driver("scripted", "working").every(Duration::from_secs(10));
        let mut work = Scripted { failures: 2, began: vec![], last: 5 };
        driver.run(&mut work, &Rounds::new(), pending()).await;
        let gaps = gaps(&work);
        assert!((100..=200).contains(&gaps[0]) && (200..=400).contains(&gaps[1]), "{gaps:?}");
        assert!((10_000..=10_002).contains(&gaps[2]) && (10_000..=10_002).contains(&gaps[3]), "{gaps:?}");
        let mut text = String::new();
        tasks.write_figures(&mut text);
        assert!(text.contains("rounds_total{loop=\"scripted\",outcome=\"ok\"} 3\n"), "{text}");
        assert!(text.contains("rounds_total{loop=\"scripted\",outcome=\"failed\"} 2\n"), "{text}");
        assert!(text.contains("failing{loop=\"scripted\"} 0\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_is_asked_for_begins_at_once_and_its_end_is_heard() {
        let (tasks, rounds) = (Tasks::new(), Arc::new(Rounds::new()));
        let mut driver = tasks.driver("asked", "working");
        let asking = Arc::clone(&rounds);
        let mut work = Scripted { failures: 0, began: vec![], last: 3 };
        let asked = tokio::spawn(async move {
            for _ in 0..2 {
                sleep(Duration::from_secs(60)).await;
                asking.done(asking.ask()).await;
            }
        });
        driver.run(&mut work, &rounds, pending()).await;
        asked.await.unwrap_or_default();
        assert_eq!(gaps(&work).len(), 2);
        assert!(gaps(&work).iter().all(|gap| (60_000..=60_003).contains(gap)), "{:?}", gaps(&work));
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_hangs_ends_with_the_loop() {
        struct Hanging;
        impl Work for Hanging {
            type Error = &'static str;
            async fn round(&mut self) -> Result<Next, &'static str> {
                pending().await
            }
        }
        let end = sleep(Duration::from_secs(3));
        let begun = Instant::now();
        Tasks::new().driver("hanging", "working").run(&mut Hanging, &Rounds::new(), end).await;
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
}
