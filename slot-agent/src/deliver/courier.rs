//! The one task that delivers: sends the oldest, waits for the answer, pauses after a failure, and meanwhile
//! brings to the disk what has waited too long.
//!
//! It owns no value: all that is not delivered is in the shared state or in the spool, so that the task may
//! be interrupted anywhere and run again. There is one request at a time, and what goes to the spool goes
//! there in the order in which it waits; both keep the order of deliveries.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::value::BatchReceipt;
use estimand_api::write::Write;
use estimand_client::{self as client, Client};
use estimand_runtime::{BackOff, Stop, Trouble};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::outbox::{Outbox, Setback, Shared};
use super::parcel::{Parcel, PieceResult};
use super::spool::{AppendResult, MAX_SEGMENT_ITEMS, Spool};
use super::state::{QueuedWrite, State};

/// The largest batch, in items and in bytes: half of what the data service takes.
const MAX_BATCH_ITEMS: usize = MAX_SEGMENT_ITEMS;
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// From one batch to the next, while little waits and none of it is in a hurry: an agent whose runs end one after another
/// would send a batch for each. What comes after a pause leaves at once.
const SPACING: Duration = Duration::from_millis(2);
const LITTLE: usize = 64;
/// How long a disk that failed is left alone.
const DISK_PAUSE: Duration = Duration::from_secs(1);
/// How often a segment is tried to be read before it is left aside.
const READ_ATTEMPTS: u32 = 5;

type Answer = Result<BatchReceipt, client::Error>;
type Delivery = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub struct Courier<'a, C> {
    shared: &'a Arc<Shared>,
    client: C,
    sending: Option<Delivery>,
    pauses: BackOff,
    trouble: Trouble,
    /// Not to send before, because it failed.
    send_at: Option<Instant>,
    /// Not to send before, because something was sent just now and little waits.
    spaced_until: Instant,
    /// Not to write to the disk before.
    write_at: Option<Instant>,
    unread: u32,
}

impl Outbox {
    /// Delivers until the stop is requested; then what can be delivered soon is, and the rest is put on disk.
    ///
    /// `client` is asked before each batch, because the address of the data service may change or not be
    /// known yet; make it with [`client_options`](super::client_options). One task at a time runs this; one
    /// that was interrupted may be run again and goes on where it was.
    pub async fn run(&self, client: impl Fn() -> Option<Client>, stop: &Stop) {
        Courier::new(&self.0, client).run(stop).await;
    }
}

impl<'a, C: Fn() -> Option<Client>> Courier<'a, C> {
    fn new(shared: &'a Arc<Shared>, client: C) -> Self {
        let pauses = BackOff::new(shared.options.first_pause, shared.options.longest_pause);
        let (sending, send_at, write_at) = (None, None, None);
        let spaced_until = Instant::now();
        Courier {
            shared,
            client,
            sending,
            pauses,
            trouble: Trouble::default(),
            send_at,
            spaced_until,
            write_at,
            unread: 0,
        }
    }

    async fn run(mut self, stop: &Stop) {
        loop {
            let spaced = self.spaced();
            if spaced.is_none() {
                self.send_if_due().await;
            }
            let send_at = spaced.or(self.send_at).filter(|_| self.sending.is_none());
            let wake = earliest(self.spool_due(), send_at);
            tokio::select! {
                () = stop.requested() => break,
                answer = answer_of(&mut self.sending) => self.settle(&answer).await,
                () = at(wake) => {}
                () = self.shared.poke.notified() => {}
            }
            if self.spool_due().is_some_and(|due| due <= Instant::now()) {
                self.spool().await;
            }
        }
        self.finish().await;
    }

    /// Delivers what would otherwise have to be put on disk, as long as that goes well and soon; then puts
    /// the rest there.
    async fn finish(&mut self) {
        let end = Instant::now() + self.shared.options.flush_for;
        while self.is_worth_waiting() {
            self.send_if_due().await;
            let Some(sending) = &mut self.sending else { break };
            let Ok(answer) = timeout_at(end, sending).await else { break };
            self.sending = None;
            self.settle(&answer).await;
        }
        self.sending = None;
        self.spool().await;
        let state = self.shared.state();
        if state.exposed_since().is_some() {
            let error = state.counts.spool_error.as_deref().unwrap_or_default();
            tracing::error!(waiting = state.waiting(), error, "undelivered values could not be put on disk");
        }
    }

    /// True if there is something in memory alone that could leave next.
    fn is_worth_waiting(&self) -> bool {
        let state = self.shared.state();
        let first = match &state.parcel {
            Some(parcel) => parcel.in_memory_alone(),
            None => state.spool.segments == 0 && !state.queue_is_empty(),
        };
        first && state.counts.failing_since.is_none()
    }

    /// When what waits is to be sent, if that is not now. None if nothing waits.
    fn spaced(&self) -> Option<Instant> {
        let state = self.shared.state();
        let may_wait = !state.is_urgent() && (1..LITTLE).contains(&state.waiting());
        (may_wait && self.spaced_until > Instant::now()).then_some(self.spaced_until)
    }

    async fn send_if_due(&mut self) {
        if self.sending.is_some() || self.send_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.send_at = None;
        let Some(piece) = self.next_piece().await else { return };
        match (self.client)() {
            Some(client) => {
                self.spaced_until = Instant::now() + SPACING;
                self.sending = Some(Box::pin(async move { client.write_batch(&piece).await }));
            }
            None => self.failed("the address of the data service is not known yet".to_owned()),
        }
    }

    /// The piece to be sent next: the rest of the parcel, else the oldest segment, else the queue.
    async fn next_piece(&mut self) -> Option<Arc<Vec<Write>>> {
        loop {
            {
                let mut state = self.shared.state();
                if let Some(piece) = state.parcel.as_ref().and_then(Parcel::front) {
                    return Some(piece);
                }
                if state.spool.segments == 0 {
                    let taken = state.take(MAX_BATCH_ITEMS, self.max_batch_bytes());
                    let since = taken.first()?.since;
                    let bytes = taken.iter().map(|held| held.bytes).sum();
                    let writes = taken.into_iter().map(|held| held.write).collect();
                    state.parcel = Some(Parcel::new(writes, bytes, since));
                    continue;
                }
            }
            if !self.read_spool().await {
                return None;
            }
        }
    }

    /// A batch has to have room in the spool beside others.
    fn max_batch_bytes(&self) -> usize {
        let spool = usize::try_from(self.shared.options.max_spool_bytes / 2).unwrap_or(usize::MAX);
        MAX_BATCH_BYTES.min(spool)
    }

    /// Makes the oldest segment the parcel. False: it cannot be read now.
    async fn read_spool(&mut self) -> bool {
        let head = self.shared.on_disk(Spool::head, |_, head| head).await;
        let Some((number, items, found)) = head else { return true };
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.unreadable(number, items, &error).await,
        };
        self.unread = 0;
        if found.damaged > 0 {
            tracing::warn!(
                lines = found.damaged,
                "lines of the spool are cut off or spoilt and are left out"
            );
            self.shared.state().counts.dropped += found.damaged as u64;
        }
        self.shared.refuse(found.refused);
        if found.writes.is_empty() {
            self.shared.on_disk(move |spool| spool.remove(number), |_, ()| ()).await;
            return true;
        }
        let parcel = Parcel::from_segment(number, found.writes, items, Instant::now());
        self.shared.state().parcel = Some(parcel);
        true
    }

    async fn unreadable(&mut self, number: u64, items: usize, error: &std::io::Error) -> bool {
        self.unread += 1;
        if self.unread < READ_ATTEMPTS && error.kind() != std::io::ErrorKind::NotFound {
            self.failed(format!("a segment of the spool cannot be read: {error}"));
            return false;
        }
        self.unread = 0;
        tracing::error!(items, %error, "a segment of the spool cannot be read; it is left aside");
        let forget = move |spool: &mut Spool| drop(spool.forget(number));
        let count =
            move |state: &mut State, ()| state.count_dropped(items, "the disk does not give them back");
        self.shared.on_disk(forget, count).await;
        true
    }

    async fn settle(&mut self, answer: &Answer) {
        let (settled, segments) = {
            let mut state = self.shared.state();
            let Some(parcel) = &mut state.parcel else { return };
            let settled = parcel.settle(answer);
            let segments = (parcel.len() == 0).then(|| std::mem::take(&mut parcel.segments));
            state.counts.delivered += settled.delivered as u64;
            if segments.as_ref().is_some_and(Vec::is_empty) {
                state.parcel = None;
            }
            (settled, segments.unwrap_or_default())
        };
        if !segments.is_empty() {
            let remove = move |spool: &mut Spool| segments.iter().for_each(|number| spool.remove(*number));
            self.shared.on_disk(remove, |state, ()| state.parcel = None).await;
        }
        let PieceResult { refused, older, again, .. } = settled;
        self.shared.refuse(refused);
        self.shared.tell(older.into_iter().map(Setback::Older));
        match again {
            Some(why) => self.failed(why),
            None => self.went_well(),
        }
    }

    fn went_well(&mut self) {
        self.pauses.reset();
        let mut state = self.shared.state();
        state.counts.failing_since = None;
        if self.trouble.over() {
            tracing::info!(waiting = state.waiting(), "values are delivered again");
        }
        // The next loss is another episode, if the disk takes what waits.
        if state.counts.spool_error.is_none() {
            state.counts.drop_said = false;
        }
    }

    fn failed(&mut self, why: String) {
        let pause = self.pauses.pause();
        self.send_at = Some(Instant::now() + pause);
        if self.trouble.failed(pause) {
            tracing::warn!(why, "values cannot be delivered; they are kept and tried again");
        }
        let mut state = self.shared.state();
        state.counts.failing_since.get_or_insert_with(|| self.shared.options.clock.now_micros());
        state.counts.last_error = Some(why);
    }

    /// When something is to be put on disk; none: nothing waits in memory alone.
    fn spool_due(&self) -> Option<Instant> {
        let state = self.shared.state();
        let since = state.exposed_since()?;
        let much = state.queue_bytes() >= state.max_bytes / 2;
        let due = if much { since } else { since + self.shared.options.spool_after };
        Some(self.write_at.map_or(due, |at| at.max(due)))
    }

    /// Puts on disk whatever is in memory alone: what is on its way first, because it is older.
    async fn spool(&mut self) {
        let error = match self.spool_parcel().await {
            Ok(()) => self.spool_queue().await.err(),
            Err(error) => Some(error),
        };
        self.write_at = error.as_ref().map(|_| Instant::now() + DISK_PAUSE);
        let mut state = self.shared.state();
        if let Some(error) = &error
            && state.counts.spool_error.is_none()
        {
            tracing::error!(%error, "the disk does not take undelivered values; they are kept in memory");
        } else if error.is_none() && state.counts.spool_error.is_some() {
            tracing::info!("the disk takes undelivered values again");
        }
        state.counts.spool_error = error.map(|error| error.to_string());
    }

    async fn spool_parcel(&mut self) -> std::io::Result<()> {
        let pieces = match &self.shared.state().parcel {
            Some(parcel) if parcel.in_memory_alone() => parcel.pieces(),
            _ => return Ok(()),
        };
        let append = move |spool: &mut Spool| {
            // The segments of a parcel hold nothing else, so that they can be deleted when it is delivered.
            spool.seal();
            let mut done = spool.append(pieces.iter().flat_map(|piece| piece.iter()), &[]);
            spool.seal();
            if done.error.is_some() {
                done.segments.drain(..).for_each(|number| spool.remove(number));
            }
            done
        };
        let account = |state: &mut State, done: AppendResult| {
            state.count_dropped(done.dropped, "the spool is full");
            if let Some(parcel) = &mut state.parcel
                && done.error.is_none()
            {
                (parcel.segments, parcel.spooled) = (done.segments, done.written);
            }
            done.error.map_or(Ok(()), Err)
        };
        self.shared.on_disk(append, account).await
    }

    async fn spool_queue(&mut self) -> std::io::Result<()> {
        let (taken, kept) = {
            let mut state = self.shared.state();
            if state.queue_is_empty() {
                return Ok(());
            }
            let taken = state.take(usize::MAX, usize::MAX);
            state.moving = taken.len();
            (taken, state.parcel.as_ref().map_or_else(Vec::new, |parcel| parcel.segments.clone()))
        };
        let append = move |spool: &mut Spool| {
            let done = spool.append(taken.iter().map(|held: &QueuedWrite| &held.write), &kept);
            (taken, done)
        };
        let account = |state: &mut State, (mut taken, done): (Vec<QueuedWrite>, AppendResult)| {
            taken.drain(..done.written);
            state.moving = 0;
            state.put_back(taken);
            state.count_dropped(done.dropped, "the spool is full");
            done.error.map_or(Ok(()), Err)
        };
        self.shared.on_disk(append, account).await
    }
}

async fn answer_of(sending: &mut Option<Delivery>) -> Answer {
    match sending {
        Some(request) => {
            let answer = request.await;
            *sending = None;
            answer
        }
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}
