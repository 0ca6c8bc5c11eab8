//! A tunnel: one TCP connection carried over a WebSocket.
//!
//! Binary messages are its bytes. The text message `end` says that no more of them come from there; the other direction goes
//! on. A side that has both said and heard that has seen a whole connection; one that breaks off before has not, and each
//! reader is told so. A side takes from the wire only what it has passed on, so memory is bounded whoever is slow. While
//! there is nothing to say each side pings, so that a peer that is gone is noticed; nobody has to answer.

mod frames;
mod half;

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use frames::{Header, Kind, MAX_HEADER, apply_mask, wrong};
pub use half::{Half, pair};

/// The message that ends a direction.
const END: &[u8] = b"end";
/// How much is passed on at a time.
const PIECE: usize = 16 * 1024;
/// How often something is said, at least.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A peer that says nothing for so long is gone.
const HEARD_WITHIN: Duration = Duration::from_secs(60);
/// A connection over which no byte goes for so long is given up.
const IDLE_WITHIN: Duration = Duration::from_secs(60 * 60);
/// How long the peer may take to close a connection that is over.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// The side of the WebSocket, by which frames are masked or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// The knowledge that both directions have of the connection.
struct Course {
    ends: Mutex<Ends>,
}

struct Ends {
    said: bool,
    heard: bool,
    moved_at: Instant,
}

impl Course {
    /// Notes something; true if both ends are reached.
    fn note(&self, note: impl FnOnce(&mut Ends)) -> bool {
        let mut ends = self.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        note(&mut ends);
        ends.said && ends.heard
    }

    fn moved(&self) {
        self.note(|ends| ends.moved_at = Instant::now());
    }

    fn check_idle(&self) -> io::Result<()> {
        let mut moved_at = Instant::now();
        self.note(|ends| moved_at = ends.moved_at);
        match moved_at.elapsed() < IDLE_WITHIN {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "no byte went over the connection for an hour"))
            }
        }
    }
}

/// Passes bytes on between the wire and a local connection until both directions have ended. An error says that it broke
/// off before.
pub async fn relay<WR, WW, L>(wire: (WR, WW), local: L, side: Side) -> io::Result<()>
where
    WR: AsyncRead + Unpin,
    WW: AsyncWrite + Unpin,
    L: AsyncRead + AsyncWrite,
{
    let ((mut wire_in, wire_out), (local_in, local_out)) = (wire, tokio::io::split(local));
    let course = Course { ends: Mutex::new(Ends { said: false, heard: false, moved_at: Instant::now() }) };
    let (pings, to_answer) = mpsc::channel(1);
    let mut sender = Sender { wire: wire_out, side, frame: Vec::with_capacity(MAX_HEADER + PIECE) };
    tokio::select! {
        sent = sender.send_all(local_in, to_answer, &course) => sent?,
        heard = receive_all(&mut wire_in, local_out, side, &pings, &course) => heard?,
    }
    // The client closes, when it has heard all; so nothing of what is under way is lost.
    if side == Side::Client {
        sender.send(Kind::Close, &[]).await?;
    }
    let closed = async { while !matches!(receive(&mut wire_in, side).await, Ok(Kind::Close) | Err(_)) {} };
    let _ = timeout(CLOSED_WITHIN, closed).await;
    let _ = sender.wire.shutdown().await;
    Ok(())
}

struct Sender<W> {
    wire: W,
    side: Side,
    /// The frame that is sent.
    frame: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Sender<W> {
    /// Sends what comes, then that it was all, then that this side is there, for ever.
    async fn send_all(
        &mut self,
        mut local: impl AsyncRead + Unpin,
        mut to_answer: mpsc::Receiver<Vec<u8>>,
        course: &Course,
    ) -> io::Result<()> {
        let (mut piece, mut has_ended) = (vec![0; PIECE], false);
        loop {
            tokio::select! {
                read = local.read(&mut piece), if !has_ended => match read? {
                    0 => {
                        has_ended = true;
                        self.send(Kind::Text, END).await?;
                        if course.note(|ends| ends.said = true) {
                            return Ok(());
                        }
                    }
                    length => {
                        self.send(Kind::Binary, &piece[..length]).await?;
                        course.moved();
                    }
                },
                Some(ping) = to_answer.recv() => self.send(Kind::Pong, &ping).await?,
                () = sleep(KEEP_ALIVE) => {
                    course.check_idle()?;
                    self.send(Kind::Ping, &[]).await?;
                }
            }
        }
    }

    async fn send(&mut self, kind: Kind, content: &[u8]) -> io::Result<()> {
        // It keeps proxies from taking content for a request of its own, and no secret.
        let mask = (self.side == Side::Client).then(|| fastrand::u32(..).to_ne_bytes());
        self.frame.clear();
        Header::whole(kind, content.len(), mask).encode(&mut self.frame);
        let begin = self.frame.len();
        self.frame.extend(content);
        apply_mask(&mut self.frame[begin..], mask, 0);
        self.wire.write_all(&self.frame).await?;
        self.wire.flush().await
    }
}

/// Hands on what comes, and goes on listening when that was all, for the connection may break.
async fn receive_all(
    wire: &mut (impl AsyncRead + Unpin),
    local: impl AsyncWrite + Unpin,
    side: Side,
    pings: &mpsc::Sender<Vec<u8>>,
    course: &Course,
) -> io::Result<()> {
    let (mut local, mut of) = (Some(local), Kind::Binary);
    loop {
        let header = heard(Header::read(wire, side == Side::Server)).await?;
        let kind = match header.kind {
            Kind::Continuation => of,
            kind => kind,
        };
        match kind {
            Kind::Binary => {
                of = Kind::Binary;
                hand_on(wire, header, &mut local, course).await?;
            }
            Kind::Close => {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the other side broke off"));
            }
            Kind::Text if content(wire, header).await? == END => {
                if let Some(mut local) = local.take() {
                    // Somebody who reads no more need not be told.
                    let _ = local.shutdown().await;
                }
                if course.note(|ends| ends.heard = true) {
                    return Ok(());
                }
            }
            Kind::Text => return Err(wrong("a text that is not `end`")),
            // An answer that is due anyway is enough.
            Kind::Ping => drop(pings.try_send(content(wire, header).await?)),
            Kind::Pong | Kind::Continuation => drop(content(wire, header).await?),
        }
    }
}

/// Writes the content of a frame to the local connection. One that takes no more may still have something to say.
async fn hand_on(
    wire: &mut (impl AsyncRead + Unpin),
    header: Header,
    local: &mut Option<impl AsyncWrite + Unpin>,
    course: &Course,
) -> io::Result<()> {
    let (mut piece, mut place) = (vec![0; PIECE.min(usize::try_from(header.length).unwrap_or(PIECE))], 0);
    while place < header.length {
        let most = usize::try_from(header.length - place).unwrap_or(PIECE).min(PIECE);
        let length = heard(wire.read(&mut piece[..most])).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        apply_mask(&mut piece[..length], header.mask, place);
        place += length as u64;
        if let Some(writer) = local
            && writer.write_all(&piece[..length]).await.is_err()
        {
            *local = None;
        }
        course.moved();
    }
    if let Some(writer) = local {
        let _ = writer.flush().await;
    }
    Ok(())
}

/// Reads a frame of which only the kind counts.
async fn receive(wire: &mut (impl AsyncRead + Unpin), side: Side) -> io::Result<Kind> {
    let header = Header::read(wire, side == Side::Server).await?;
    content(wire, header).await?;
    Ok(header.kind)
}

/// The content of a short frame.
async fn content(wire: &mut (impl AsyncRead + Unpin), header: Header) -> io::Result<Vec<u8>> {
    let length = usize::try_from(header.length).ok().filter(|length| *length <= 125);
    let mut content = vec![0; length.ok_or_else(|| wrong("a long text"))?];
    heard(wire.read_exact(&mut content)).await?;
    apply_mask(&mut content, header.mask, 0);
    Ok(content)
}

async fn heard<T>(reading: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let silence = |_| io::Error::new(io::ErrorKind::TimedOut, "the other side of the tunnel went silent");
    timeout(HEARD_WITHIN, reading).await.map_err(silence)?
}

#[cfg(test)]
mod tests;
