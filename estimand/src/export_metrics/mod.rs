//! `export-metrics`: a client that reads all values at an interval and sends their numbers to a receiver of OTLP/HTTP.
//!
//! Values are read name by name and sent in bounded batches, so that memory follows the largest name and not the cluster. A
//! round that fails is made again; nothing is kept for later, because the next round sends what is true then.

mod receiver;

use std::time::Duration;

use anyhow::Context as _;
use estimand_api::names::{DataName, NamePattern};
use estimand_cli::{Remote, Remotely, Session};
use estimand_client::{Client, Query};
use estimand_otlp::series::Batch;
use estimand_runtime::{Next, Rounds, Signals, Tasks, Work, stop};
use tokio::time::Instant;

use crate::cli::export_metrics::ExportMetricsArgs;
use crate::telemetry;
use receiver::{Receiver, Sent};

/// The shortest interval.
const LEAST: Duration = Duration::from_secs(1);
/// Pauses after rounds that failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Exports until a signal ends it.
pub async fn run(before: &Remote, args: Remotely<ExportMetricsArgs>) -> anyhow::Result<()> {
    let Remotely { own: args, remote } = args;
    telemetry::init(&telemetry::Log { format: args.log_format, filter: args.log.clone() })?;
    let every = args.every.as_std();
    anyhow::ensure!(every >= LEAST, "--every: {} is too short; expected {LEAST:?} or more", args.every);
    let remote = remote.or(before);
    anyhow::ensure!(
        !remote.json,
        "--json: nothing is printed; expected no such option, or --log-format json"
    );
    let session = Session::open(&remote).map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let receiver = Receiver::new(&args.to, &args.headers)?;
    let (trigger, stop) = stop::pair();
    let _signals = Signals::listen(trigger).context("signals")?;
    tracing::info!(to = receiver.shown(), every = %args.every, "values are sent as metrics");
    let mut exporter =
        Exporter { client: session.client, names: args.names, every, receiver, has_told: None };
    let tasks = Tasks::new();
    let driver = tasks.driver("metrics", "sending metrics").every(every);
    // Metrics that a receiver refuses are not sent again.
    let mut driver = driver.pauses(FIRST_PAUSE, LONGEST_PAUSE).telling_at_once();
    driver.run(&mut exporter, &Rounds::new(), stop.requested()).await;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the values cannot be read: {0}")]
    Read(#[from] estimand_client::Error),
    #[error(transparent)]
    Send(#[from] receiver::ReceiverError),
}

struct Exporter {
    client: Client,
    /// Empty: all.
    names: Vec<NamePattern>,
    every: Duration,
    receiver: Receiver,
    /// The counts that the log has said last.
    has_told: Option<Counts>,
}

/// The points of a round.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    points: usize,
    left_out: usize,
}

impl Exporter {
    async fn send_all(&mut self) -> Result<Counts, ExportError> {
        let (mut batch, mut counts, mut refused) = (Batch::default(), Counts::default(), None);
        for name in self.selected().await? {
            let (values, _) = self.client.values(&Query::of(name)).await?;
            let now = u64::try_from(chrono::Utc::now().timestamp_micros()).unwrap_or(0).saturating_mul(1_000);
            for value in &values {
                batch.add(value, now);
                if batch.is_full() {
                    self.send(std::mem::take(&mut batch), &mut counts, &mut refused).await?;
                }
            }
        }
        self.send(batch, &mut counts, &mut refused).await?;
        refused.map_or(Ok(counts), |refused| Err(refused.into()))
    }

    async fn selected(&self) -> Result<Vec<DataName>, ExportError> {
        let all = self.client.names().await?.into_iter().map(|summary| summary.data_name);
        let asks = |name: &DataName| {
            self.names.is_empty() || self.names.iter().any(|pattern| pattern.matches(name.as_str()))
        };
        Ok(all.filter(asks).collect())
    }

    /// A batch that is refused holds up no other one: the receiver would refuse it again.
    async fn send(
        &mut self,
        batch: Batch,
        counts: &mut Counts,
        refused: &mut Option<receiver::ReceiverError>,
    ) -> Result<(), ExportError> {
        let (points, left_out) = (batch.points(), batch.left_out());
        let Some(request) = batch.into_request() else { return Ok(()) };
        match self.receiver.send(&request).await? {
            Sent::Taken => {
                counts.points += points;
                counts.left_out += left_out;
            }
            Sent::Refused(error) => {
                refused.get_or_insert(error);
            }
        }
        Ok(())
    }
}

impl Work for Exporter {
    type Error = ExportError;

    async fn round(&mut self) -> Result<Next, ExportError> {
        let began = Instant::now();
        let counts = self.send_all().await?;
        let Counts { points, left_out } = counts;
        match self.has_told.replace(counts) {
            None => tracing::info!(points, left_out, "the first metrics are taken"),
            Some(told) if told.left_out != left_out => tracing::info!(points, left_out, "metrics are taken"),
            Some(_) => tracing::debug!(points, left_out, "metrics are taken"),
        }
        Ok(Next::At(began + self.every))
    }
}
