//! A watch: the snapshot first, then each change, over server-sent events.
//!
//! A broken connection is made again from where it broke off; when the service no longer has the missed changes
//! it sends a fresh snapshot with the reason. The caller sees one stream that ends only when it is dropped or
//! the service refuses it.

use std::marker::PhantomData;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use url::Url;

use crate::events::{Block, EventStream};
use crate::values::{name_list, node_list};
use crate::{Client, Error};
use estimand_api::condition::Condition;
use estimand_api::json_text::JsonText;
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_api::pointer::Pointer;
use estimand_api::selector::Selector;
use estimand_api::value::Value;

/// The comment by which a service of an earlier version says that the events so far are all of one snapshot. One of
/// today sends it together with the event `settled`.
const SETTLED: &[u8] = b": settled";

/// An event of a watch; `D` is how the JSON of values is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<D = Json> {
    /// All values there are; earlier events are void.
    Snapshot { revision: u64, reason: String, values: Vec<Value<D>> },
    /// A value is new or changed, or its state did.
    Change(Box<Value<D>>),
    /// A value is gone.
    Delete { data_name: DataName, node_name: NodeName, revision: u64 },
}

/// A stream of events.
#[derive(Debug)]
pub struct Watch<D = Json> {
    client: Client,
    names: Vec<DataName>,
    patterns: Vec<NamePattern>,
    node_names: Vec<NodeName>,
    nodes: Option<Selector>,
    condition: Option<Condition>,
    field: Option<Pointer>,
    events: EventStream,
    values: PhantomData<fn() -> D>,
}

impl Client {
    /// Watches names; all of them if none is given.
    pub fn watch(&self, names: Vec<DataName>) -> Watch {
        Watch {
            client: self.clone(),
            names,
            patterns: Vec::new(),
            node_names: Vec::new(),
            nodes: None,
            condition: None,
            field: None,
            events: EventStream::new(self.clone()),
            values: PhantomData,
        }
    }
}

impl Watch {
    /// This watch, with values to the letter.
    pub fn to_the_letter(self) -> Watch<JsonText> {
        let Watch { client, names, patterns, node_names, nodes, condition, field, events, values: _ } = self;
        Watch { client, names, patterns, node_names, nodes, condition, field, events, values: PhantomData }
    }
}

impl<D: DeserializeOwned> Watch<D> {
    /// The next event. Connects, and connects again, as needed; an error is a refusal by the service.
    pub async fn next(&mut self) -> Result<Event<D>, Error> {
        loop {
            if let Some(event) = self.heard().await? {
                return Ok(event);
            }
        }
    }

    /// The next event, or none: then the events so far are all of one snapshot, and nothing that was written together
    /// with them is still to come. A snapshot is that by itself.
    pub async fn heard(&mut self) -> Result<Option<Event<D>>, Error> {
        loop {
            let url = self.url();
            let block = self.events.next(&url).await?;
            if let Some(event) = self.read(&block)? {
                return Ok(event);
            }
        }
    }

    /// Only the values of these nodes; of all if there are none.
    pub fn of_node_names(mut self, nodes: Vec<NodeName>) -> Self {
        self.node_names = nodes;
        self
    }

    /// Only the values of this node.
    pub fn of_node(self, node: NodeName) -> Self {
        self.of_node_names(vec![node])
    }

    /// Only values for which this holds. One for which it does not is not there, as with [`field`](Self::field).
    pub fn condition(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Names that match these patterns as well.
    pub fn patterns(mut self, patterns: Vec<NamePattern>) -> Self {
        self.patterns = patterns;
        self
    }

    /// Only the values of nodes with these labels.
    pub fn of_nodes(mut self, selector: Selector) -> Self {
        self.nodes = Some(selector);
        self
    }

    /// Only this part of each value. A value without it is not there: it is left out of snapshots, and a change
    /// to it is a [`Event::Delete`].
    pub fn field(mut self, field: Pointer) -> Self {
        self.field = Some(field);
        self
    }

    /// Has it told, once and with the address, when not even the service's sign of life comes for longer than it should: a
    /// proxy on the way may hold events back.
    pub fn on_silence(mut self, tell: fn(&str)) -> Self {
        self.events.on_silence = Some(tell);
        self
    }

    /// Starts where another watch ended.
    pub fn resume_from(mut self, id: impl Into<String>) -> Self {
        self.events.last_id = Some(id.into());
        self
    }

    fn url(&self) -> Url {
        let names = name_list(&self.names, &self.patterns);
        let nodes = self.nodes.as_ref().map(Selector::to_string);
        let mut pairs = vec![("dataName", names.as_str())];
        let named = node_list(&self.node_names);
        let condition = self.condition.as_ref().map(Condition::to_string);
        pairs.extend((!named.is_empty()).then_some(("dataNode", named.as_str())));
        pairs.extend(condition.as_ref().map(|condition| ("where", condition.as_str())));
        pairs.extend(nodes.as_ref().map(|nodes| ("nodes", nodes.as_str())));
        pairs.extend(self.field.as_ref().map(|field| ("field", field.as_str())));
        self.client.url(&["api", "data", "watch"], &pairs)
    }

    /// Reads an event; `settled`, which says that a snapshot is complete, is an inner none. Comments and unknown events
    /// are passed over.
    fn read(&mut self, block: &Bytes) -> Result<Option<Option<Event<D>>>, Error> {
        if block.starts_with(SETTLED) {
            return Ok(Some(None));
        }
        let block = Block::parse(block);
        let read = match block.event.as_str() {
            "snapshot" => serde_json::from_slice::<Snapshot<D>>(&block.data).map(Event::from),
            "change" => serde_json::from_slice::<Value<D>>(&block.data).map(|v| Event::Change(Box::new(v))),
            "delete" => serde_json::from_slice::<Gone>(&block.data).map(Event::from),
            "settled" => return Ok(Some(None)),
            _ => return Ok(None),
        };
        let event = read.map_err(|e| Error::Unexpected {
            url: self.client.base.to_string(),
            cause: format!("event `{}`: {e}", block.event),
        })?;
        if let Some(id) = block.id {
            self.events.last_id = Some(id);
        }
        Ok(Some(Some(event)))
    }
}

#[derive(Deserialize)]
struct Snapshot<D> {
    revision: u64,
    reason: String,
    values: Vec<Value<D>>,
}

impl<D> From<Snapshot<D>> for Event<D> {
    fn from(Snapshot { revision, reason, values }: Snapshot<D>) -> Self {
        Event::Snapshot { revision, reason, values }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gone {
    data_name: DataName,
    node_name: NodeName,
    revision: u64,
}

impl<D> From<Gone> for Event<D> {
    fn from(Gone { data_name, node_name, revision }: Gone) -> Self {
        Event::Delete { data_name, node_name, revision }
    }
}
