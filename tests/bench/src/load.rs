//! The load generator: keep-alive connections on one thread, one request under way on each.
//!
//! By hand over `epoll`, because it has to be far faster than what it measures: requests are bytes, and of a
//! response only its success and its length are looked at. It is a closed loop: a slow server is asked less
//! often. Any answer but a success ends the run with an error.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::contest::Sample;
use crate::histogram::Histogram;
use crate::nats;
use crate::reply::{Reply, Wire};

/// How long an answer may take.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
const MAX_EVENTS: usize = 256;
const READ_BYTES: usize = 256 * 1024;

/// Appends the next request; false if there is none any more.
pub trait Requests: Send {
    fn next(&mut self, out: &mut Vec<u8>) -> bool;
}

/// Open connections to one server.
pub struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    piece: Vec<u8>,
}

struct Connection {
    wire: Wire,
    stream: TcpStream,
    request: Vec<u8>,
    sent: usize,
    began: Instant,
    reply: Reply,
    /// True if `epoll` tells when more can be sent.
    is_stuck: bool,
}

impl Load {
    pub fn connect(server: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        Load::connect_by(Wire::Http, server, connections)
    }

    pub fn connect_by(wire: Wire, server: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut opened = Vec::new();
        for number in 0..connections {
            let stream = TcpStream::connect(server).with_context(|| format!("connecting to {server}"))?;
            stream.set_nodelay(true)?;
            epoll::add(&epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            opened.push(Connection::new(wire, stream));
        }
        if wire == Wire::Nats {
            nats::greet(opened.iter_mut().map(|connection| &mut connection.stream))?;
        }
        for connection in &opened {
            connection.stream.set_nonblocking(true)?;
        }
        Ok(Load { epoll, connections: opened, piece: vec![0; READ_BYTES] })
    }

    /// Sends requests for so long, or until there are no more, and waits for the last answers. Answers that come
    /// too late are not counted.
    pub fn drive(&mut self, requests: &mut dyn Requests, time: Duration) -> anyhow::Result<Sample> {
        let mut events = Vec::<Event>::with_capacity(MAX_EVENTS);
        let mut latencies = Histogram::default();
        let (began, busy_before) = (Instant::now(), busy());
        let end = began + time;
        let mut last = began;
        let mut under_way = 0;
        for number in 0..self.connections.len() {
            under_way += usize::from(self.send_next(number, requests)?);
        }
        while under_way > 0 {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, Some(&PATIENCE)) {
                Ok(0) => bail!("{under_way} requests were not answered within {} s", PATIENCE.tv_sec),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for answers"),
            }
            for event in &events {
                let number = event.data.u64() as usize;
                let connection = &mut self.connections[number];
                if connection.is_stuck {
                    connection.flush(&self.epoll, number)?;
                }
                if !connection.receive(&mut self.piece)? {
                    continue;
                }
                let now = Instant::now();
                if now < end {
                    latencies.record(now - connection.began);
                    last = now;
                }
                if now >= end || !self.send_next(number, requests)? {
                    under_way -= 1;
                }
            }
        }
        // All requests may have been answered before the time was over.
        let elapsed = if Instant::now() < end { last - began } else { time };
        let share = (busy() - busy_before).as_secs_f64() / began.elapsed().as_secs_f64();
        Ok(Sample { generator_busy: share, ..Sample::new(latencies, elapsed) })
    }

    fn send_next(&mut self, number: usize, requests: &mut dyn Requests) -> anyhow::Result<bool> {
        let connection = &mut self.connections[number];
        connection.request.clear();
        connection.sent = 0;
        if !requests.next(&mut connection.request) {
            return Ok(false);
        }
        if connection.wire == Wire::Nats {
            nats::sign(&mut connection.request, number)?;
        }
        connection.began = Instant::now();
        connection.flush(&self.epoll, number)?;
        Ok(true)
    }
}

impl Connection {
    fn new(wire: Wire, stream: TcpStream) -> Self {
        let (request, reply) = (Vec::new(), Reply::of(wire));
        Connection { wire, stream, request, sent: 0, began: Instant::now(), reply, is_stuck: false }
    }

    /// Sends as much of the request as the socket takes; `epoll` says when it takes the rest.
    fn flush(&mut self, epoll: &OwnedFd, number: usize) -> anyhow::Result<()> {
        while self.sent < self.request.len() {
            match self.stream.write(&self.request[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("sending a request"),
            }
        }
        let is_stuck = self.sent < self.request.len();
        if is_stuck != self.is_stuck {
            let interest = if is_stuck { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(epoll, &self.stream, EventData::new_u64(number as u64), interest)?;
            self.is_stuck = is_stuck;
        }
        Ok(())
    }

    /// Takes what has arrived, once; true if the response is complete.
    fn receive(&mut self, piece: &mut [u8]) -> anyhow::Result<bool> {
        match self.stream.read(piece) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => self.reply.take(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).context("reading a response"),
        }
    }
}

/// How long this thread has been running.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
