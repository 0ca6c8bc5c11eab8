//! Shared by the tests of this folder: writes to send, an outbox with short times, waiting for a condition.
#![allow(clippy::unwrap_used)]

mod delivery;
mod disk;
mod lines;
mod parcels;
mod refusals;
mod sequence;
mod service;

use std::path::Path;
use std::time::{Duration, Instant};

use estimand_api::names::{DataName, NodeName};
use estimand_api::write::{Content, Order, Write};
use estimand_client::{self as client, Client};
use estimand_runtime::stop::{self, StopTrigger};
use tokio::task::JoinHandle;

use super::outbox::Figures;
use super::{Outbox, OutboxOptions, client_options};

const PATIENCE: Duration = Duration::from_secs(30);

/// A write whose value is its own sequence and some padding.
fn write(name: &str, sequence: u64, padding: usize) -> Write {
    Write {
        data_name: DataName::parse(name).unwrap(),
        node_name: NodeName::parse("n1").unwrap(),
        content: Content::Value {
            text: format!("[{sequence},\"{}\"]", "x".repeat(padding)).into(),
            valid_for: Some(3_000_000),
            provenance: None,
        },
        collected_at: Some(1_700_000_000_000_000 + i64::try_from(sequence).unwrap()),
        order: Some(Order { epoch: 1, sequence }),
    }
}

fn writes(name: &str, sequences: std::ops::RangeInclusive<u64>) -> Vec<Write> {
    sequences.map(|sequence| write(name, sequence, 0)).collect()
}

/// Short times, so that the tests do not wait for long ones.
fn options(dir: &Path) -> OutboxOptions {
    OutboxOptions {
        segment_bytes: 2_000,
        spool_after: Duration::from_millis(5),
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(10),
        flush_for: PATIENCE,
        ..OutboxOptions::new(dir)
    }
}

/// An outbox that delivers.
struct Running {
    outbox: Outbox,
    trigger: StopTrigger,
    task: JoinHandle<()>,
}

impl Running {
    fn start(options: OutboxOptions, address: &str) -> Self {
        Self::of(Outbox::open(options).unwrap(), address, client_options(&Default::default()))
    }

    fn of(outbox: Outbox, address: &str, client: client::Options) -> Self {
        let (trigger, stop) = stop::pair();
        let client = client_of(address, client);
        let runs = outbox.clone();
        let task = tokio::spawn(async move { runs.run(|| Some(client.clone()), &stop).await });
        Running { outbox, trigger, task }
    }

    /// Puts one write, on which the task is then stuck, so that all that is put later is not part of its parcel.
    async fn put_first(&self, first: Write) {
        self.outbox.put(vec![first]);
        self.until("the first attempt", |figures| figures.failing_since.is_some()).await;
    }

    async fn until(&self, what: &str, probe: impl Fn(&Figures) -> bool) -> Figures {
        until(what, || Some(self.outbox.figures()).filter(&probe)).await
    }

    async fn delivered(&self) -> Figures {
        let none_left = |figures: &Figures| figures.waiting_items == 0 && figures.spooled_bytes == 0;
        self.until("everything to be delivered", none_left).await
    }

    async fn stop(self) {
        self.trigger.request();
        self.task.await.unwrap();
    }

    /// Ends it as a kill would: without a chance to do anything.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

fn client_of(address: &str, options: client::Options) -> Client {
    // The second test of a process finds the provider there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::with_options(address, options).unwrap()
}

/// Waits for a condition; the one place of these tests where anything sleeps.
async fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The files of a folder.
fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
