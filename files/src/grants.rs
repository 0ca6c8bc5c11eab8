//! Grants: the right of one node to read one file, or to put files into one folder, for a while.
//!
//! Nothing is kept of a grant. It says itself what it is good for, with a code over that which only this service can make
//! and check: the key is made at each start and is nowhere else. So grants end with the service, too, and whoever has one
//! asks for another.

use std::time::{Duration, Instant};

use estimand_api::access::forbidden;
use estimand_api::file::FilePath;
use estimand_api::names::NodeName;
use estimand_api::problem::Problem;
use estimand_web::Principal;
use ring::hmac;
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};

/// For how long a grant is good.
pub const VALID: Duration = Duration::from_secs(120);

/// A right, and who has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub node: NodeName,
    /// The folder in which paths begin, below that of the service.
    pub home: Option<String>,
    pub right: Right,
    /// Milliseconds since the service was started.
    until: u64,
}

/// The paths begin in the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Right {
    /// To read this file.
    Read(FilePath),
    /// To put files into this folder, and to see which are there.
    Write(FilePath),
    /// No file: the one that was asked for is not shared.
    Nothing,
}

/// Makes grants and checks them.
pub struct Grants {
    key: hmac::Key,
    started: Instant,
}

impl Grants {
    /// None if the system gives no random numbers.
    pub fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Grants { key, started: Instant::now() })
    }

    pub fn make(&self, node: &NodeName, home: Option<&str>, right: Right) -> String {
        self.make_for(node, home, right, VALID)
    }

    fn make_for(&self, node: &NodeName, home: Option<&str>, right: Right, valid: Duration) -> String {
        let until = self.now().saturating_add(u64::try_from(valid.as_millis()).unwrap_or(u64::MAX));
        let grant = Grant { node: node.clone(), home: home.map(str::to_owned), right, until };
        let said = serde_json::to_vec(&grant).unwrap_or_default();
        let code = hmac::sign(&self.key, &said);
        format!("{}.{}", hex::encode(said), hex::encode(code))
    }

    /// The right that a caller shows, if it is theirs and still good.
    pub fn check(&self, shown: &str, caller: &Principal) -> Result<Grant, Problem> {
        let grant = self.read(shown).ok_or_else(|| forbidden("this is no grant of this file service"))?;
        if grant.until < self.now() {
            return Err(forbidden("this grant is over; the task service gives another one"));
        }
        if !caller.speaks_for(grant.node.as_str()) {
            return Err(forbidden("this grant is for another node"));
        }
        Ok(grant)
    }

    fn read(&self, shown: &str) -> Option<Grant> {
        let (said, code) = shown.split_once('.')?;
        let (said, code) = (hex::decode(said).ok()?, hex::decode(code).ok()?);
        hmac::verify(&self.key, &said, &code).ok()?;
        serde_json::from_slice(&said).ok()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::parse(name).unwrap()
    }

    fn agent(name: &str) -> Principal {
        Principal::named("agent").bound_to(Some(name.into()))
    }

    fn read(path: &str) -> Right {
        Right::Read(path.parse().unwrap())
    }

    #[test]
    fn a_grant_is_good_for_its_node_and_for_what_it_says() {
        let grants = Grants::new().unwrap();
        let shown = grants.make(&node("n1"), Some("users/alice"), read("data/x"));
        let grant = grants.check(&shown, &agent("n1")).unwrap();
        assert_eq!((grant.home.as_deref(), &grant.right), (Some("users/alice"), &read("data/x")));
        assert_eq!(grants.check(&shown, &agent("n2")).unwrap_err().status, 403);
        // An operator may act for each node.
        grants.check(&shown, &Principal::named("operator")).unwrap();
    }

    #[test]
    fn what_was_changed_or_comes_from_elsewhere_is_none() {
        let grants = Grants::new().unwrap();
        let shown = grants.make(&node("n1"), None, read("data/x"));
        let (said, code) = shown.split_once('.').unwrap();
        let more = String::from_utf8(hex::decode(said).unwrap()).unwrap().replace("data/x", "data/y");
        let forged = format!("{}.{code}", hex::encode(more));
        let short = format!("{said}.{}", &code[..8]);
        let other = Grants::new().unwrap().make(&node("n1"), None, read("data/x"));
        for wrong in ["", ".", "x", said, &forged, &short, &other, "00.00"] {
            assert_eq!(grants.check(wrong, &agent("n1")).unwrap_err().status, 403, "{wrong}");
        }
    }

    #[test]
    fn a_grant_is_over_after_its_time() {
        let grants = Grants::new().unwrap();
        let shown = grants.make_for(&node("n1"), None, read("x"), Duration::ZERO);
        std::thread::sleep(Duration::from_millis(5));
        let problem = grants.check(&shown, &agent("n1")).unwrap_err();
        assert!(problem.detail.contains("is over"), "{problem:?}");
    }
}
