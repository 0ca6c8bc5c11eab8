//! SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::stop::StopTrigger;

/// Listens for as long as it lives. Keep it until the very end, so that a second signal is heard while the
/// first is being obeyed.
#[derive(Debug)]
#[must_use = "the signals are listened to for as long as this lives"]
pub struct Signals(JoinHandle<()>);

impl Signals {
    /// Starts to listen, on the current runtime.
    pub fn listen(trigger: StopTrigger) -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals(tokio::spawn(async move {
            let (name, _) = next(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = name, "stopping; a second signal ends the process at once");
            trigger.request();
            let (name, number) = next(&mut terminate, &mut interrupt).await;
            tracing::warn!(signal = name, "ending at once");
            // A shell reports this status for a process that died of this signal.
            std::process::exit(128 + number);
        })))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> (&'static str, i32) {
    tokio::select! {
        _ = terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
        _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
    }
}
