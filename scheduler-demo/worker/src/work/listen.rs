//! The events of a worker: its part, the agent's request for a line, and the end.
//!
//! Two threads wait for them and send them to the worker, which takes them between two images and is never interrupted.
//! While the service is unreachable the worker goes on with the last part that was read.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use estimand_api::value::Value;
use estimand_client::{self as client, Client, Event};
use tokio::signal::unix::{SignalKind, signal};

use super::part::Part;
use super::settings::Settings;

/// An event for the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEvent {
    /// A new part.
    Part(Part),
    /// A value was written that is no part.
    InvalidPart(String),
    /// There is no part, or it was deleted.
    NoPart,
    /// The agent wants a line of progress.
    ReportRequested,
    End,
}

/// Senders wait while this many events are pending.
const CHANNEL_CAPACITY: usize = 16;
/// After the service refused to be watched.
const PAUSE: Duration = Duration::from_secs(2);

/// Starts the threads; the receiver gives their events.
pub fn start(settings: &Settings) -> Result<Receiver<WorkerEvent>, client::Error> {
    let (sender, events) = sync_channel(CHANNEL_CAPACITY);
    let client = Client::of_environment(&settings.server)?;
    let settings = settings.clone();
    let stdin_sender = sender.clone();
    thread::spawn(move || stdin(&stdin_sender));
    thread::spawn(move || {
        if let Err(error) = outside(&client, &settings, &sender) {
            eprintln!("estimand-worker: it can't listen: {error}");
            let _ = sender.send(WorkerEvent::End);
        }
    });
    Ok(events)
}

/// The agent sends an empty line when it wants a value, and closes the pipe when it is gone.
fn stdin(sender: &SyncSender<WorkerEvent>) {
    for line in io::stdin().lock().split(b'\n') {
        // The worker is ending if the receiver is gone.
        if line.is_err() || sender.send(WorkerEvent::ReportRequested).is_err() {
            break;
        }
    }
    let _ = sender.send(WorkerEvent::End);
}

fn outside(client: &Client, settings: &Settings, sender: &SyncSender<WorkerEvent>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        tokio::select! {
            () = watch(client, settings, sender) => {}
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        let _ = sender.send(WorkerEvent::End);
        Ok(())
    })
}

/// Watches the part until the receiver is gone.
async fn watch(client: &Client, settings: &Settings, sender: &SyncSender<WorkerEvent>) {
    loop {
        let mut watch = client.watch(vec![settings.part.clone()]).of_node(settings.node.clone());
        let error = loop {
            let event = match watch.next().await {
                Ok(Event::Snapshot { values, .. }) => values.first().map_or(WorkerEvent::NoPart, read),
                Ok(Event::Change(value)) => read(&value),
                Ok(Event::Delete { .. }) => WorkerEvent::NoPart,
                Err(error) => break error,
            };
            if sender.send(event).is_err() {
                return;
            }
        };
        eprintln!("estimand-worker: {} can't be watched: {error}", settings.part);
        tokio::time::sleep(PAUSE).await;
    }
}

fn read(value: &Value) -> WorkerEvent {
    Part::read(&value.data_value).map_or_else(WorkerEvent::InvalidPart, WorkerEvent::Part)
}
