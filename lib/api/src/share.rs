//! Shares: how much of each bounded thing of a service one user may have. Each kind is declared once, in [`KINDS`]; bodies,
//! answers, options of the command line and refusals come from there.

use serde_json::{Map, Value, json};

use crate::fields::{self, Fields};
use crate::names::UserName;
use crate::problem::{Problem, kind};
use crate::size;

/// A kind of things of which each user has a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareKind {
    Tasks,
    Memory,
    Logs,
    Priority,
    Reservations,
    ReservationBytes,
    Units,
    StudyBytes,
    Files,
    FileBytes,
    Uploads,
    Watches,
    Polls,
    Tunnels,
    Connections,
    Changes,
    Bodies,
    Responses,
}

/// The unit of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareUnit {
    Number,
    Bytes,
    /// Not a part of anything: the highest that may be asked for.
    Highest,
}

/// A kind of share as people and programs meet it.
#[derive(Debug)]
pub struct ShareDeclaration {
    pub kind: ShareKind,
    /// In bodies and figures.
    pub name: &'static str,
    /// Of the command line.
    pub flag: &'static str,
    pub unit: ShareUnit,
    /// The things that it counts.
    pub counts: &'static str,
    /// A way to have fewer of them.
    pub less: &'static str,
}

/// As many as there are kinds.
pub const KINDS_OF_SHARE: usize = 18;

/// All kinds, each at its own place.
pub static KINDS: [ShareDeclaration; KINDS_OF_SHARE] = {
    use ShareKind as Kind;
    use ShareUnit::{Bytes, Highest, Number};
    [
        declared(Kind::Tasks, "tasks", "tasks", Number, "tasks that wait or run", "cancel some"),
        declared(Kind::Memory, "memory", "memory", Bytes, "documents of tasks kept", "cancel or delete some"),
        declared(Kind::Logs, "logs", "logs", Bytes, "logs of tasks kept", "delete tasks that are over"),
        declared(Kind::Priority, "priority", "priority", Highest, "priority of a task", "ask for less"),
        declared(
            Kind::Reservations,
            "reservations",
            "reservations",
            Number,
            "reservations open",
            "cancel some",
        ),
        declared(
            Kind::ReservationBytes,
            "reservationBytes",
            "reservation-bytes",
            Bytes,
            "documents of reservations kept",
            "cancel some",
        ),
        declared(Kind::Units, "units", "units", Number, "units promised", "cancel reservations"),
        declared(
            Kind::StudyBytes,
            "studyBytes",
            "study-bytes",
            Bytes,
            "studies and reports kept",
            "delete some",
        ),
        declared(Kind::Files, "files", "files", Number, "files kept", "remove some"),
        declared(Kind::FileBytes, "fileBytes", "file-bytes", Bytes, "files kept", "remove some"),
        declared(Kind::Uploads, "uploads", "uploads", Number, "uploads at once", "end some"),
        declared(Kind::Watches, "watches", "watches", Number, "watches at once", "end some"),
        declared(Kind::Polls, "polls", "polls", Number, "requests that wait", "end some"),
        declared(Kind::Tunnels, "tunnels", "tunnels", Number, "connections to tasks", "end some"),
        declared(Kind::Connections, "connections", "connections", Number, "connections", "close some"),
        declared(Kind::Changes, "changes", "changes", Number, "changes at once", "wait for some"),
        declared(Kind::Bodies, "bodies", "bodies", Bytes, "requests on their way", "send fewer at once"),
        declared(
            Kind::Responses,
            "responses",
            "responses",
            Bytes,
            "responses on their way",
            "read them first",
        ),
    ]
};

const fn declared(
    kind: ShareKind,
    name: &'static str,
    flag: &'static str,
    unit: ShareUnit,
    counts: &'static str,
    less: &'static str,
) -> ShareDeclaration {
    ShareDeclaration { kind, name, flag, unit, counts, less }
}

/// The most that may be set: numbers in JSON are exact up to there.
const MOST: u64 = (1 << 53) - 1;
/// A priority is no higher.
const MOST_PRIORITY: u64 = i32::MAX.unsigned_abs() as u64;
/// The share of a user for whom nothing is set is this part of the bound of all.
const FAIR_PART: u64 = 8;

impl ShareKind {
    pub fn declaration(self) -> &'static ShareDeclaration {
        &KINDS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.declaration().name
    }

    /// An amount in words: `240`, or `2GiB` of bytes.
    pub fn text(self, amount: u64) -> String {
        match self.declaration().unit {
            ShareUnit::Bytes => size::text(amount - amount % rounding(amount)),
            ShareUnit::Number | ShareUnit::Highest => amount.to_string(),
        }
    }

    /// Reads an amount, which may be a text with a unit if it is of bytes.
    pub fn read(self, given: &Value) -> Result<u64, String> {
        match self.declaration().unit {
            ShareUnit::Bytes => size::read(given, 0, MOST),
            ShareUnit::Number => fields::whole(given, 0, MOST),
            ShareUnit::Highest => fields::whole(given, 0, MOST_PRIORITY),
        }
    }

    /// The right form of an amount.
    pub fn expected(self) -> &'static str {
        match self.declaration().unit {
            ShareUnit::Bytes => "a size such as 2GiB",
            ShareUnit::Number => "a whole number such as 1000",
            ShareUnit::Highest => "a priority from 0 on",
        }
    }

    /// The refusal of a thing that would be kept beyond the share of a user: 409.
    pub fn full(self, user: &str, used: u64, more: u64, limit: u64) -> Problem {
        let detail = self.detail(user, used, more, limit);
        Problem::new(409, kind::SHARE_FULL, TITLE, detail)
    }

    /// The same for a thing that passes: 503.
    pub fn busy(self, user: &str, used: u64, more: u64, limit: u64) -> Problem {
        let problem = Problem::new(503, kind::SHARE_FULL, TITLE, self.detail(user, used, more, limit));
        Problem { retry_after: Some(1), ..problem }
    }

    fn detail(self, user: &str, used: u64, more: u64, limit: u64) -> String {
        let ShareDeclaration { flag, counts, less, .. } = self.declaration();
        let wanted = used.saturating_add(more).max(limit.saturating_mul(2)).min(MOST);
        let (has, asked, most) = (self.text(used), self.text(more), self.text(limit));
        let enough = self.text(match self.declaration().unit {
            ShareUnit::Bytes => wanted.next_multiple_of(rounding(wanted)),
            ShareUnit::Number | ShareUnit::Highest => wanted,
        });
        format!(
            "{counts}: `{user}` has {has} of at most {most}, and this would be {asked} more; {less}, or an operator gives \
             more: `estimand users set {user} --{flag} {enough}`"
        )
    }
}

/// Sizes are shown in the largest unit of which they are ten or more.
fn rounding(bytes: u64) -> u64 {
    [1 << 30, 1 << 20, 1 << 10].into_iter().find(|unit| bytes >= 10 * unit).unwrap_or(1)
}

const TITLE: &str = "This user's share is used up";

/// The limits that are set for one user. Where none is, a fair part of the bound of all counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits([Option<u64>; KINDS_OF_SHARE]);

/// Changes of limits: each kind that is named gets a limit, or none of its own any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitChanges(Vec<(ShareKind, Option<u64>)>);

impl Limits {
    pub fn given(&self, kind: ShareKind) -> Option<u64> {
        self.0[kind as usize]
    }

    /// The limit of a kind, given the bound of all users together.
    pub fn limit(&self, kind: ShareKind, bound: u64) -> u64 {
        match (self.given(kind), kind.declaration().unit) {
            (Some(limit), _) => limit,
            (None, ShareUnit::Highest) => 0,
            (None, ShareUnit::Number | ShareUnit::Bytes) => (bound / FAIR_PART).max(1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub fn change(&mut self, changes: &LimitChanges) {
        for (kind, limit) in &changes.0 {
            self.0[*kind as usize] = *limit;
        }
    }

    pub fn to_map(&self) -> Map<String, Value> {
        let given = KINDS.iter().filter_map(|declared| Some((declared.name, self.given(declared.kind)?)));
        given.map(|(name, limit)| (name.to_owned(), json!(limit))).collect()
    }

    /// Reads limits that were stored; what a newer service has stored beside them is left alone.
    pub fn from_stored(map: &Map<String, Value>) -> Limits {
        let mut limits = Limits::default();
        for declared in &KINDS {
            limits.0[declared.kind as usize] = map.get(declared.name).and_then(Value::as_u64);
        }
        limits
    }
}

impl LimitChanges {
    pub fn set(&mut self, kind: ShareKind, limit: Option<u64>) {
        self.0.push((kind, limit));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the body of a request: a limit for each kind that is named; with `null` the default counts again.
    pub fn from_map(map: Map<String, Value>) -> Result<LimitChanges, Problem> {
        let is_reset = |name: &str| map.get(name).is_some_and(Value::is_null);
        let reset = KINDS.iter().filter(|declared| is_reset(declared.name));
        let mut changes: Vec<(ShareKind, Option<u64>)> =
            reset.map(|declared| (declared.kind, None)).collect();
        let mut fields = Fields::new(map);
        for ShareDeclaration { kind, name, .. } in &KINDS {
            let limit = fields.optional(name, kind.expected(), |given| kind.read(given));
            changes.extend(limit.map(|limit| (*kind, Some(limit))));
        }
        fields.end_body()?;
        Ok(LimitChanges(changes))
    }

    pub fn to_map(&self) -> Map<String, Value> {
        self.0.iter().map(|(kind, limit)| (kind.name().to_owned(), json!(limit))).collect()
    }
}

crate::described!(LimitChanges, [], described());

fn described() -> Value {
    let property = |declared: &ShareDeclaration| {
        let amount = match declared.unit {
            ShareUnit::Bytes => {
                json!([whole(MOST), { "type": "string", "pattern": size::PATTERN }, { "type": "null" }])
            }
            ShareUnit::Number => json!([whole(MOST), { "type": "null" }]),
            ShareUnit::Highest => json!([whole(MOST_PRIORITY), { "type": "null" }]),
        };
        let description = match declared.unit {
            ShareUnit::Bytes => format!("The most bytes of {}", declared.counts),
            ShareUnit::Number => format!("The most {}", declared.counts),
            ShareUnit::Highest => format!("The highest {}", declared.counts),
        };
        (declared.name.to_owned(), json!({ "description": description, "oneOf": amount }))
    };
    json!({
        "description": "Limits of one user; `null`: the default again",
        "type": "object",
        "additionalProperties": false,
        "properties": KINDS.iter().map(property).collect::<Map<String, Value>>(),
        "examples": [{ "tasks": 1000, "memory": "2GiB", "priority": null }],
    })
}

fn whole(most: u64) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": most })
}

/// The limits that are set for a user.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct UserLimits {
    #[schema(value_type = UserName)]
    pub user: String,
    /// By kind; those that are not there are the defaults.
    pub limits: std::collections::BTreeMap<String, u64>,
}

impl UserLimits {
    pub fn new(user: &str, limits: &Limits) -> Self {
        let given = KINDS.iter().filter_map(|declared| {
            limits.given(declared.kind).map(|limit| (declared.name.to_owned(), limit))
        });
        UserLimits { user: user.to_owned(), limits: given.collect() }
    }
}

/// The shares of one user in the services of one process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct UserShares {
    #[schema(value_type = UserName)]
    pub user: String,
    /// By kind.
    pub shares: std::collections::BTreeMap<String, Share>,
}

/// The part of one kind that a user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Share {
    pub used: u64,
    pub limit: u64,
    /// An operator has set the limit; else it is the default.
    pub set: bool,
}

/// The name of a user in a path.
pub fn path_user(given: &str) -> Result<UserName, Problem> {
    UserName::parse(given).map_err(|error| Problem::invalid_field(error.at("name")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::json::parse_object;
    use crate::schema;

    #[test]
    fn each_kind_is_at_its_own_place() {
        for (place, declared) in KINDS.iter().enumerate() {
            assert_eq!(declared.kind as usize, place, "{}", declared.name);
        }
    }

    #[test]
    fn a_limit_that_is_not_set_is_a_fair_part() {
        let mut limits = Limits::default();
        assert_eq!(limits.limit(ShareKind::Tasks, 800), 100);
        assert_eq!((limits.limit(ShareKind::Tasks, 3), limits.limit(ShareKind::Priority, 800)), (1, 0));
        let changes = parse_object(br#"{"tasks": 7, "memory": "2GiB", "priority": 5}"#).unwrap();
        limits.change(&LimitChanges::from_map(changes).unwrap());
        assert_eq!((limits.limit(ShareKind::Tasks, 800), limits.limit(ShareKind::Memory, 1)), (7, 2 << 30));
        assert_eq!(Limits::from_stored(&limits.to_map()), limits);
        limits.change(&LimitChanges::from_map(parse_object(br#"{"tasks": null}"#).unwrap()).unwrap());
        assert_eq!((limits.given(ShareKind::Tasks), limits.given(ShareKind::Priority)), (None, Some(5)));
    }

    #[test]
    fn wrong_limits_are_named_each() {
        let wrong = parse_object(br#"{"tasks": -1, "memory": "2 bags", "task": 3}"#).unwrap();
        let problem = LimitChanges::from_map(wrong).unwrap_err();
        let fields: Vec<&str> = problem.errors.iter().map(|error| &*error.field).collect();
        assert_eq!(fields, ["tasks", "memory", "task"]);
        let schema = schema::testing::json(<LimitChanges as utoipa::PartialSchema>::schema());
        assert_eq!(schema::testing::fields(&schema).len(), KINDS_OF_SHARE);
    }

    #[test]
    fn a_refusal_says_which_and_how_to_get_more() {
        let problem = ShareKind::Memory.full("alice", 1 << 20, 300, 1 << 20);
        assert_eq!((problem.status, &*problem.kind), (409, kind::SHARE_FULL));
        assert_eq!(
            problem.detail,
            "documents of tasks kept: `alice` has 1MiB of at most 1MiB, and this would be 300 more; cancel or delete some, or an \
             operator gives more: `estimand users set alice --memory 2MiB`"
        );
        assert_eq!(ShareKind::Watches.busy("alice", 8, 1, 8).status, 503);
    }
}
