//! A parcel: writes on their way, oldest first, that leave in pieces, one piece a request.
//!
//! Normally there is one piece. Where the data service refuses a request because of what is in it, the items
//! that it names are taken out; where it names none, the piece is halved until the one is found that it does
//! not take. Nothing is taken out for any other reason. A piece that brought no answer is halved too, because
//! a slow line or something between here and the data service may only let a smaller one pass; as the front
//! alone is halved, the pieces grow again with each that arrives. Pure: it is told the answer and says what follows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_api::value::BatchReceipt;
use estimand_api::write::Write;
use estimand_client as client;
use tokio::time::Instant;

/// A write that the data service does not take and that was therefore given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub data_name: DataName,
    pub node_name: NodeName,
    /// The words of the data service.
    pub reason: String,
}

/// Writes that are being delivered.
#[derive(Debug)]
pub struct Parcel {
    pieces: VecDeque<Arc<Vec<Write>>>,
    /// The segments of the spool that hold nothing but this; none: it is in memory alone.
    pub segments: Vec<u64>,
    /// How many items these segments hold.
    pub spooled: usize,
    /// How much memory it takes, about.
    pub bytes: usize,
    /// Since when its oldest item is in memory.
    pub since: Instant,
    /// Some of it may be stored already: a request brought no answer, or it comes from another life of the agent.
    may_be_stored: bool,
}

/// The meaning of an answer for a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is stored.
    Delivered,
    /// It is to be sent again as it is, later.
    Again(String),
    /// There was no answer: it is to be sent again later, and less of it at a time.
    Less(String),
    /// Some of its items are not taken, for these reasons.
    Refused(BTreeMap<usize, String>),
    /// Something in it is not taken, but it is not said what.
    Halve,
}

/// The result of sending a piece.
#[derive(Debug, Default)]
pub struct PieceResult {
    pub delivered: usize,
    pub refused: Vec<Refusal>,
    /// The names of writes that were older than what is stored.
    pub older: Vec<DataName>,
    /// Why it has to be sent again.
    pub again: Option<String>,
}

impl Parcel {
    pub fn new(writes: Vec<Write>, bytes: usize, since: Instant) -> Self {
        let pieces = VecDeque::from([Arc::new(writes)]);
        Parcel { pieces, segments: Vec::new(), spooled: 0, bytes, since, may_be_stored: false }
    }

    /// The parcel's writes; copies that are just being sent stay as they are.
    pub fn writes_mut(&mut self) -> impl Iterator<Item = &mut Write> {
        self.pieces.iter_mut().flat_map(|piece| Arc::make_mut(piece).iter_mut())
    }

    /// The writes of a segment of the spool.
    pub fn from_segment(number: u64, writes: Vec<Write>, spooled: usize, since: Instant) -> Self {
        let parcel = Parcel::new(writes, 0, since);
        Parcel { segments: vec![number], spooled, may_be_stored: true, ..parcel }
    }

    /// The piece to be sent next.
    pub fn front(&self) -> Option<Arc<Vec<Write>>> {
        self.pieces.front().cloned()
    }

    /// All that is left.
    pub fn pieces(&self) -> Vec<Arc<Vec<Write>>> {
        self.pieces.iter().cloned().collect()
    }

    /// How many items are left.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    pub fn oldest(&self) -> Option<&Write> {
        self.pieces.front()?.first()
    }

    /// True if it would be lost with this process.
    pub fn in_memory_alone(&self) -> bool {
        self.segments.is_empty()
    }

    /// Takes the answer to the front piece into account.
    pub fn settle(&mut self, answer: &Result<BatchReceipt, client::Error>) -> PieceResult {
        let Some(piece) = self.pieces.pop_front() else { return PieceResult::default() };
        match judge(answer, &piece) {
            Verdict::Delivered => {
                // A value that is delivered twice is older the second time, and nothing is wrong with it.
                let counted = answer.as_ref().ok().filter(|_| !self.may_be_stored);
                let older = counted.into_iter().flat_map(|done| &done.older);
                let older = older.filter_map(|place| Some(piece.get(*place)?.data_name.clone())).collect();
                PieceResult { delivered: piece.len(), older, ..PieceResult::default() }
            }
            Verdict::Again(why) => {
                self.may_be_stored = true;
                self.pieces.push_front(piece);
                PieceResult { again: Some(why), ..PieceResult::default() }
            }
            Verdict::Less(why) => {
                self.may_be_stored = true;
                self.halve(piece);
                PieceResult { again: Some(why), ..PieceResult::default() }
            }
            Verdict::Halve => {
                self.halve(piece);
                PieceResult::default()
            }
            Verdict::Refused(reasons) => {
                let mut taken = Vec::with_capacity(piece.len());
                let mut refused = Vec::with_capacity(reasons.len());
                for (place, write) in piece.iter().enumerate() {
                    match reasons.get(&place) {
                        None => taken.push(write.clone()),
                        Some(reason) => refused.push(Refusal::of(write, reason.clone())),
                    }
                }
                if !taken.is_empty() {
                    self.pieces.push_front(Arc::new(taken));
                }
                PieceResult { refused, ..PieceResult::default() }
            }
        }
    }

    fn halve(&mut self, piece: Arc<Vec<Write>>) {
        if piece.len() < 2 {
            return self.pieces.push_front(piece);
        }
        let (first, second) = piece.split_at(piece.len() / 2);
        self.pieces.push_front(Arc::new(second.to_vec()));
        self.pieces.push_front(Arc::new(first.to_vec()));
    }
}

impl Refusal {
    pub fn of(write: &Write, reason: String) -> Self {
        Refusal { data_name: write.data_name.clone(), node_name: write.node_name.clone(), reason }
    }
}

/// The meaning of an answer for the writes that were sent.
pub fn judge(answer: &Result<BatchReceipt, client::Error>, writes: &[Write]) -> Verdict {
    let problem = match answer {
        Ok(_) => return Verdict::Delivered,
        Err(client::Error::Problem(problem)) => problem,
        Err(error) => return Verdict::Less(error.to_string()),
    };
    // A whole request may be refused for what the agent is (401, 403) or for where it knocks (404); that can
    // be put right, so nothing is given up for it. These are about what was sent:
    let about_content = matches!(problem.status, 400 | 409 | 413 | 422);
    let reasons = named(problem, writes);
    match () {
        () if !reasons.is_empty() && (about_content || problem.status == 403) => Verdict::Refused(reasons),
        () if !about_content => Verdict::Again(format!("{} ({})", problem.detail, problem.status)),
        () if writes.len() > 1 => Verdict::Halve,
        () => Verdict::Refused(BTreeMap::from([(0, problem.detail.clone())])),
    }
}

/// The items that a problem names, with what is wrong with each: as `[3].dataValue` in its errors, or as
/// `item [3]: …` in its text.
fn named(problem: &Problem, writes: &[Write]) -> BTreeMap<usize, String> {
    let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
    for error in &problem.errors {
        let Some((place, field)) = place(&error.field) else { continue };
        let text = error.to_string();
        let text = text.strip_prefix(&error.field).unwrap_or(&text);
        let text = format!("{}{text}", field.trim_start_matches('.'));
        let text = text.trim_start_matches(": ");
        let reason = reasons.entry(place).or_default();
        *reason = if reason.is_empty() { text.to_owned() } else { format!("{reason}; {text}") };
    }
    if let Some((place, text)) = problem.detail.strip_prefix("item ").and_then(place) {
        let reason = text.trim_start_matches(": ").to_owned();
        // Only the first item of a name that is bound is named; those after it would be refused one by one,
        // a request each.
        let name = writes.get(place).map(|write| &write.data_name);
        let alike = (place + 1..writes.len())
            .filter(|other| problem.status == 409 && Some(&writes[*other].data_name) == name);
        reasons.extend(alike.map(|other| (other, reason.clone())));
        reasons.entry(place).or_insert(reason);
    }
    reasons.retain(|place, _| *place < writes.len());
    reasons
}

/// Splits `[3].nodeName` into 3 and `.nodeName`.
fn place(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}
