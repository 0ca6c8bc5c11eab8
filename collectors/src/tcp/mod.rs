//! `tcp`: an open port, and the time that connecting takes. A closed port is an answer, not a failure.
//!
//! The time is that of the connection alone, without the look-up of the name. On request something is sent, and
//! something expected in what comes back, of which no more than the beginning is read.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::blocking::BlockingRuntime;
use crate::bounds::{Barrier, Bounds};
use crate::{Collector, CollectorKind, Failure, Param, Params, Reading, Surroundings};

#[cfg(test)]
mod tests;

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "tcp",
    about: "an open port, and the time that connecting takes",
    params: &[
        Param::required("address", "`host:port`; IPv6 in brackets"),
        Param::optional(
            "send",
            "bytes that are sent once connected; `\\r`, `\\n`, `\\t`, `\\\\` are understood",
        ),
        Param::optional("expect", "bytes that the answer must contain, likewise"),
    ],
    default: None,
    make,
};

/// The expected bytes must come within as many.
const MOST_READ: usize = 64 * 1024;

/// As much of an answer is shown.
const MOST_SHOWN: usize = 256;

/// A name with more addresses is tried at these first ones.
const MOST_ADDRESSES: usize = 8;

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let address = params.required("address")?;
    let (host, port) = split(&address)
        .ok_or_else(|| format!("the parameter `address` is `{address}`; expected `host:port`"))?;
    let send =
        params.text("send").filter(|text| !text.is_empty()).map(|text| unescaped(&text)).transpose()?;
    let expect =
        params.text("expect").filter(|text| !text.is_empty()).map(|text| unescaped(&text)).transpose()?;
    let bounds = around.bounds.clone();
    Ok(Box::new(Tcp { host, port, send, expect, bounds, runtime: BlockingRuntime::new()? }))
}

fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        // An IPv6 address without brackets leaves open where the port begins.
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        out.push(match letter {
            '\\' => match rest.next() {
                Some('r') => '\r',
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err(format!("`{text}` has a `\\` before something else than r, n, t or \\")),
            },
            letter => letter,
        });
    }
    Ok(out.into_bytes())
}

struct Tcp {
    host: String,
    port: u16,
    send: Option<Vec<u8>>,
    expect: Option<Vec<u8>>,
    bounds: Bounds,
    runtime: BlockingRuntime,
}

enum NoConnection {
    /// The operator of the node does not allow it.
    Refused(String),
    Closed(&'static str),
}

impl Collector for Tcp {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let (stream, address, took) = match self.runtime.wait(until, self.connect(until)) {
            None => return Ok(closed("timeout")),
            Some(Err(NoConnection::Refused(why))) => return Err(Failure::Refused(why)),
            Some(Err(NoConnection::Closed(why))) => return Ok(closed(why)),
            Some(Ok(connected)) => connected,
        };
        let mut value = json!({"open": true, "seconds": seconds(took), "address": address.to_string()});
        if self.send.is_some() || self.expect.is_some() {
            let begun = Instant::now();
            let mut answer = Vec::new();
            let exchanged = self.runtime.wait(until, self.exchange(stream, &mut answer));
            let error = exchanged.unwrap_or(Err("timeout")).err();
            if self.expect.is_some() {
                value["expected"] = json!(error.is_none());
                value["answerSeconds"] = json!(seconds(begun.elapsed()));
                value["answer"] = json!(shown(&answer));
            }
            if let Some(error) = error {
                value["error"] = json!(error);
            }
        }
        Ok(Reading::Here(value))
    }
}

impl Tcp {
    /// Connects to the first of the name's addresses that lets it, each having its share of the time that is left.
    async fn connect(&self, until: Instant) -> Result<(TcpStream, SocketAddr, Duration), NoConnection> {
        let mut addresses =
            self.bounds.find_addresses(&self.host, self.port).await.map_err(|barrier| match barrier {
                Barrier::Refused(why) => NoConnection::Refused(why),
                Barrier::Io(_) => NoConnection::Closed("name not found"),
            })?;
        addresses.truncate(MOST_ADDRESSES);
        let mut why = "name not found";
        for (tried, address) in addresses.iter().enumerate() {
            let begun = Instant::now();
            let left = u32::try_from(addresses.len() - tried).unwrap_or(1);
            let share = until.saturating_duration_since(begun) / left;
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, *address, begun.elapsed())),
                Ok(Err(error)) => why = reason(&error),
                Err(_) => why = "timeout",
            }
        }
        Err(NoConnection::Closed(why))
    }

    /// Sends, then reads until what is expected has come. A peer may answer without reading what it is sent.
    async fn exchange(&self, mut stream: TcpStream, answer: &mut Vec<u8>) -> Result<(), &'static str> {
        let (mut reads, mut writes) = stream.split();
        let send = async {
            match &self.send {
                Some(send) => writes.write_all(send).await.map_err(|error| reason(&error)),
                None => Ok(()),
            }
        };
        let Some(expect) = &self.expect else { return send.await };
        let read = async {
            let mut block = [0; 4096];
            loop {
                let count = reads.read(&mut block).await.map_err(|error| reason(&error))?;
                let searched = answer.len().saturating_sub(expect.len());
                answer.extend_from_slice(&block[..count]);
                if answer[searched..].windows(expect.len()).any(|part| part == expect) {
                    return Ok(());
                }
                match count {
                    0 => return Err("ended"),
                    _ if answer.len() > MOST_READ => return Err("too much"),
                    _ => {}
                }
            }
        };
        tokio::pin!(send, read);
        tokio::select! {
            read = &mut read => read,
            sent = &mut send => match sent {
                Ok(()) => read.await,
                // The bytes before the peer closed may hold the expected ones.
                Err(why) => read.await.map_err(|_| why),
            },
        }
    }
}

fn closed(why: &str) -> Reading {
    Reading::Here(json!({"open": false, "error": why}))
}

fn reason(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind as Of;
    match error.kind() {
        Of::ConnectionRefused => "refused",
        Of::TimedOut => "timeout",
        Of::ConnectionReset | Of::ConnectionAborted | Of::BrokenPipe => "reset",
        _ => "unreachable",
    }
}

/// To the microsecond.
fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e6
}

fn shown(answer: &[u8]) -> Value {
    let begin = &answer[..answer.len().min(MOST_SHOWN)];
    json!(String::from_utf8_lossy(begin))
}
