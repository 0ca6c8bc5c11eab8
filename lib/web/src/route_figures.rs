//! The figures of the routes: how many requests ended how, how long they took, how many are being answered.
//!
//! Every worker thread counts in cells of its own, so that counting never makes two threads wait for one
//! cache line; a scrape adds the workers up. A duration ends when the response is ready to be sent: of a
//! long stream it measures the beginning.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;

use estimand_runtime::metrics::{Counter, Exposition, Gauge, Histogram, HistogramReading, Kind};

/// The upper ends of the latency buckets; reads take microseconds, writes wait for a disk.
const LATENCY_BOUNDS: [Duration; 14] = [
    Duration::from_micros(10),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// How a request can end; the first is for clients that went away before they were answered.
const OUTCOMES: [&str; 6] = ["cancelled", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// One route, summed over the workers when it is read.
#[derive(Debug)]
pub(crate) struct RouteFigures {
    service: &'static str,
    method: String,
    path: String,
    workers: Mutex<Vec<Arc<WorkerFigures>>>,
}

impl RouteFigures {
    pub(crate) fn new(service: &'static str, method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        RouteFigures { service, method, path, workers: Mutex::default() }
    }

    /// Cells for one more worker. They stay when the worker is replaced: a counter never goes back.
    pub(crate) fn for_worker(&self) -> Arc<WorkerFigures> {
        let figures = Arc::new(WorkerFigures::new());
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&figures));
        figures
    }

    fn read(&self) -> Reading {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = Reading {
            outcomes: [0; OUTCOMES.len()],
            durations: Histogram::of_durations(&LATENCY_BOUNDS).read(),
            in_flight: 0,
        };
        for worker in workers.iter() {
            for (total, counter) in sum.outcomes.iter_mut().zip(&worker.outcomes) {
                *total += counter.get();
            }
            sum.durations.add(&worker.durations.read());
            sum.in_flight += worker.in_flight.get();
        }
        sum
    }
}

struct Reading {
    outcomes: [u64; OUTCOMES.len()],
    durations: HistogramReading,
    in_flight: i64,
}

/// The cells of one route in one worker.
#[derive(Debug)]
pub(crate) struct WorkerFigures {
    outcomes: [Counter; OUTCOMES.len()],
    durations: Histogram,
    in_flight: Gauge,
}

impl WorkerFigures {
    fn new() -> Self {
        WorkerFigures {
            outcomes: [const { Counter::new() }; OUTCOMES.len()],
            durations: Histogram::of_durations(&LATENCY_BOUNDS),
            in_flight: Gauge::new(),
        }
    }

    pub(crate) fn enter(&self) -> InFlight<'_> {
        self.in_flight.add(1);
        InFlight { figures: self, started: Instant::now(), outcome: 0 }
    }
}

/// A request that is being answered. Dropped without an answer, it counts as cancelled.
pub(crate) struct InFlight<'f> {
    figures: &'f WorkerFigures,
    started: Instant,
    outcome: usize,
}

impl InFlight<'_> {
    /// The request has been answered; says how long that took.
    pub(crate) fn answered(mut self, status: StatusCode) -> Duration {
        let took = self.started.elapsed();
        self.outcome = usize::from(status.as_u16() / 100).min(OUTCOMES.len() - 1);
        self.figures.durations.observe_duration(took);
        took
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.figures.outcomes[self.outcome].increment();
        self.figures.in_flight.add(-1);
    }
}

/// Writes the figures of all routes. A route that was never asked for is left out.
pub(crate) fn write(out: &mut Exposition<'_>, routes: &[Arc<RouteFigures>]) {
    let readings: Vec<_> = routes
        .iter()
        .map(|route| (route, route.read()))
        .filter(|(_, reading)| reading.in_flight != 0 || reading.outcomes.iter().any(|count| *count > 0))
        .collect();

    let name = "estimand_http_requests_total";
    out.family(name, Kind::Counter, "Requests answered, by class of status.");
    for (route, reading) in &readings {
        for (outcome, count) in OUTCOMES.iter().zip(reading.outcomes).filter(|(_, count)| *count > 0) {
            let [service, method, path] = labels(route);
            out.sample(name, &[service, method, path, ("status", outcome)], count as f64);
        }
    }
    let name = "estimand_http_request_duration_seconds";
    out.family(name, Kind::Histogram, "Time from the head of a request to the head of its response.");
    for (route, reading) in &readings {
        out.histogram(name, &labels(route), &reading.durations);
    }
    let name = "estimand_http_requests_in_flight";
    out.family(name, Kind::Gauge, "Requests being answered.");
    for (route, reading) in &readings {
        out.sample(name, &labels(route), reading.in_flight as f64);
    }
}

fn labels(route: &RouteFigures) -> [(&'static str, &str); 3] {
    [("service", route.service), ("method", &route.method), ("path", &route.path)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_dropped_counts_as_cancelled() {
        let route = RouteFigures::new("data", "GET", "/x");
        let (one, other) = (route.for_worker(), route.for_worker());
        one.enter().answered(StatusCode::NOT_FOUND);
        drop(other.enter());
        let open = other.enter();
        let reading = route.read();
        assert_eq!(reading.outcomes, [1, 0, 0, 0, 1, 0]);
        assert_eq!(reading.in_flight, 1);
        assert_eq!(reading.durations.count(), 1);
        drop(open);
        assert_eq!(route.read().in_flight, 0);
    }
}
