//! A ledger as it is stored: nodes and promises. What is used at which tick follows from them, and is counted anew; a
//! record that promises more than there is, is refused. Loans are not in it: its owner knows what runs.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::amounts::Amounts;
use crate::error::LedgerError;
use crate::ids::PromiseId;
use crate::ledger::Ledger;
use crate::node::Standing;
use crate::promise::{Claim, Promise, Stage};
use crate::window::{Tick, Window};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LedgerRecord {
    now: Tick,
    /// The number of the next promise.
    next: u64,
    nodes: Vec<NodeRecord>,
    promises: Vec<PromiseRecord>,
}

#[derive(Serialize, Deserialize)]
struct NodeRecord {
    name: String,
    class: String,
    standing: Standing,
    capacity: Amounts,
}

#[derive(Serialize, Deserialize)]
struct PromiseRecord {
    id: PromiseId,
    value: u64,
    stage: Stage,
    claims: Vec<ClaimRecord>,
}

#[derive(Serialize, Deserialize)]
struct ClaimRecord {
    node: String,
    amounts: Amounts,
    window: Window,
}

impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nodes = self.nodes().map(|(id, name)| {
            let node = &self.nodes[id.index()];
            let (name, class) = (name.to_owned(), node.class.clone());
            NodeRecord { name, class, standing: node.standing, capacity: self.capacity(id) }
        });
        let claim = |claim: &Claim| ClaimRecord {
            node: self.nodes[claim.node.index()].name.clone(),
            amounts: self.amounts(&claim.shape),
            window: claim.window,
        };
        let promises = self.promises().map(|(id, promise)| PromiseRecord {
            id,
            value: promise.value,
            stage: promise.stage,
            claims: promise.claims.iter().map(claim).collect(),
        });
        let record = LedgerRecord {
            now: self.now,
            next: self.next,
            nodes: nodes.collect(),
            promises: promises.collect(),
        };
        record.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ledger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ledger::from_record(LedgerRecord::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Ledger {
    fn from_record(record: LedgerRecord) -> Result<Ledger, LedgerError> {
        let wrong = |what: String| LedgerError::Inconsistent(what);
        let mut ledger = Ledger::new(record.now);
        for node in record.nodes {
            if ledger.node(&node.name).is_some() {
                return Err(wrong(format!("node `{}` stands there twice", node.name)));
            }
            let (id, _) = ledger.set_node(&node.name, &node.class, &node.capacity);
            ledger.nodes[id.index()].standing = node.standing;
        }
        for promise in record.promises {
            let id = promise.id;
            if promise.claims.is_empty() || id.0 >= record.next || ledger.promise(id).is_some() {
                return Err(wrong(format!(
                    "promise {id} claims nothing, stands there twice or was never given"
                )));
            }
            let mut claims = Vec::new();
            for claim in promise.claims {
                let node =
                    ledger.node(&claim.node).ok_or_else(|| LedgerError::UnknownNode(claim.node.clone()))?;
                claims.push(Claim { node, shape: ledger.shape(&claim.amounts), window: claim.window });
            }
            let nodes: Vec<_> = claims.iter().map(|claim| claim.node).collect();
            ledger.put(id, Promise { claims, value: promise.value, stage: promise.stage });
            if let Some(full) = nodes.into_iter().find(|id| ledger.nodes[id.index()].is_overfull(record.now))
            {
                let name = &ledger.nodes[full.index()].name;
                return Err(wrong(format!("node `{name}` has less than is promised on it")));
            }
        }
        ledger.next = record.next;
        Ok(ledger)
    }
}
