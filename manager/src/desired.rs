//! The answer to an agent that asks for its desired state.
//!
//! The same registration goes to many nodes, so its JSON is rendered once and shared; an answer is a list of
//! such pieces, and is joined in small steps while the connection takes it. A change that goes to ten
//! thousand agents at once costs them each a list of pointers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_web::body::{BodySize, MessageBody};
use bytes::{Bytes, BytesMut};
use estimand_api::names::DataName;
use estimand_api::registration::RegistrationRecord;
use serde_json::Value;

/// How much is joined at once; larger pieces go as they are.
const JOINED_BYTES: usize = 16 * 1024;
/// Nodes differ in the epoch of an instance only if it runs on a number of nodes and has moved.
const MAX_VARIANTS: usize = 64;

/// Rendered pieces, by data name.
#[derive(Debug, Default)]
pub struct RenderedAssignments(HashMap<DataName, Pieces>);

#[derive(Debug)]
struct Pieces {
    /// The registration that they were rendered from.
    of: Arc<RegistrationRecord>,
    registration: Bytes,
    assignments: Vec<(u64, bool, Bytes)>,
}

impl RenderedAssignments {
    /// A slot, with a comma before it.
    fn assignment(&mut self, of: &Arc<RegistrationRecord>, epoch: u64, leased: bool) -> Bytes {
        let pieces = self.pieces(of);
        let known = pieces.assignments.iter().find(|(e, l, _)| (*e, *l) == (epoch, leased));
        if let Some((_, _, known)) = known {
            return known.clone();
        }
        let mut text = format!(",{{\"epoch\":{epoch},");
        if leased {
            text.push_str("\"leased\":true,");
        }
        text.push_str("\"registration\":");
        let bytes = [text.as_bytes(), &pieces.registration, b"}"].concat();
        let bytes = Bytes::from(bytes);
        if pieces.assignments.len() >= MAX_VARIANTS {
            pieces.assignments.clear();
        }
        pieces.assignments.push((epoch, leased, bytes.clone()));
        bytes
    }

    /// A run by hand, with a comma before it.
    fn run(&mut self, of: &Arc<RegistrationRecord>, id: u64) -> Bytes {
        let head = format!(",{{\"id\":{id},\"registration\":");
        Bytes::from([head.as_bytes(), &self.pieces(of).registration, b"}"].concat())
    }

    fn pieces(&mut self, of: &Arc<RegistrationRecord>) -> &mut Pieces {
        let name = &of.registration.data_name;
        let known = self.0.get(name).is_some_and(|pieces| Arc::ptr_eq(&pieces.of, of));
        if !known {
            let registration = Bytes::from(Value::Object(of.to_map()).to_string());
            let pieces = Pieces { of: Arc::clone(of), registration, assignments: Vec::new() };
            self.0.insert(name.clone(), pieces);
        }
        self.0.entry(name.clone()).or_insert_with(|| unreachable!("it was put there just now"))
    }

    /// Forgets names that are registered no more.
    pub fn retain(&mut self, registered: impl Fn(&DataName) -> bool) {
        self.0.retain(|name, _| registered(name));
    }
}

/// One slot of an answer.
pub struct Slot<'a> {
    pub registered: &'a Arc<RegistrationRecord>,
    pub epoch: u64,
    pub leased: bool,
}

/// The services that agents are told to speak to; each where this was asked for, if absent.
#[derive(Debug, Default)]
pub struct Servers {
    pub data: Option<String>,
    pub tasks: Option<String>,
}

/// The tasks of one node, as the task service told them.
#[derive(Debug, Clone)]
pub struct ToldTasks {
    /// An array as JSON.
    pub tasks: Bytes,
    /// When they were told: the time that is left to them is of that moment.
    pub at: Instant,
}

/// Lists the pieces of a whole answer. Without `tasks` they are not known yet.
pub fn answer<'a>(
    rendered: &mut RenderedAssignments,
    revision: u64,
    servers: &Servers,
    slots: impl Iterator<Item = Slot<'a>>,
    runs: &[(u64, Arc<RegistrationRecord>)],
    tasks: Option<&ToldTasks>,
) -> JoinedPieces {
    let mut head = format!("{{\"revision\":{revision},");
    for (name, server) in [("dataServer", &servers.data), ("taskServer", &servers.tasks)] {
        if let Some(server) = server {
            head.push_str(&format!("\"{name}\":{},", Value::from(server.as_str())));
        }
    }
    head.push_str("\"slots\":[");
    let mut pieces = vec![Bytes::from(head)];
    let slots = slots.map(|slot| rendered.assignment(slot.registered, slot.epoch, slot.leased));
    push_list(&mut pieces, slots);
    if !runs.is_empty() {
        pieces.push(Bytes::from_static(b"],\"runs\":["));
        push_list(&mut pieces, runs.iter().map(|(id, registered)| rendered.run(registered, *id)));
    }
    match tasks {
        Some(told) => {
            pieces.push(Bytes::from_static(b"],\"tasks\":"));
            pieces.push(told.tasks.clone());
            pieces.push(Bytes::from(format!(",\"tasksAgeMs\":{}}}", told.at.elapsed().as_millis())));
        }
        None => pieces.push(Bytes::from_static(b"]}")),
    }
    JoinedPieces::new(pieces)
}

/// Each item begins with a comma, which the first one of a list loses.
fn push_list(pieces: &mut Vec<Bytes>, items: impl Iterator<Item = Bytes>) {
    for (place, item) in items.enumerate() {
        pieces.push(if place == 0 { item.slice(1..) } else { item });
    }
}

/// A body made of shared pieces.
#[derive(Debug)]
pub struct JoinedPieces {
    pieces: std::vec::IntoIter<Bytes>,
    size: u64,
}

impl JoinedPieces {
    fn new(pieces: Vec<Bytes>) -> Self {
        let size = pieces.iter().map(|piece| piece.len() as u64).sum();
        JoinedPieces { pieces: pieces.into_iter(), size }
    }

    fn next(&mut self) -> Option<Bytes> {
        let first = self.pieces.next()?;
        let fits = |joined: usize, piece: &Bytes| joined + piece.len() <= JOINED_BYTES;
        if !self.pieces.as_slice().first().is_some_and(|second| fits(first.len(), second)) {
            return Some(first);
        }
        let mut joined = BytesMut::with_capacity(JOINED_BYTES.min(usize::try_from(self.size).unwrap_or(0)));
        joined.extend_from_slice(&first);
        while let Some(piece) = self.pieces.as_slice().first().filter(|piece| fits(joined.len(), piece)) {
            joined.extend_from_slice(piece);
            self.pieces.next();
        }
        Some(joined.freeze())
    }
}

impl MessageBody for JoinedPieces {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.size)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(self.get_mut().next().map(Ok))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use estimand_api::json::parse_object;
    use estimand_api::node::DesiredState;

    fn registered(name: &str, filler: usize) -> Arc<RegistrationRecord> {
        let env = "x".repeat(filler);
        let text =
            format!(r#"{{"dataName":"{name}","cmd":"true","max-Time":1,"env":{{"X":"{env}"}},"version":7}}"#);
        Arc::new(RegistrationRecord::from_map(parse_object(text.as_bytes()).unwrap()).unwrap())
    }

    fn whole(mut joined: JoinedPieces) -> Vec<u8> {
        let mut all = Vec::new();
        let size = joined.size as usize;
        while let Some(part) = joined.next() {
            all.extend_from_slice(&part);
        }
        assert_eq!(all.len(), size);
        all
    }

    fn read(joined: JoinedPieces) -> DesiredState {
        serde_json::from_slice(&whole(joined)).unwrap()
    }

    #[test]
    fn an_answer_is_what_the_wire_type_reads() {
        let all: Vec<_> = (0..200).map(|place| registered(&format!("d{place}"), place * 100)).collect();
        let slots = || {
            let slot = |(place, registered)| Slot { registered, epoch: place as u64, leased: place % 2 == 1 };
            all.iter().enumerate().map(slot)
        };
        let mut rendered = RenderedAssignments::default();
        for _ in 0..2 {
            let runs = [(5, Arc::clone(&all[3])), (6, Arc::clone(&all[4]))];
            let servers = Servers { data: Some("http://a\"b".into()), tasks: Some("http://c".into()) };
            let tasks = Bytes::from_static(br#"[{"id":"t","attempt":1,"work":{"command":["true"]}}]"#);
            let at = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
            let told = ToldTasks { tasks, at };
            let desired = read(answer(&mut rendered, 9, &servers, slots(), &runs, Some(&told)));
            assert!(desired.tasks_age_ms >= 5_000, "{}", desired.tasks_age_ms);
            assert_eq!((desired.revision, desired.data_server.as_deref()), (9, Some("http://a\"b")));
            assert_eq!(desired.task_server.as_deref(), Some("http://c"));
            let tasks = desired.tasks.as_deref().unwrap_or_default();
            assert_eq!((tasks.len(), tasks[0].id.as_str(), tasks[0].attempt), (1, "t", 1));
            assert_eq!((desired.slots.len(), desired.runs.len()), (200, 2));
            for (place, slot) in desired.slots.iter().enumerate() {
                assert_eq!((slot.epoch, slot.leased), (place as u64, place % 2 == 1));
                assert_eq!(slot.registration.supported(), Some(&all[place]));
            }
            let run = &desired.runs[1];
            assert_eq!((run.id, run.registration.supported()), (6, Some(&all[4])));
        }
        let none = read(answer(&mut rendered, 1, &Servers::default(), std::iter::empty(), &[], None));
        assert_eq!(none, DesiredState { revision: 1, ..DesiredState::default() });
    }

    #[test]
    fn what_is_rendered_is_shared_until_it_changes() {
        let (old, new) = (registered("a", 0), registered("a", 1));
        let mut rendered = RenderedAssignments::default();
        let first = rendered.assignment(&old, 1, false);
        assert_eq!(rendered.assignment(&old, 1, false).as_ptr(), first.as_ptr());
        assert_ne!(rendered.assignment(&old, 1, true), first);
        assert_ne!(rendered.assignment(&new, 1, false), first);
        rendered.retain(|_| false);
        assert!(rendered.0.is_empty());
    }
}
