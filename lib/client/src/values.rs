//! Values, bindings and the past: the data service's half of the client.

use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::registry::flag;
use crate::{Answer, Client, Error, Repeat};
use estimand_api::condition::Condition;
use estimand_api::duration::Span;
use estimand_api::json_text::JsonText;
use estimand_api::labels::LabelMap;
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_api::order::ValueOrder;
use estimand_api::pointer::Pointer;
use estimand_api::problem::kind;
use estimand_api::registration::History;
use estimand_api::selector::Selector;
use estimand_api::value::{
    BatchReceipt, Binding, BindingTarget, DeletionReceipt, NameSummary, PastValue, Producers, State,
    StateReceipt, Swap, Value, WriteReceipt,
};
use estimand_api::write::Write;

/// A question that makes a longer URL is sent as a body; many proxies take no longer ones.
const MAX_URL_BYTES: usize = 4_000;

/// A selection of values to read.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The data names; all of them if there is neither a name nor a pattern.
    pub names: Vec<DataName>,
    /// Patterns of further names.
    pub patterns: Vec<NamePattern>,
    /// Only values of these nodes; of all if empty.
    pub node_names: Vec<NodeName>,
    /// Only values of nodes with these labels.
    pub nodes: Option<Selector>,
    /// Only values in one of these states; all if empty.
    pub states: Vec<State>,
    /// Only values collected no longer ago than this.
    pub max_age: Option<Span>,
    /// Only values for which this holds.
    pub condition: Option<Condition>,
    /// Only this part of each value; values without it are left out.
    pub field: Option<Pointer>,
    pub order: Option<ValueOrder>,
    /// At most so many values, the first ones.
    pub limit: Option<u32>,
}

/// A selection of past values to read.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    pub node: Option<NodeName>,
    /// An instant (RFC 3339) or how long ago (`1h`).
    pub since: Option<String>,
    pub until: Option<String>,
    pub limit: Option<u32>,
    /// Only this part of each value; values without it are left out.
    pub field: Option<Pointer>,
}

/// A binding after a change, with a hint about the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebound {
    pub binding: Binding,
    /// Says how many nodes have no value there, if some had one before.
    pub hint: Option<String>,
}

impl Query {
    /// All values of one name.
    pub fn of(name: DataName) -> Self {
        Query { names: vec![name], ..Query::default() }
    }

    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("dataName", name_list(&self.names, &self.patterns))];
        pairs.extend(self.nodes.as_ref().map(|selector| ("nodes", selector.to_string())));
        pairs.extend(self.order.as_ref().map(|order| ("sort", order.to_string())));
        pairs.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        pairs.extend(self.condition.as_ref().map(|condition| ("where", condition.to_string())));
        if !self.node_names.is_empty() {
            pairs.push(("dataNode", node_list(&self.node_names)));
        }
        if !self.states.is_empty() {
            pairs.push(("state", self.states.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(",")));
        }
        if let Some(age) = self.max_age {
            pairs.push(("maxAge", age.to_string()));
        }
        if let Some(field) = &self.field {
            pairs.push(("field", field.to_string()));
        }
        pairs
    }
}

/// Names with commas between them; none means all, which is written `*`.
pub(super) fn name_list(names: &[DataName], patterns: &[NamePattern]) -> String {
    let list: Vec<&str> =
        names.iter().map(DataName::as_str).chain(patterns.iter().map(NamePattern::as_str)).collect();
    if list.is_empty() { "*".to_owned() } else { list.join(",") }
}

/// Nodes with commas between them.
pub(super) fn node_list(nodes: &[NodeName]) -> String {
    nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(",")
}

impl Client {
    /// Every name that serves values, its own or those of another one, without the values.
    pub async fn names(&self) -> Result<Vec<NameSummary>, Error> {
        let answer = self.get(self.url(&["api", "data", "names"], &[])).await?;
        self.read(&answer)
    }

    /// Reads values; all of them are of one snapshot, whose revision comes with them.
    pub async fn values(&self, query: &Query) -> Result<(Vec<Value>, u64), Error> {
        self.values_or_hint(query).await.map(|(values, revision, _)| (values, revision))
    }

    /// Reads values in any form, with advice for people if there are none.
    pub async fn values_or_hint<D: DeserializeOwned>(
        &self,
        query: &Query,
    ) -> Result<(Vec<Value<D>>, u64, Option<String>), Error> {
        let pairs = query.pairs();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let url = self.url(&["api", "data"], &pairs);
        let answer = match url.as_str().len() {
            0..=MAX_URL_BYTES => self.get(url).await?,
            _ => {
                let body = Bytes::from(json!(BTreeMap::from_iter(pairs)).to_string());
                let url = self.url(&["api", "data", "query"], &[]);
                self.send(Method::POST, url, Some(body), Repeat::Safe).await?
            }
        };
        Ok((self.read(&answer)?, answer.revision.unwrap_or_default(), answer.hint))
    }

    /// Reads one value; none if there is none.
    pub async fn value(&self, name: &DataName, node: &NodeName) -> Result<Option<Value>, Error> {
        self.one(self.url(&["api", "data", name.as_str(), node.as_str()], &[])).await
    }

    /// Reads a part of one value. None if there is no such value; that it has no such part is a problem, which
    /// names the parts that are there.
    pub async fn part(
        &self,
        name: &DataName,
        node: &NodeName,
        field: &Pointer,
    ) -> Result<Option<Value>, Error> {
        let path = ["api", "data", name.as_str(), node.as_str()];
        self.one(self.url(&path, &[("field", field.as_str())])).await
    }

    /// Reads one value with its provenance.
    pub async fn explain(&self, name: &DataName, node: &NodeName) -> Result<Option<Value<JsonText>>, Error> {
        self.one(self.url(&["api", "data", name.as_str(), node.as_str()], &[("explain", "1")])).await
    }

    async fn one<D: DeserializeOwned>(&self, url: url::Url) -> Result<Option<Value<D>>, Error> {
        match self.get(url).await {
            Ok(answer) => self.read(&answer).map(Some),
            Err(Error::Problem(problem)) if problem.status == 404 && problem.kind == kind::NOT_FOUND => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes one value; `true` with it if there was none before.
    pub async fn write(&self, write: &Write) -> Result<(WriteReceipt, bool), Error> {
        let mut body = Vec::with_capacity(256);
        write.push_json(&mut body);
        let answer = self.put(&["api", "data"], body).await?;
        Ok((self.read(&answer)?, answer.status == StatusCode::CREATED))
    }

    /// Writes all or nothing.
    pub async fn write_batch(&self, writes: &[Write]) -> Result<BatchReceipt, Error> {
        let mut body = Vec::with_capacity(256 * writes.len() + 2);
        body.push(b'[');
        for (place, write) in writes.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            write.push_json(&mut body);
        }
        body.push(b']');
        // The same batch twice has the effect of the first, so that it may be sent again.
        let url = self.url(&["api", "data", "batch"], &[]);
        let answer = self.send(Method::POST, url, Some(Bytes::from(body)), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Deletes a name's values, or the one of a node.
    pub async fn delete(&self, name: &DataName, node: Option<&NodeName>) -> Result<DeletionReceipt, Error> {
        let mut pairs = vec![("dataName", name.as_str())];
        pairs.extend(node.map(|node| ("dataNode", node.as_str())));
        let answer =
            self.send(Method::DELETE, self.url(&["api", "data"], &pairs), None, Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Marks all values of a node as those of a lost one, or takes the mark back.
    pub async fn mark_node(&self, node: &NodeName, lost: bool) -> Result<StateReceipt, Error> {
        let state = if lost { State::NodeLost } else { State::Fresh };
        let body = json!({ "nodeName": node, "state": state }).to_string();
        let answer = self.put(&["api", "data", "state"], body.into_bytes()).await?;
        self.read(&answer)
    }

    /// The history of a name, oldest first.
    pub async fn history<D: DeserializeOwned>(
        &self,
        name: &DataName,
        query: &HistoryQuery,
    ) -> Result<Vec<PastValue<D>>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let mut pairs = vec![("dataName", name.as_str())];
        pairs.extend(query.node.as_ref().map(|node| ("dataNode", node.as_str())));
        pairs.extend(query.since.as_ref().map(|since| ("since", since.as_str())));
        pairs.extend(query.until.as_ref().map(|until| ("until", until.as_str())));
        pairs.extend(limit.as_ref().map(|limit| ("limit", limit.as_str())));
        pairs.extend(query.field.as_ref().map(|field| ("field", field.as_str())));
        let answer = self.get(self.url(&["api", "data", "history"], &pairs)).await?;
        self.read(&answer)
    }

    /// The names that keep a history, with how much they keep.
    pub async fn retention(&self) -> Result<BTreeMap<DataName, Json>, Error> {
        let answer = self.get(self.url(&["api", "data", "retention"], &[])).await?;
        self.read(&answer)
    }

    /// Sets the names that keep a history; replaces the earlier setting.
    pub async fn set_retention(&self, retention: &BTreeMap<DataName, History>) -> Result<(), Error> {
        let map: serde_json::Map<String, Json> =
            retention.iter().map(|(name, history)| (name.to_string(), history.to_json())).collect();
        let body = Json::Object(map).to_string().into_bytes();
        self.put(&["api", "data", "retention"], body).await.map(drop)
    }

    /// Sets the nodes that may write values of other nodes, by data name.
    pub async fn set_speakers(&self, speakers: &BTreeMap<DataName, Vec<NodeName>>) -> Result<(), Error> {
        let map: serde_json::Map<String, Json> =
            speakers.iter().map(|(name, nodes)| (name.to_string(), json!(nodes))).collect();
        let body = Json::Object(map).to_string().into_bytes();
        self.put(&["api", "data", "speakers"], body).await.map(drop)
    }

    /// Says which epoch the writes of each name have at most: what is stored with a higher one keeps nothing away.
    pub async fn set_epochs(&self, epochs: &BTreeMap<DataName, u64>) -> Result<(), Error> {
        let body = serde_json::to_vec(epochs).unwrap_or_default();
        self.put(&["api", "data", "epochs"], body).await.map(drop)
    }

    /// Sets the labels of all nodes.
    pub async fn set_labels(&self, labels: &BTreeMap<NodeName, LabelMap>) -> Result<(), Error> {
        self.put(&["api", "data", "labels"], json!(labels).to_string().into_bytes()).await.map(drop)
    }

    /// Says what runs where: the data service drops values that nothing renews any more.
    pub async fn set_producers(&self, producers: &Producers) -> Result<(), Error> {
        let body = serde_json::to_vec(producers).unwrap_or_default();
        self.put(&["api", "data", "producers"], body).await.map(drop)
    }

    pub async fn bindings(&self) -> Result<Vec<Binding>, Error> {
        let answer = self.get(self.url(&["api", "bindings"], &[])).await?;
        self.read(&answer)
    }

    /// Makes `name` serve the values of another one, or a part of each, from one moment to the next. With
    /// `from`, only if it serves that one until then; with `force`, also if it would serve nothing any more.
    pub async fn bind(
        &self,
        name: &DataName,
        to: &BindingTarget,
        from: Option<&DataName>,
        force: bool,
    ) -> Result<Rebound, Error> {
        let mut body = json!({ "to": to.to });
        if let Some(field) = &to.field {
            body["field"] = json!(field);
        }
        if let Some(from) = from {
            body["from"] = json!(from);
        }
        let url = self.url(&["api", "bindings", name.as_str()], &flag("force", force));
        let body = Some(Bytes::from(body.to_string()));
        self.rebound(self.send(Method::PUT, url, body, Repeat::Safe).await?)
    }

    /// Makes `name` serve its target before the current one; twice is back again. `from` and `force` are as for `bind`.
    pub async fn roll_back(
        &self,
        name: &DataName,
        from: Option<&DataName>,
        force: bool,
    ) -> Result<Rebound, Error> {
        let body = from.map_or(json!({}), |from| json!({ "from": from })).to_string();
        let url = self.url(&["api", "bindings", name.as_str(), "rollback"], &flag("force", force));
        let body = Some(Bytes::from(body));
        self.rebound(self.send(Method::POST, url, body, Repeat::OnlyIfNotTaken).await?)
    }

    fn rebound(&self, answer: Answer) -> Result<Rebound, Error> {
        Ok(Rebound { binding: self.read(&answer)?, hint: answer.hint })
    }

    /// The changes of a binding, newest first, at most `limit` of them.
    pub async fn binding_history(&self, name: &DataName, limit: Option<u32>) -> Result<Vec<Swap>, Error> {
        let limit = limit.map(|limit| limit.to_string());
        let pairs: Vec<(&str, &str)> = limit.iter().map(|limit| ("limit", limit.as_str())).collect();
        let answer = self.get(self.url(&["api", "bindings", name.as_str(), "history"], &pairs)).await?;
        self.read(&answer)
    }

    /// Removes a binding; 404 if there is none.
    pub async fn unbind(&self, name: &DataName) -> Result<(), Error> {
        let url = self.url(&["api", "bindings", name.as_str()], &[]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }

    async fn put(&self, path: &[&str], body: Vec<u8>) -> Result<Answer, Error> {
        self.send(Method::PUT, self.url(path, &[]), Some(Bytes::from(body)), Repeat::Safe).await
    }
}
