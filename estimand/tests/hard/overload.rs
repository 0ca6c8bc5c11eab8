//! More writes than can be stored, for some time.
//!
//! The sustainable rate is measured first, in the same run, with a database that takes its time for a commit: so the
//! bound is the database's, not that of a machine which also has to make all these writes. All values are there before, so
//! that whatever memory grows by is not what is known; and twice as many writers must find as much room as half of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::http::Http;
use estimand_testkit::process::{estimand, free_port};
use estimand_testkit::proxy::Proxy;
use estimand_testkit::{databases, processes};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::figures::{Times, mebibytes};
use crate::{long_or, put};

/// So many writers fill a commit, and the room for those that wait is for a few times as many.
const SUSTAINED: usize = 150;
const TOO_MANY: usize = 1_600;
const FAR_TOO_MANY: usize = 2 * TOO_MANY;
const VALUE_BYTES: usize = 60 << 10;
const LATENCY: Duration = Duration::from_millis(150);
/// How much worse a reader's p99 may become; the machine has to make all these writes, too.
const WORSE: u32 = 25;
const FAST: Duration = Duration::from_millis(250);
/// The memory that writes may take, however many there are (invariant 8 of ARCHITECTURE.md), and what allocators add to it.
const MOST_GROWTH: u64 = (256 + 64) << 20;
/// A connection's own buffers, its task, and a socket.
const CONNECTION_BYTES: u64 = 64 << 10;

/// A load that gets little of the processor goes on for so many times as long until something was refused.
const PATIENCE: u32 = 30;
/// A service waits some five seconds for a request; a load that has no processor for as long is cut off.
const SENT_WITHIN: Duration = Duration::from_secs(4);

#[derive(Default)]
struct Counts {
    stored: AtomicU64,
    refused: AtomicU64,
    /// Not sent in time, by this machine.
    late: AtomicU64,
    broken: AtomicU64,
}

/// A load goes on until its end, and beyond it until it is an overload if it is to be one.
#[derive(Clone, Copy)]
struct Span {
    end: Instant,
    latest: Instant,
}

impl Span {
    fn goes_on(&self, counts: &Counts) -> bool {
        let now = Instant::now();
        now < self.end || (now < self.latest && counts.refused.load(Ordering::Relaxed) == 0)
    }
}

/// The number that each writer had acknowledged last, and sent last.
type Marks = Vec<(AtomicU64, AtomicU64)>;

/// Ends the reader also when a check has failed.
struct Stop<'d>(&'d AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn spans(short: u64, long: u64) -> Duration {
    Duration::from_secs(long_or(long, short))
}

/// So many writers, each on a connection of its own, each sending the next as soon as it is answered.
fn offer(address: SocketAddr, marks: &Arc<Marks>, writers: usize, span: Span) -> Counts {
    let counts = Arc::new(Counts::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let filler: Arc<str> = "x".repeat(VALUE_BYTES).into();
        let tasks: Vec<_> = (0..writers)
            .map(|place| {
                let (counts, marks, filler) = (Arc::clone(&counts), Arc::clone(marks), Arc::clone(&filler));
                tokio::spawn(async move {
                    while span.goes_on(&counts) {
                        let wrote = write_until(address, place, &marks[place], &filler, &counts, span).await;
                        let Err(error) = wrote else { break };
                        let late = error.kind() == std::io::ErrorKind::TimedOut;
                        let count = if late { &counts.late } else { &counts.broken };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    Arc::into_inner(counts).unwrap()
}

async fn write_until(
    address: SocketAddr,
    place: usize,
    (acknowledged, sent): &(AtomicU64, AtomicU64),
    filler: &str,
    counts: &Counts,
    span: Span,
) -> std::io::Result<()> {
    let mut free_since = Instant::now();
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    while span.goes_on(counts) {
        let number = sent.fetch_add(1, Ordering::AcqRel) + 1;
        let body = format!(r#"{{"dataName":"w{place}","nodeName":"n","dataValue":"{number} {filler}"}}"#);
        let head =
            format!("PUT /api/data HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut sent_after = None;
        let answer = async {
            stream.get_mut().write_all(head.as_bytes()).await?;
            stream.get_mut().write_all(body.as_bytes()).await?;
            sent_after = Some(free_since.elapsed());
            read_answer(&mut stream).await
        }
        .await;
        let (status, retry) = answer.map_err(|error| {
            let late = sent_after.unwrap_or_else(|| free_since.elapsed()) > SENT_WITHIN;
            if late { std::io::ErrorKind::TimedOut.into() } else { error }
        })?;
        free_since = Instant::now();
        match status {
            200 | 201 => {
                acknowledged.store(number, Ordering::Release);
                counts.stored.fetch_add(1, Ordering::Relaxed);
            }
            503 if retry => drop(counts.refused.fetch_add(1, Ordering::Relaxed)),
            // This machine was not able to send it in time.
            408 => return Err(std::io::ErrorKind::TimedOut.into()),
            _ => panic!("a write was answered {status}"),
        }
    }
    Ok(())
}

/// The status of a response, and whether it says when to come again.
async fn read_answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u16, bool)> {
    let (mut line, mut status, mut length, mut retry) = (String::new(), 0, 0, false);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let lower = line.trim().to_ascii_lowercase();
        match lower.split_once(": ") {
            _ if lower.starts_with("http/1.1 ") => status = lower[9..12].parse().unwrap(),
            Some(("content-length", text)) => length = text.parse().unwrap(),
            Some(("retry-after", _)) => retry = true,
            _ if lower.is_empty() => break,
            _ => {}
        }
    }
    stream.read_exact(&mut vec![0; length]).await?;
    Ok((status, retry))
}

#[test]
fn more_writes_than_can_be_stored_harm_no_reader_and_lose_nothing() {
    let _alone = crate::with_the_processor();
    let server = databases::postgres();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let store =
        server.fresh_url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.address().port()));
    let up = estimand().args(["up", "--no-agent"]).port(free_port()).store(store).start();
    let address: SocketAddr = up.base_url().strip_prefix("http://").unwrap().parse().unwrap();
    let http = up.http();
    put(&http, "known", 1).expect_status(201);
    fill(&http);
    proxy.set_latency(LATENCY);
    let marks: Arc<Marks> = Arc::new((0..FAR_TOO_MANY).map(|_| (0.into(), 0.into())).collect());

    let measured = |writers, lasts: Duration, patience: u32| {
        let (done, began) = (AtomicBool::new(false), Instant::now());
        let span = Span { end: began + lasts, latest: began + lasts * patience };
        std::thread::scope(|scope| {
            let reader =
                scope.spawn(|| Times::of_reads(&Http::new(up.base_url()), "/api/data/known/n", 100, &done));
            let load = scope.spawn(|| {
                let _stop = Stop(&done);
                // On a machine of few cores the reader would wait for this load, not for the service.
                processes::give_way();
                offer(address, &marks, writers, span)
            });
            (load.join().unwrap(), began.elapsed().as_secs_f64(), reader.join().unwrap())
        })
    };
    let (sustained, took, before) = measured(SUSTAINED, spans(3, 20), 1);
    let rate = sustained.stored.into_inner() as f64 / took;
    println!("sustainable {rate:.0}/s; {before}");
    let memory = up.rss_bytes();
    for writers in [TOO_MANY, FAR_TOO_MANY] {
        let (counts, took, now) = measured(writers, spans(6, 60), PATIENCE);
        let Counts { stored, refused, late, broken } = counts;
        let [stored, refused, late, broken] = [stored, refused, late, broken].map(AtomicU64::into_inner);
        let offered = (stored + refused + late + broken) as f64 / took;
        let grown = processes::peak_rss_bytes(up.pid()).saturating_sub(memory);
        println!(
            "{writers} writers: {:.1} times as many, {stored} stored, {refused} refused, {late} sent too slowly, {broken} connections broken; \
             at most {} MiB more, {} now; {now}, {:.1} times as long",
            offered / rate,
            mebibytes(grown),
            mebibytes(up.rss_bytes().saturating_sub(memory)),
            now.p99().as_secs_f64() / before.p99().as_secs_f64()
        );
        assert!(refused > 0, "all of {stored} were stored: that was no overload");
        // A refused client gets an answer, and is not cut off.
        assert!(broken * 100 <= refused, "{broken} connections broken, {refused} refused");
        let most = MOST_GROWTH + writers as u64 * CONNECTION_BYTES;
        assert!(grown < most, "{} MiB", mebibytes(grown));
        assert!(now.p99() < (before.p99() * WORSE).max(FAST), "{before} before, {now} meanwhile");
    }

    // It recovers, and everything that was acknowledged is there.
    proxy.set_latency(Duration::ZERO);
    crate::until_taken(&http, "afterwards");
    for (place, (acknowledged, sent)) in marks.iter().enumerate() {
        let [acknowledged, sent] = [acknowledged, sent].map(|number| number.load(Ordering::Acquire));
        let answer = http.get(&format!("/api/data/w{place}/n"));
        let stored = number(&answer.expect_status(200).json());
        assert!(
            (acknowledged..=sent).contains(&stored),
            "w{place}: {acknowledged} acknowledged, {stored} stored"
        );
    }
}

/// Writes everything once.
fn fill(http: &Http) {
    let value = format!("0 {}", "x".repeat(VALUE_BYTES));
    let items: Vec<Value> = (0..FAR_TOO_MANY)
        .map(|place| json!({"dataName": format!("w{place}"), "nodeName": "n", "dataValue": value}))
        .collect();
    for some in items.chunks(100) {
        http.send_json("POST", "/api/data/batch", &some.into()).expect_status(200);
    }
}

fn number(value: &Value) -> u64 {
    value["dataValue"].as_str().and_then(|text| text.split(' ').next()?.parse().ok()).unwrap()
}
