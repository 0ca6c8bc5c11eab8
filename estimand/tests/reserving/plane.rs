//! Services in one process with slots of a second, and an agent that may run everything.

use std::net::SocketAddr;
use std::process::Command;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Plane {
    pub services: Estimand,
    pub agent: Estimand,
    pub http: Http,
    /// Where reservations are taken over TCP.
    pub lines: SocketAddr,
    _folder: TempDir,
}

impl Plane {
    pub fn start() -> Self {
        Plane::selling(&[])
    }

    /// With these terms of sale, too.
    pub fn selling(terms: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("reserving-").tempdir().unwrap();
        let lines = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let args = ["up", "--no-agent", "--defaults", "none"];
        let is_said = |option: &str| terms.contains(&option);
        let short = [["--price-slot", "1s"], ["--price-horizon", "1h"]];
        let short = short.into_iter().filter(|[option, _]| !is_said(option)).flatten();
        // A certain port, so that a start after a kill finds it free.
        let services = process::estimand()
            .args(args)
            .args(short)
            .args(terms.iter().copied())
            .args(["--reservations-lines".to_owned(), lines.to_string()])
            .port(free_port())
            .start();
        let args = [
            "agent",
            "--server",
            services.base_url(),
            "--node",
            "n1",
            "--allow-all",
            "--allow-users-as-agent",
        ];
        let agent = process::estimand().args(args).data_dir(folder.path().join("n1")).without_http().start();
        let http = services.http();
        Plane { services, agent, http, lines, _folder: folder }
    }

    /// A command of the binary that asks these services.
    pub fn cli(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", self.services.base_url());
        command
    }

    /// How many processors the node has, once there are prices for them.
    pub fn processors(&self) -> f64 {
        wait::until_ok(PATIENCE, "prices", || {
            let prices = self.http.get("/api/reservations/prices?resources=cpu=0.001&duration=1s&by=1m");
            if prices.status == 200 { Ok(()) } else { Err(prices) }
        });
        let capacity = self.http.get("/api/capacity").expect_status(200).json();
        capacity[0]["capacity"]["cpu"].as_u64().unwrap() as f64 / 1000.0
    }

    pub fn token(&self, asked: &Value) -> String {
        let made = self.http.send_json("POST", "/api/tokens", asked);
        made.json()["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// A client with a token of this user's.
    pub fn user(&self, name: &str) -> Http {
        let token = self.token(&json!({ "name": name, "role": "user" }));
        Http::new(self.services.base_url()).showing(Some(&token))
    }

    pub fn change(&self, id: &str, change: &Value) -> Response {
        self.http.send_json("POST", &format!("/api/reservations/{id}/change"), change)
    }

    #[track_caller]
    pub fn promise(&self, reservation: &Value) -> Value {
        let path = format!("/api/capacity/promises/{}", reservation["promise"].as_str().unwrap());
        self.http.get(&path).expect_status(200).json()
    }

    pub fn grant(&self, user: &str, amount: &str) {
        let grant = json!({ "user": user, "amount": amount });
        self.http.send_json("POST", "/api/credits/grants", &grant).expect_status(201);
    }

    pub fn reserve(&self, document: &Value) -> Response {
        self.http.send_json("POST", "/api/reservations", document)
    }

    #[track_caller]
    pub fn reservation(&self, id: &str) -> Value {
        self.http.get(&format!("/api/reservations/{id}")).expect_status(200).json()
    }

    /// Waits until a reservation is in a state, and returns it.
    #[track_caller]
    pub fn wait_state(&self, id: &str, state: &str) -> Value {
        wait::until_ok(PATIENCE, &format!("{id} to be {state}"), || {
            let reservation = self.reservation(id);
            if reservation["state"] == state { Ok(reservation) } else { Err(reservation) }
        })
    }

    /// Waits until the promise of a reservation is in a state.
    #[track_caller]
    pub fn wait_promise(&self, reservation: &Value, state: &str) {
        let path = format!("/api/capacity/promises/{}", reservation["promise"].as_str().unwrap());
        wait::until_ok(PATIENCE, &format!("its promise to be {state}"), || {
            let promise = self.http.get(&path).expect_status(200).json();
            if promise["state"] == state { Ok(()) } else { Err(promise) }
        });
    }

    pub fn balance(&self, user: &str) -> u64 {
        let accounts = self.http.get(&format!("/api/credits?user={user}")).expect_status(200).json();
        credits(&accounts["accounts"][0]["balance"])
    }

    /// All accounts together have what was granted.
    #[track_caller]
    pub fn check_money(&self) {
        let all = self.http.get("/api/credits").expect_status(200).json();
        let users = all["accounts"].as_array().unwrap().iter().map(|account| credits(&account["balance"]));
        let sum = users.sum::<u64>() + credits(&all["held"]) + credits(&all["income"]);
        assert_eq!(sum, credits(&all["granted"]), "{all}");
    }

    /// All reservations in some states.
    pub fn all(&self, states: &str) -> Vec<Value> {
        let path = format!("/api/reservations?limit=1000&state={states}");
        self.http.get(&path).expect_status(200).json()["reservations"].as_array().unwrap().clone()
    }
}

/// Microcredits of a text such as `2.5`.
pub fn credits(text: &Value) -> u64 {
    let (whole, part) = text.as_str().unwrap().split_once('.').unwrap_or((text.as_str().unwrap(), "0"));
    let part: u64 = format!("{part:0<6}").parse().unwrap();
    whole.parse::<u64>().unwrap() * 1_000_000 + part
}

/// Seconds since 1970 of an instant.
pub fn seconds(instant: &Value) -> u64 {
    let at = chrono::DateTime::parse_from_rfc3339(instant.as_str().unwrap()).unwrap();
    u64::try_from(at.timestamp()).unwrap()
}
