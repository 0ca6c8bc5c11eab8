//! A runtime on the thread that collects, for collectors that ask over the network. A wait ends shortly before the time
//! is over, so that the answers until then can still be reported. Nothing runs between collections.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// Time that is kept back for the message.
const FOR_THE_ANSWER: Duration = Duration::from_millis(250);

pub(crate) struct BlockingRuntime {
    /// Always there until it is dropped.
    runtime: Option<Runtime>,
}

impl BlockingRuntime {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime
            .map(|runtime| BlockingRuntime { runtime: Some(runtime) })
            .map_err(|error| format!("no runtime to wait on: {error}"))
    }

    /// Waits for something; none if the time is over first.
    pub(crate) fn wait<T>(&self, until: Instant, what: impl Future<Output = T>) -> Option<T> {
        let left = until.saturating_duration_since(Instant::now());
        let until = until - FOR_THE_ANSWER.min(left / 10);
        self.runtime.as_ref()?.block_on(async { tokio::time::timeout_at(until.into(), what).await.ok() })
    }
}

impl Drop for BlockingRuntime {
    /// Neither waits for a name that is still being looked up, nor panics where blocking is not allowed.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
