//! Services in one process that sell capacity in slots of a second, and an agent that may run everything.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Http;
use crate::process::{self, Estimand, free_port};
use crate::wait::{self, PATIENCE};

pub struct SalePlane {
    pub services: Estimand,
    pub agent: Estimand,
    /// An operator's.
    pub http: Http,
    /// Where reservations are taken over TCP.
    pub lines: SocketAddr,
    _folder: TempDir,
}

impl SalePlane {
    /// With these terms of sale, too.
    pub fn start(terms: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("sale-").tempdir().expect("a folder for the agent");
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
        SalePlane { services, agent, http, lines, _folder: folder }
    }

    /// Waits until the node is known, and its capacity has a price.
    #[track_caller]
    pub fn wait_until_priced(&self) {
        wait::until_ok(PATIENCE, "prices", || {
            let prices = self.http.get("/api/reservations/prices?resources=cpu=0.001&duration=1s&by=1m");
            if prices.status == 200 { Ok(()) } else { Err(prices) }
        });
    }

    #[track_caller]
    pub fn token(&self, asked: &Value) -> String {
        let made = self.http.send_json("POST", "/api/tokens", asked);
        made.json()["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// A token of this user's.
    #[track_caller]
    pub fn user_token(&self, name: &str) -> String {
        self.token(&json!({ "name": name, "role": "user" }))
    }

    pub fn client(&self, token: &str) -> Http {
        Http::new(self.services.base_url()).showing(Some(token))
    }

    #[track_caller]
    pub fn grant(&self, user: &str, amount: &str) {
        let grant = json!({ "user": user, "amount": amount });
        self.http.send_json("POST", "/api/credits/grants", &grant).expect_status(201);
    }
}
