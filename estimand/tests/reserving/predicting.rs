//! Demand is predicted from bids: a time that was wanted is dear a period later, whether it was had or not; and predictors are
//! swapped by a binding, as any estimator is.

use estimand_testkit::plane::put;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Plane, credits};

/// The seconds after which demand repeats itself, and of the part of them within which it counts as alike.
const PERIOD: u64 = 240;
const PART: u64 = 10;
/// The least price of a unit and slot is 10 microcredits.
const FLOOR: &str = "cpu=36";
const NAME: &str = "reservation_predictor";

struct Sale {
    plane: Plane,
    cpu: f64,
    /// The first second of the time that everybody wants, in the first period.
    busy: u64,
}

fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn instant(at: u64) -> String {
    chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339()
}

impl Sale {
    fn open() -> Sale {
        let plane = Plane::selling(&["--price", FLOOR]);
        let cpu = plane.processors();
        plane.grant("ada", "1000000");
        Sale { plane, cpu, busy: (now() + 60).next_multiple_of(PART) }
    }

    /// The least price of the whole node for a part of the period, in microcredits.
    fn least(&self) -> u64 {
        (self.cpu * 1000.0) as u64 * PART * 10
    }

    /// The whole node for a part of the period, worth so many times what it costs at least.
    fn document(&self, from: u64, times: f64) -> Value {
        let value = format!("{:.6}", self.least() as f64 * times / 1e6);
        json!({ "resources": { "cpu": self.cpu }, "duration": PART, "from": instant(from), "by": instant(from + PART),
            "value": value, "user": "ada" })
    }

    /// The cost of that now, as a multiple of the least price; none: there are no prices yet.
    fn price(&self, from: u64) -> Option<f64> {
        let mut document = self.document(from, 1.0);
        document["dryRun"] = json!(true);
        let answer = self.plane.http.send_json("POST", "/api/reservations", &document);
        (answer.status == 200).then(|| credits(&answer.json()["price"]) as f64 / self.least() as f64)
    }

    /// The busy time, a period later.
    fn busy_again(&self) -> u64 {
        self.busy + PERIOD
    }

    fn quiet(&self) -> u64 {
        self.busy + PERIOD + 5 * PART
    }

    fn bind(&self, to: &str) {
        let path = format!("/api/bindings/{NAME}");
        let answer = self.plane.http.send_json("PUT", &path, &json!({ "to": to }));
        assert!(matches!(answer.status, 200 | 201), "{answer}");
    }

    /// Waits until the busy time costs so many times the least price.
    #[track_caller]
    fn wait_price(&self, least: f64, most: f64) {
        wait::until_ok(PATIENCE, &format!("a price of {least} to {most}"), || {
            match self.price(self.busy_again()) {
                Some(price) if (least..=most).contains(&price) => Ok(()),
                price => Err(format!("{price:?}, {}", self.predictor())),
            }
        });
        assert_eq!(self.price(self.quiet()), Some(1.0), "nobody wants this time");
    }

    /// The predictor in force.
    fn predictor(&self) -> Value {
        let prices = self.plane.http.get("/api/reservations/prices?resources=cpu=1&duration=1s&by=1m");
        prices.expect_status(200).json()["predictor"].clone()
    }

    fn metric(&self, series: &str) -> f64 {
        let text = self.plane.http.get("/metrics").expect_status(200).text().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
    }
}

#[test]
fn a_busy_time_is_dear_a_period_later_and_predictors_are_swapped_by_a_binding() {
    let mut sale = Sale::open();
    assert_eq!(sale.predictor(), json!({ "name": "nothing", "period": 86_400, "bids": 0 }));
    // One has the busy time, cheaply; two who would pay twenty times as much come too late.
    sale.plane.reserve(&sale.document(sale.busy, 1.2)).expect_status(201);
    for _ in 0..2 {
        let refused = sale.plane.reserve(&sale.document(sale.busy, 20.0)).expect_problem(409);
        assert_eq!(refused["type"], "infeasible", "{refused}");
    }
    let low = sale.plane.reserve(&sale.document(sale.quiet(), 0.5)).expect_problem(409);
    assert_eq!(low["type"], "price-above-value", "{low}");
    // A price that is asked for is no bid.
    assert_eq!((sale.price(sale.busy_again()), sale.price(sale.quiet())), (Some(1.0), Some(1.0)));
    let outcome =
        |outcome: &str| sale.metric(&format!("estimand_reservation_requests_total{{outcome=\"{outcome}\"}}"));
    let counted = ["granted", "infeasible", "price-above-value", "too-few-credits"].map(outcome);
    assert_eq!(counted, [1.0, 2.0, 1.0, 0.0]);

    let period = format!("{PERIOD}s");
    for method in ["seasonal", "spread", "optimum"] {
        put(&sale.plane.http, method, json!({ "predictor": method, "period": period }));
    }
    put(&sale.plane.http, "no_demand", "nothing");
    sale.bind("seasonal");
    sale.wait_price(18.0, 21.0);
    let predictor = sale.predictor();
    assert_eq!((&predictor["name"], &predictor["period"]), (&json!("seasonal"), &json!(PERIOD)));
    assert_eq!(predictor["bids"], 4, "granted and refused: {predictor}");
    assert!(predictor["trainedAt"].is_string() && predictor["since"].is_string(), "{predictor}");
    assert_eq!(sale.metric("estimand_reservation_predictor{name=\"seasonal\"}"), 1.0);
    assert!(sale.metric("estimand_reservation_trainings_total{outcome=\"ok\"}") >= 1.0);

    for (to, least, most) in [("no_demand", 1.0, 1.0), ("spread", 18.0, 21.0), ("optimum", 18.0, 21.0)] {
        sale.bind(to);
        sale.wait_price(least, most);
    }
    sale.bind("no_demand");
    sale.wait_price(1.0, 1.0);
    let back = format!("/api/bindings/{NAME}/rollback");
    sale.plane.http.request("POST", &back, &[], b"").expect_status(200);
    sale.wait_price(18.0, 21.0);
    assert_eq!(sale.predictor()["name"], "optimum");
    sale.bind("seasonal");
    // A value that names no predictor changes nothing, and is told.
    put(&sale.plane.http, "seasonal", "sesonal");
    wait::until_ok(PATIENCE, "a wrong choice to be told", || {
        match sale.metric("estimand_reservation_predictor_wrong") {
            1.0 => Ok(()),
            other => Err(other),
        }
    });
    sale.wait_price(18.0, 21.0);
    put(&sale.plane.http, "seasonal", json!({ "predictor": "seasonal", "period": period }));
    wait::until_ok(PATIENCE, "the right choice", || match sale.predictor() {
        predictor if predictor["name"] == "seasonal" => Ok(()),
        other => Err(other),
    });

    // The first price after a kill is as dear as the last one before it.
    sale.plane.services.kill9();
    sale.plane.services.restart_on_same_port();
    let first = wait::until(PATIENCE, "a price", || sale.price(sale.busy_again()));
    assert!((18.0..=21.0).contains(&first), "{first}");
    assert_eq!(sale.predictor()["name"], "seasonal");

    let price = sale.plane.cli(&["price", "--cpu", "1", "--for", "10s", "--by", "5m"]).output().unwrap();
    let said = String::from_utf8(price.stdout).unwrap();
    assert!(said.contains("by `seasonal`, from 4 requests of the last 4m"), "{said}");
    let low = sale.plane.reserve(&sale.document(sale.busy_again(), 5.0)).expect_problem(409);
    assert_eq!(low["type"], "price-above-value", "{low}");
    let high = sale.plane.reserve(&sale.document(sale.busy_again(), 30.0)).expect_status(201).json();
    let paid = credits(&high["price"]) as f64 / sale.least() as f64;
    assert!((18.0..=21.0).contains(&paid), "{high}");
    sale.plane.check_money();
}

#[test]
fn a_bid_counts_once_and_for_no_more_than_its_account_could_pay() {
    let sale = Sale::open();
    let period = format!("{PERIOD}s");
    put(&sale.plane.http, "seasonal", json!({ "predictor": "seasonal", "period": period }));
    sale.bind("seasonal");
    sale.plane.reserve(&sale.document(sale.busy, 1.2)).expect_status(201);
    // Nobody has granted bob anything.
    let mut bobs = sale.document(sale.busy + PART, 20.0);
    bobs["user"] = json!("bob");
    for _ in 0..2 {
        let headers = [("Idempotency-Key", "bob's"), ("Content-Type", "application/json")];
        let refused =
            sale.plane.http.request("POST", "/api/reservations", &headers, bobs.to_string().as_bytes());
        assert_eq!(refused.expect_problem(409)["type"], "too-few-credits");
    }
    wait::until_ok(PATIENCE, "both to be trained on", || match sale.predictor() {
        predictor if predictor["bids"] == 2 => Ok(()),
        other => Err(other),
    });
    assert_eq!(sale.price(sale.busy_again() + PART), Some(1.0), "bob's words make nothing dear");
    assert!(sale.price(sale.busy_again()).unwrap() > 1.0);
}
