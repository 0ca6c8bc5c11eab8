//! Durable reservations: how long one takes for each of 64 clients, over plain TCP and over HTTP.
//!
//! A reservation is priced, its price is held, the ledger of the task service promises it, and that is stored: three commits
//! on SQLite before it is answered. The services and their ledger have the core of what is measured, the clients the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_testkit::http::Http;
use estimand_testkit::process::{Estimand, free_port};
use estimand_testkit::{TOKEN, wait};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::histogram::Histogram;
use crate::plane::Agent;
use crate::served::program;

/// The goal of p99 over TCP.
const SOON: Duration = Duration::from_millis(5);
const CLIENTS: usize = 64;
/// How often each client reserves when it does not do so as fast as it is answered: together 256 times a second.
const PACE: Duration = Duration::from_millis(250);
/// A resource of which there is always enough, and of tasks at the same time, of which a node takes 256 otherwise.
const SEATS: &str = "seats=1000000000";
const TASKS: &str = "tasks=1000000000";
const PATIENCE: Duration = Duration::from_secs(60);

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let cores = bench.cores;
    let lines = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let args = ["up", "--no-agent", "--workers", "1", "--defaults", "none", "--price-slot", "1s"];
    let terms = ["--price-horizon", "1h", "--price", "seats=0.01", "--reservations-lines"];
    let services = Estimand::builder(program()?).args(args).args(terms).args([lines.to_string()]);
    let services =
        services.data_dir(bench.place.path("reservations")).try_start().map_err(anyhow::Error::msg)?;
    let base = services.base_url();
    let args = [
        "agent",
        "--allow-all",
        "--allow-users-as-agent",
        "--server",
        base,
        "--node",
        "bench",
        "--label",
        SEATS,
        "--label",
        TASKS,
    ];
    let _agent = Agent::start(Estimand::builder(program()?).args(args), "bench")?;
    let http = services.http();
    until_priced(&http)?;
    let grant = json!({ "user": "bench", "amount": "1000000000" });
    http.send_json("POST", "/api/credits/grants", &grant).expect_status(201);

    let (mut over_lines, mut over_http) = (Histogram::default(), Histogram::default());
    let of_lines: Side<'_> = Box::new(|time| {
        let sample = cores.on_load_core(|| load(base, time, None, |_| Line::open(lines)))?;
        over_lines.add(&sample.latencies);
        Ok(sample)
    });
    let of_http: Side<'_> = Box::new(|time| {
        let sample = cores.on_load_core(|| load(base, time, None, |_| Ok(Http::new(base))))?;
        over_http.add(&sample.latencies);
        Ok(sample)
    });
    let [by_line, by_request] = contest(bench.plan, [of_lines, of_http])?;
    let mut paced = Histogram::default();
    for _ in 0..bench.plan.rounds {
        let sample = cores.on_load_core(|| load(base, bench.plan.time, Some(PACE), |_| Line::open(lines)))?;
        paced.add(&sample.latencies);
    }
    let report = &mut bench.report;
    report.part(&format!("durable reservations, {CLIENTS} clients, each waits for its answer"));
    report.ratio("over plain TCP, a line each", "over HTTP", None, &by_line, &by_request);
    let rate = CLIENTS as f64 / PACE.as_secs_f64();
    report.timing(&format!("over plain TCP, {rate} a second (p99 to stay under {SOON:?})"), &paced);
    report.timing("over plain TCP, as fast as answered", &over_lines);
    report.timing("over HTTP, as fast as answered", &over_http);
    Ok(())
}

/// The first price waits for the node to be known.
fn until_priced(http: &Http) -> anyhow::Result<()> {
    let prices = || {
        let answer = http.get("/api/reservations/prices?resources=seats=1&duration=1s&by=1m");
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    };
    wait::poll(PATIENCE, prices).map_err(|answer| anyhow::anyhow!("there are no prices: {answer}"))
}

/// The answer that says to ask again with the same key. The time of that counts, too.
const BUSY: u64 = 503;

/// A client that reserves.
trait Client {
    /// Asks for a reservation under a key, waits until that is answered, and gives the status and what came with it.
    fn ask_for(&mut self, document: &Value, key: &str) -> anyhow::Result<(u64, Value)>;

    /// Asks until it is reserved, and gives the reservation.
    fn reserve(&mut self, document: &Value, key: &str) -> anyhow::Result<Value> {
        let (began, mut is_again) = (Instant::now(), false);
        loop {
            let (status, answer) = self.ask_for(document, key)?;
            if status != BUSY || began.elapsed() > PATIENCE {
                // The outcome of the first attempt may have been unknown, and good.
                ensure!(status == 201 || is_again && status == 200, "{document}: {status}, {answer}");
                return Ok(answer);
            }
            is_again = true;
        }
    }
}

struct Line {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Line {
    fn open(address: SocketAddr) -> anyhow::Result<Line> {
        let stream = TcpStream::connect(address).context("connecting over TCP")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = Line { reader: BufReader::new(stream.try_clone()?), stream };
        line.ask(&json!({ "token": TOKEN }), 200)?;
        Ok(line)
    }

    fn ask(&mut self, request: &Value, status: u16) -> anyhow::Result<Value> {
        let read = self.answer(request)?;
        ensure!(read["status"] == status, "{request}: {read}");
        Ok(read["body"].clone())
    }

    fn answer(&mut self, request: &Value) -> anyhow::Result<Value> {
        self.stream.write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        self.reader.read_line(&mut answer)?;
        serde_json::from_str(&answer).with_context(|| format!("the answer {answer:?}"))
    }
}

impl Client for Line {
    fn ask_for(&mut self, document: &Value, key: &str) -> anyhow::Result<(u64, Value)> {
        let answer = self.answer(&json!({ "reserve": document, "key": key }))?;
        Ok((answer["status"].as_u64().unwrap_or_default(), answer["body"].clone()))
    }
}

impl Client for Http {
    fn ask_for(&mut self, document: &Value, key: &str) -> anyhow::Result<(u64, Value)> {
        let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
        let answer = self.request("POST", "/api/reservations", &headers, document.to_string().as_bytes());
        Ok((answer.status.into(), answer.json()))
    }
}

/// All clients reserve for so long, each one reservation after the other, at once or at its pace. A reservation that is due
/// while the one before it is not answered is late, and that counts.
fn load<C: Client + Send>(
    base: &str,
    time: Duration,
    pace: Option<Duration>,
    open: impl Fn(usize) -> anyhow::Result<C> + Sync,
) -> anyhow::Result<Sample> {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let document =
        json!({ "resources": { "seats": 1 }, "duration": 1, "from": "20m", "value": 9, "user": "bench" });
    let clients: Vec<C> = (0..CLIENTS).map(&open).collect::<anyhow::Result<_>>()?;
    let began = Instant::now();
    let reserve = |place: u32, mut client: C| -> anyhow::Result<(Histogram, Vec<Value>)> {
        let (mut latencies, mut reserved) = (Histogram::default(), Vec::new());
        // They begin one after the other.
        let mut due = began + pace.unwrap_or_default() * place / CLIENTS as u32;
        while began.elapsed() < time {
            let key = format!("bench {}", KEYS.fetch_add(1, Ordering::Relaxed));
            let asked = match pace {
                None => Instant::now(),
                Some(pace) => {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    due += pace;
                    due - pace
                }
            };
            let reservation = client.reserve(&document, &key)?;
            latencies.record(asked.elapsed());
            reserved.push(reservation);
        }
        Ok((latencies, reserved))
    };
    let done = each(clients, reserve)?;
    let elapsed = began.elapsed();
    let mut all = Histogram::default();
    done.iter().for_each(|(latencies, _)| all.add(latencies));
    give_back(base, done.into_iter().map(|(_, reserved)| reserved).collect())?;
    Ok(Sample::new(all, elapsed))
}

/// Cancels what was reserved, which nobody measures: so many promises at a time are all there may be.
fn give_back(base: &str, reserved: Vec<Vec<Value>>) -> anyhow::Result<()> {
    each(reserved, |_, reserved| {
        let http = Http::new(base);
        for reservation in &reserved {
            let id = reservation["id"].as_str().context("a reservation without an id")?;
            let cancelled = || match http.request("POST", &format!("/api/reservations/{id}/cancel"), &[], b"")
            {
                answer if answer.status == 200 => Ok(()),
                // Sixty-four clients at once may meet a service that has too much to do.
                answer => Err(answer),
            };
            wait::poll(PATIENCE, cancelled)
                .map_err(|answer| anyhow::anyhow!("{id} is not cancelled: {answer}"))?;
        }
        Ok(())
    })
    .map(drop)?;
    // The ledger moves on with each step of that, and has what is reserved meanwhile priced anew.
    let http = Http::new(base);
    let released = || {
        let live = http.get("/api/capacity/promises?state=PROMISED&limit=1");
        let is_none = live.status == 200 && live.json()["promises"] == json!([]);
        is_none.then_some(()).ok_or(live)
    };
    wait::poll(PATIENCE, released).map_err(|live| anyhow::anyhow!("something is promised still: {live}"))
}

/// Runs the same with each, all at the same time.
fn each<T: Send, R: Send>(
    all: Vec<T>,
    run: impl Fn(u32, T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> =
            (0..).zip(all).map(|(place, one)| scope.spawn(move || run(place, one))).collect();
        let end = |one: thread::ScopedJoinHandle<'_, _>| {
            one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(end).collect()
    })
}
