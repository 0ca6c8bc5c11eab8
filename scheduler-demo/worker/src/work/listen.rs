//! What reaches a worker from outside while it works: its part, the agent's wish for a line, and the end.
//!
//! Each of the two threads here waits for one outside and tells the worker, which is never interrupted: it hears
//! between two images. An unreachable service is no reason to stop: the last part that was read goes on.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use estimand_client::{self as client, Client, Event};
use estimand_api::value::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::part::Part;
use super::settings::Settings;

/// Something that the worker is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The part is this now.
    Part(Part),
    /// Somebody wrote a part that is none.
    Wrong(String),
    /// There is no part, or no more.
    Gone,
    /// Say how far you are.
    Asked,
    End,
}

/// Whoever tells waits while this many are unheard.
const UNHEARD: usize = 16;
/// After the service refused to be watched.
const PAUSE: Duration = Duration::from_secs(2);

/// Begins to listen; what there is to hear comes out of the receiver.
pub fn start(settings: &Settings) -> Result<Receiver<News>, client::Error> {
    let (tell, news) = sync_channel(UNHEARD);
    let client = Client::of_environment(&settings.server)?;
    let settings = settings.clone();
    let to_stdin = tell.clone();
    thread::spawn(move || stdin(&to_stdin));
    thread::spawn(move || {
        if let Err(error) = outside(&client, &settings, &tell) {
            eprintln!("estimand-worker: it can't listen: {error}");
            let _ = tell.send(News::End);
        }
    });
    Ok(news)
}

/// The agent sends an empty line when it wants a value, and closes the pipe when it is gone.
fn stdin(tell: &SyncSender<News>) {
    for line in io::stdin().lock().split(b'\n') {
        // The worker is ending if it doesn't hear any more.
        if line.is_err() || tell.send(News::Asked).is_err() {
            break;
        }
    }
    let _ = tell.send(News::End);
}

fn outside(client: &Client, settings: &Settings, tell: &SyncSender<News>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        tokio::select! {
            () = watch(client, settings, tell) => {}
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        let _ = tell.send(News::End);
        Ok(())
    })
}

/// Follows the part until nobody hears any more.
async fn watch(client: &Client, settings: &Settings, tell: &SyncSender<News>) {
    loop {
        let mut watch = client.watch(vec![settings.part.clone()]).of_node(settings.node.clone());
        let error = loop {
            let news = match watch.next().await {
                Ok(Event::Snapshot { values, .. }) => values.first().map_or(News::Gone, read),
                Ok(Event::Change(value)) => read(&value),
                Ok(Event::Delete { .. }) => News::Gone,
                Err(error) => break error,
            };
            if tell.send(news).is_err() {
                return;
            }
        };
        eprintln!("estimand-worker: {} can't be watched: {error}", settings.part);
        tokio::time::sleep(PAUSE).await;
    }
}

fn read(value: &Value) -> News {
    Part::read(&value.data_value).map_or_else(News::Wrong, News::Part)
}
