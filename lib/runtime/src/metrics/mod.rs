//! The figures of a process, as Prometheus text: those of the process itself and of every source that was added.
//! There is no global registry: a [`Metrics`] is made by the service's `main` and handed to the parts that add to it.
//! A source is asked at each scrape, outside the threads that answer requests, and writes through [`Exposition`].

mod figures;
mod process;
mod text;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use figures::{Counter, Gauge, Histogram, HistogramReading};
pub use text::{Exposition, Kind, MEDIA_TYPE};

/// Appends its families to the text of a scrape.
pub type Source = Box<dyn Fn(&mut String) + Send + Sync>;

/// Families that are long, in pieces: each is made when the one before it has been sent.
pub type Pieces = Box<dyn Iterator<Item = String> + Send>;

/// Begins the pieces of one scrape.
pub type LongSource = Box<dyn Fn() -> Pieces + Send + Sync>;

/// The figures of one server. Clones are the same figures.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    started: Instant,
    sources: Mutex<Vec<Source>>,
    long_sources: Mutex<Vec<LongSource>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub fn new() -> Self {
        Metrics(Arc::new(Inner {
            started: Instant::now(),
            sources: Mutex::default(),
            long_sources: Mutex::default(),
        }))
    }

    /// Adds a source. Each family must come from one source only.
    pub fn source(&self, source: Source) {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Adds a source of long families, which come after all others.
    pub fn long_source(&self, source: LongSource) {
        self.0.long_sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// The text of one scrape in pieces, each made when it is asked for: not by a thread that answers requests.
    pub fn pieces(&self) -> Pieces {
        let long_sources = self.0.long_sources.lock().unwrap_or_else(PoisonError::into_inner);
        let long: Vec<Pieces> = long_sources.iter().map(|begin| begin()).collect();
        drop(long_sources);
        let metrics = self.clone();
        let first = std::iter::once_with(move || metrics.render());
        Box::new(first.chain(long.into_iter().flatten()))
    }

    /// The families that are short. Reads files and asks sources: not for a thread that answers requests.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        let mut out = Exposition::new(&mut text);
        build_info(&mut out);
        process::write(&mut out, self.0.started.elapsed());
        for source in self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            source(&mut text);
        }
        text
    }
}

fn build_info(out: &mut Exposition<'_>) {
    let name = "estimand_build_info";
    out.family(name, Kind::Gauge, "What is running; the value is always 1.");
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    out.sample(name, &[("version", env!("CARGO_PKG_VERSION")), ("profile", profile)], 1.0);
}
