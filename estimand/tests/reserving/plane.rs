//! Services that sell capacity, as those who reserve it see them.

use std::ops::{Deref, DerefMut};
use std::process::Command;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::process;
use estimand_testkit::sale_plane::SalePlane;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;

pub struct Plane(SalePlane);

impl Deref for Plane {
    type Target = SalePlane;

    fn deref(&self) -> &SalePlane {
        &self.0
    }
}

impl DerefMut for Plane {
    fn deref_mut(&mut self) -> &mut SalePlane {
        &mut self.0
    }
}

impl Plane {
    pub fn start() -> Self {
        Plane::selling(&[])
    }

    /// With these terms of sale, too.
    pub fn selling(terms: &[&str]) -> Self {
        Plane(SalePlane::start(terms))
    }

    /// A command of the binary that asks these services.
    pub fn cli(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", self.services.base_url());
        command
    }

    /// How many processors the node has, once there are prices for them.
    pub fn processors(&self) -> f64 {
        self.wait_until_priced();
        let capacity = self.http.get("/api/capacity").expect_status(200).json();
        capacity[0]["capacity"]["cpu"].as_u64().unwrap() as f64 / 1000.0
    }

    /// A client with a token of this user's.
    pub fn user(&self, name: &str) -> Http {
        self.client(&self.user_token(name))
    }

    pub fn change(&self, id: &str, change: &Value) -> Response {
        self.http.send_json("POST", &format!("/api/reservations/{id}/change"), change)
    }

    #[track_caller]
    pub fn promise(&self, reservation: &Value) -> Value {
        let path = format!("/api/capacity/promises/{}", reservation["promise"].as_str().unwrap());
        self.http.get(&path).expect_status(200).json()
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
