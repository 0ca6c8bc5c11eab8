//! The agent's end of the socket to one launcher process, and the tasks that wait for its replies.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use super::protocol::{ContainmentKind, MAX_REPLIES, Reply, Request};
use super::socket::{self, ReceivedPacket};
use super::{RunOutcome, SpawnError};

/// The main process of a run whose program is executed, or the reason why it is not.
pub(super) type StartAnswer = Result<i32, SpawnError>;

/// A connection to one launcher process.
#[derive(Debug)]
pub(super) struct Link {
    socket: AsyncFd<OwnedFd>,
    /// The number of the launcher, counted from the agent's start.
    pub generation: u64,
    waiting: Mutex<Callers>,
    /// Packets that did not fit into the socket when they were posted.
    backlog: Mutex<VecDeque<Vec<u8>>>,
    behind: Notify,
}

#[derive(Debug, Default)]
struct Callers {
    runs: HashMap<u64, WaitingRun>,
    cells: HashMap<u64, oneshot::Sender<Vec<String>>>,
    closing: HashMap<u64, oneshot::Sender<()>>,
    ready: Option<oneshot::Sender<ContainmentKind>>,
    /// The launcher is gone: nothing may begin to wait.
    closed: bool,
}

/// A run that was requested and has not been reported as ended.
#[derive(Debug)]
pub(super) struct WaitingRun {
    pub pid: Option<i32>,
    pub began: Instant,
    pub program: PathBuf,
    pub dir: PathBuf,
    /// The writing ends of its output. The agent keeps them open until the run has ended, or each process that
    /// ends would wake the agent for every pipe that it closes, just before the end itself is reported.
    pub outputs: Option<Arc<[OwnedFd; 2]>>,
    pub started: Option<oneshot::Sender<StartAnswer>>,
    pub ended: oneshot::Sender<RunOutcome>,
}

impl Link {
    pub fn new(socket: OwnedFd, generation: u64) -> io::Result<Self> {
        // Not for writing: each packet that the launcher takes would wake this process.
        // SAFETY: the descriptor is owned, and nothing takes it out or closes it before the `AsyncFd` is dropped.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(Link {
            socket,
            generation,
            waiting: Mutex::default(),
            backlog: Mutex::default(),
            behind: Notify::new(),
        })
    }

    /// Sends a request, waiting while the launcher is behind.
    pub async fn send(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), SpawnError> {
        self.send_packet(&request.encode(), descriptors).await.map_err(|_| SpawnError::LauncherGone)
    }

    async fn send_packet(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match socket::send(self.socket.get_ref(), packet, descriptors) {
            Err(Errno::AGAIN) => {}
            sent => return Ok(sent?),
        }
        let socket = rustix::io::fcntl_dupfd_cloexec(self.socket.get_ref(), 3)?;
        // SAFETY: as above.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::WRITABLE) }?;
        socket.async_io(Interest::WRITABLE, |socket| Ok(socket::send(socket, packet, descriptors)?)).await
    }

    /// Sends a small request at once or as soon as there is room, without waiting.
    pub fn post(&self, request: &Request) {
        let packet = request.encode();
        let mut backlog = lock(&self.backlog);
        if backlog.is_empty() && socket::send(self.socket.get_ref(), &packet, &[]) != Err(Errno::AGAIN) {
            return;
        }
        backlog.push_back(packet);
        self.behind.notify_one();
    }

    /// Notes a run before it is requested; `false` if the launcher is gone.
    pub fn expect_run(&self, id: u64, run: WaitingRun) -> bool {
        let mut waiting = lock(&self.waiting);
        if !waiting.closed {
            waiting.runs.insert(id, run);
        }
        !waiting.closed
    }

    pub fn is_under_way(&self, run: u64) -> bool {
        lock(&self.waiting).runs.contains_key(&run)
    }

    /// A starting launcher's means of holding processes together.
    pub fn expect_ready(&self) -> oneshot::Receiver<ContainmentKind> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiting).ready = Some(sender);
        receiver
    }

    /// The launcher is gone before it was ready.
    pub fn give_up_ready(&self) {
        lock(&self.waiting).ready = None;
    }

    /// The limits that are not enforced in a cell, when it is open.
    pub fn expect_cell(&self, cell: u64) -> oneshot::Receiver<Vec<String>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if !waiting.closed {
            waiting.cells.insert(cell, sender);
        }
        receiver
    }

    /// The moment at which nothing is left in a cell.
    pub fn expect_closed(&self, cell: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if !waiting.closed {
            waiting.closing.insert(cell, sender);
        }
        receiver
    }

    /// Ends the agent's side: the launcher gets no further request and ends everything, and can still report that.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.socket.get_ref(), rustix::net::Shutdown::Write);
    }

    /// The launcher is gone. Takes over all runs that wait for it.
    pub fn give_up(&self) -> Vec<WaitingRun> {
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        waiting.cells.clear();
        waiting.closing.clear();
        waiting.ready = None;
        waiting.runs.drain().map(|(_, run)| run).collect()
    }

    /// Passes on the launcher's replies until it is gone, and sends it the backlog.
    pub async fn serve(&self) {
        let read = async {
            let mut buffer = vec![0; MAX_REPLIES];
            while let Ok(length) = self.receive(&mut buffer).await {
                if !self.dispatch(&buffer[..length]) {
                    tracing::error!(
                        "the launcher sent a reply that makes no sense; another launcher is started"
                    );
                    return;
                }
            }
        };
        tokio::select! {
            () = read => {}
            never = self.catch_up() => match never {},
        }
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut none = Vec::new();
        let incoming = self
            .socket
            .async_io(Interest::READABLE, |socket| Ok(socket::receive(socket, buffer, &mut none)?))
            .await?;
        match incoming {
            ReceivedPacket::Packet(length) => Ok(length),
            ReceivedPacket::TooLarge | ReceivedPacket::End => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn catch_up(&self) -> std::convert::Infallible {
        loop {
            self.behind.notified().await;
            while let Some(packet) = self.next_of_backlog() {
                // If it fails the launcher is gone, which the reading side sees.
                let _ = self.send_packet(&packet, &[]).await;
                lock(&self.backlog).pop_front();
            }
        }
    }

    /// The oldest of the backlog. It stays there until it is sent, so that nothing overtakes it.
    fn next_of_backlog(&self) -> Option<Vec<u8>> {
        lock(&self.backlog).front().cloned()
    }

    fn dispatch(&self, mut packet: &[u8]) -> bool {
        while !packet.is_empty() {
            let Some(reply) = Reply::decode(&mut packet) else { return false };
            self.pass_on(reply);
        }
        true
    }

    /// The receiver may have gone away; then the reply is dropped.
    fn pass_on(&self, reply: Reply) {
        let mut waiting = lock(&self.waiting);
        match reply {
            Reply::Ready { containment } => {
                let _ = waiting.ready.take().map(|sender| sender.send(containment));
            }
            Reply::Started { run, pid } => {
                if let Some(run) = waiting.runs.get_mut(&run) {
                    run.pid = Some(pid);
                    let _ = run.started.take().map(|sender| sender.send(Ok(pid)));
                }
            }
            Reply::Failed { run, failure } => {
                let failed = waiting.runs.remove(&run);
                // The error may need a look at the program's file.
                drop(waiting);
                if let Some(run) = failed {
                    let error = SpawnError::of(failure, &run.program, &run.dir);
                    let _ = run.started.map(|sender| sender.send(Err(error)));
                }
            }
            Reply::Ended { run, outcome } => {
                if let Some(run) = waiting.runs.remove(&run) {
                    drop(run.outputs);
                    let _ = run.ended.send(outcome);
                }
            }
            Reply::CellOpen { cell, unenforced } => {
                let _ = waiting.cells.remove(&cell).map(|sender| sender.send(unenforced));
            }
            Reply::CellClosed { cell } => {
                let _ = waiting.closing.remove(&cell).map(|sender| sender.send(()));
            }
            Reply::Refused { reason } => tracing::error!("the launcher refused {reason}"),
        }
    }
}

/// The state behind these locks is whole at every moment, so a panic of another holder does no harm.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
