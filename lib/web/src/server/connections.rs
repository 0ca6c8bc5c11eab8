//! Counts the open connections of one server: a figure, and at the end the sign that all have been drained.
//!
//! A ticket is put into each connection when it is accepted and dropped with it, after its last byte.

use tokio::sync::watch;

use estimand_runtime::metrics::{Exposition, Kind};

#[derive(Debug, Clone)]
pub(super) struct Connections(watch::Sender<u64>);

/// Lies in a connection for as long as it is open.
#[derive(Debug)]
pub(super) struct Ticket(Connections);

impl Connections {
    pub(super) fn new() -> Self {
        Connections(watch::Sender::new(0))
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.0.send_modify(|open| *open += 1);
        Ticket(self.clone())
    }

    pub(super) async fn drained(&self) {
        // The sender is held here, so waiting ends only when there are none.
        let _ = self.0.subscribe().wait_for(|open| *open == 0).await;
    }

    pub(super) fn open(&self) -> u64 {
        *self.0.borrow()
    }

    pub(super) fn write_figures(&self, text: &mut String) {
        let help = "Open connections.";
        Exposition::new(text).single("estimand_http_connections", Kind::Gauge, help, self.open() as f64);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}
