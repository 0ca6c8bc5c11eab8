//! A reservation service of its own is killed beside a ledger that lives: whatever it had asked for is promised once or not at
//! all, paid for or given back, and nothing stays promised that nobody has.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

/// The seconds of a slot: long, so that prices that are known stay right while the ledger is out of reach.
pub const SLOT: u64 = 30;

pub struct Beside {
    /// Its helpers ask the service beside.
    pub plane: Plane,
    service: Estimand,
    /// In front of the ledger.
    pub proxy: Proxy,
    pub ledger: Http,
    pub cpu: f64,
}

impl Beside {
    pub fn start() -> Beside {
        let mut plane = Plane::start();
        let cpu = plane.processors();
        let address: SocketAddr = plane.http.authority().parse().unwrap();
        let proxy = Proxy::to(address);
        let slot = format!("{SLOT}s");
        let args = ["reservation-service", "--task-service", &proxy.url(), "--price-slot", &slot];
        let service =
            process::estimand().args(args).args(["--price-horizon", "2h"]).port(free_port()).start();
        let ledger = std::mem::replace(&mut plane.http, service.http());
        plane.grant("ada", "1000000");
        let beside = Beside { plane, service, proxy, ledger, cpu };
        beside.until_priced();
        beside
    }

    fn until_priced(&self) {
        wait::until_ok(PATIENCE, "prices", || {
            let path = format!("/api/reservations/prices?resources=cpu=0.001&duration={SLOT}s&by=10m");
            let prices = self.plane.http.get(&path);
            if prices.status == 200 { Ok(()) } else { Err(prices) }
        });
    }

    /// Waits for a time at which no slot ends soon.
    pub fn begin_of_slot(&self) {
        wait::until(PATIENCE, "the begin of a slot", || {
            let at = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() % SLOT;
            (1..SLOT / 2).contains(&at).then_some(())
        });
        // A real request has the prices of this slot read, also if it is refused.
        let worthless = json!({ "resources": { "cpu": 0.001 }, "duration": SLOT, "value": 0, "user": "ada" });
        assert_eq!(self.plane.reserve(&worthless).expect_problem(409)["type"], "price-above-value");
    }

    /// The whole node at one certain time, in so many minutes.
    fn whole(&self, minutes: u64) -> Value {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let from = (now + minutes * 60).next_multiple_of(SLOT);
        let instant = |at: u64| chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339();
        json!({ "resources": { "cpu": self.cpu }, "duration": SLOT, "from": instant(from), "by": instant(from + SLOT),
            "value": 1000, "user": "ada" })
    }

    /// Kills the service while it waits for the ledger, whose bytes the proxy holds; what it holds is lost.
    fn kill_and_cut(&mut self) {
        self.service.kill9();
        self.proxy.cut();
        self.proxy.resume();
    }

    fn restart(&mut self) {
        self.service.restart_on_same_port();
        self.until_priced();
        wait::until_ok(PATIENCE, "every order to be finished", || {
            let pending = self.plane.all("PENDING");
            if pending.is_empty() { Ok(()) } else { Err(json!(pending)) }
        });
    }

    /// The promises of the ledger that live.
    fn live(&self) -> BTreeSet<String> {
        let page =
            self.ledger.get("/api/capacity/promises?state=PROMISED&limit=1000").expect_status(200).json();
        let promises = page["promises"].as_array().unwrap().iter();
        promises.map(|promise| promise["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The promises are those of the reservations, and the credits add up.
    fn check(&self) {
        let promised: BTreeSet<String> = self
            .plane
            .all("PROMISED")
            .iter()
            .map(|one| one["promise"].as_str().unwrap().to_owned())
            .collect();
        wait::until_ok(PATIENCE, "the ledger to have what is reserved", || {
            let live = self.live();
            if live == promised { Ok(()) } else { Err(format!("{live:?}, reserved {promised:?}")) }
        });
        self.plane.check_money();
    }
}

fn ask(http: &Http, document: &Value, key: &str) -> std::io::Result<(u16, Value)> {
    let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
    let answer = http.try_request("POST", "/api/reservations", &headers, document.to_string().as_bytes())?;
    Ok((answer.status, answer.json()))
}

#[test]
fn killed_before_the_ledger_hears_of_it_or_after_it_promised() {
    let mut beside = Beside::start();
    // The ledger hears of the first one only after the restart, and of the second before the kill.
    for (number, is_heard) in [(0, false), (1, true)] {
        beside.begin_of_slot();
        let (document, key) = (beside.whole(20 + number), format!("kill {number}"));
        match is_heard {
            true => beside.proxy.pause_only(Way::ToClient),
            false => beside.proxy.pause(),
        }
        thread::scope(|scope| {
            let http = beside.service.http();
            let asking = scope.spawn({
                let (document, key) = (&document, &key);
                move || ask(&http, document, key)
            });
            let live = usize::from(is_heard) + number as usize;
            wait::until_ok(PATIENCE, "the order to be stored, and heard of", || {
                match (beside.plane.all("PENDING").len(), beside.live().len()) {
                    (1, promises) if promises == live => Ok(()),
                    other => Err(format!("{other:?}, not {live}")),
                }
            });
            beside.kill_and_cut();
            assert!(asking.join().unwrap().is_err(), "nobody answers");
        });
        beside.restart();
        let made = beside.plane.all("PROMISED");
        assert_eq!(made.len(), number as usize + 1, "{made:?}");
        beside.check();
        // Asked for again, it is the same one.
        let (status, again) = ask(&beside.plane.http, &document, &key).unwrap();
        assert_eq!((status, &again), (200, &made[0]));
    }

    // While it is away, somebody else takes the time that it had not ordered yet.
    beside.begin_of_slot();
    let document = beside.whole(40);
    beside.proxy.pause();
    thread::scope(|scope| {
        let http = beside.service.http();
        let asking = scope.spawn({
            let document = &document;
            move || ask(&http, document, "too late")
        });
        wait::until_ok(PATIENCE, "the order to be stored", || match beside.plane.all("PENDING").len() {
            1 => Ok(()),
            other => Err(other),
        });
        beside.kill_and_cut();
        assert!(asking.join().unwrap().is_err(), "nobody answers");
    });
    let grant = json!({ "user": "ada", "amount": "1000" });
    beside.ledger.send_json("POST", "/api/credits/grants", &grant).expect_status(201);
    let taken = beside.ledger.send_json("POST", "/api/reservations", &document).expect_status(201).json();
    beside.restart();
    let refused = beside.plane.all("REFUSED");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["refund"], refused[0]["price"]);
    let id = taken["id"].as_str().unwrap();
    beside.ledger.request("POST", &format!("/api/reservations/{id}/cancel"), &[], b"").expect_status(200);
    beside.check();
}

#[test]
fn killed_at_any_moment_while_clients_reserve() {
    let mut beside = Beside::start();
    let mut acknowledged: BTreeSet<String> = BTreeSet::new();
    for round in 0..3_u64 {
        let end = AtomicBool::new(false);
        let http = beside.service.http();
        let made = thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let (http, end) = (&http, &end);
                    scope.spawn(move || {
                        let asked = json!({ "resources": { "cpu": 0.01 }, "duration": SLOT, "from": "1h", "value": 1000,
                            "user": "ada" });
                        let mut made = Vec::new();
                        for number in 0.. {
                            if end.load(Ordering::Relaxed) {
                                break;
                            }
                            if let Ok((201, answer)) = ask(http, &asked, &format!("{round} {client} {number}")) {
                                made.push(answer["promise"].as_str().unwrap().to_owned());
                            }
                        }
                        made
                    })
                })
                .collect();
            wait::pass(Duration::from_millis(400 + 43 * round));
            beside.service.kill9();
            end.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        acknowledged.extend(made);
        beside.restart();
        beside.check();
        let live = beside.live();
        assert!(acknowledged.is_subset(&live), "acknowledged and gone: {:?}", acknowledged.difference(&live));
    }
    assert!(!acknowledged.is_empty());
}
