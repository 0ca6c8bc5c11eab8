//! Access: tokens, their roles, and the audit trail of changes.
//!
//! A token is a secret of one kind for people, programs and agents. Its text never stands in a log, an error
//! message or a URL: its type shows itself as nothing, and goes over the wire in one header.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::duration::{self, Span};
use crate::fields::{self, Fields};
use crate::labels::{LabelMap, MAX_LABELS, read_labels_of_node};
use crate::names::{DataName, NodeName, UserName};
use crate::node::Labels;
use crate::problem::{FieldError, Problem, kind};
use crate::schema;

/// The environment variable that holds a token.
pub const TOKEN_VARIABLE: &str = "ESTIMAND_TOKEN";

/// The beginning of a new token, by which a search for leaked secrets finds it.
const PREFIX: &str = "estimand_";
const SHORTEST: usize = 24;
const LONGEST: usize = 256;

/// The secret text of a token. It is hidden when printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no token: expected {SHORTEST} to {LONGEST} letters, digits, `-`, `_`, `.` or `~`")]
pub struct TokenError;

impl Token {
    /// Checks the form of a token. Only the service knows if it is valid.
    pub fn parse(text: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        match (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(plain) {
            true => Ok(Token(text.to_owned())),
            false => Err(TokenError),
        }
    }

    /// A token of these random bytes.
    pub fn of(random: &[u8; 32]) -> Token {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut text = PREFIX.to_owned();
        for three in random.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for place in 0..=three.len() {
                text.push(LETTERS[(bits >> (18 - 6 * place)) as usize & 63].into());
            }
        }
        Token(text)
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The role of a token. Each but `join` includes `read`; `node` and `operate` include `write`, and `operate` all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// Getting the certificate of a node, once, and nothing else.
    Join,
    /// Reading values, registrations, nodes.
    Read,
    /// Writing values too.
    Write,
    /// Reading too, and tasks and files of one user.
    User,
    /// The requests of one node's agent: reading, its own assignments, its own values.
    Node,
    /// Everything: what runs, bindings, nodes, tokens.
    Operate,
}

impl Grant {
    pub const WORDS: [(&'static str, Grant); 6] = [
        ("join", Grant::Join),
        ("read", Grant::Read),
        ("write", Grant::Write),
        ("user", Grant::User),
        ("node", Grant::Node),
        ("operate", Grant::Operate),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Grant::Join => "join",
            Grant::Read => "read",
            Grant::Write => "write",
            Grant::User => "user",
            Grant::Node => "node",
            Grant::Operate => "operate",
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Grant {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text).map(|(_, grant)| *grant);
        found.ok_or_else(|| "expected join, read, write, user, node or operate".to_owned())
    }
}

/// A token that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Names it among those that are in use.
    pub name: DataName,
    pub role: Grant,
    /// With the role `node`: which one. With `join`: the only one that may join with it.
    pub node: Option<NodeName>,
    /// With the role `user`: whose tasks and files it is for; none: the user whose name is the token's.
    pub user: Option<UserName>,
    /// None: until it is revoked.
    pub valid_for: Option<Span>,
    /// With the role `node` or `join`: the labels that the node has by it.
    pub labels: LabelMap,
}

crate::described!(NewToken, [DataName, NodeName, UserName, Grant, Labels], described());

fn described() -> Value {
    let for_one =
        "With the role `node` the node that it speaks for, with `join` the only one that may join with it";
    json!({
        "description": "A token that is asked for",
        "type": "object",
        "required": ["name", "role"],
        "additionalProperties": false,
        "properties": {
            "name": schema::of::<DataName>("Names it among those that are in use"),
            "role": schema::of::<Grant>(""),
            "node": schema::optional::<NodeName>(for_one),
            "user": schema::optional::<UserName>(
                "With the role `user`: whose tasks and files it is for; absent: the user whose name is the token's",
            ),
            "validFor": {
                "description": "Until when it is good, from now on; absent: until it is revoked",
                "oneOf": [duration::text_schema(), { "type": "null" }],
            },
            "labels": schema::optional::<Labels>(
                "With the role `node` or `join` the labels that the node has by it, whatever its agent says",
            ),
        },
        "allOf": [{ "oneOf": [
            { "required": ["node"], "properties": {
                "role": { "const": "node" },
                "node": { "type": "string" },
                "user": { "type": "null" },
            } },
            { "properties": { "role": { "const": "join" }, "user": { "type": "null" } } },
            { "properties": {
                "role": { "const": "user" },
                "node": { "type": "null" },
                "labels": { "oneOf": [{ "type": "null" }, { "type": "object", "maxProperties": 0 }] },
            } },
            { "properties": {
                "role": { "enum": ["read", "write", "operate"] },
                "node": { "type": "null" },
                "user": { "type": "null" },
                "labels": { "oneOf": [{ "type": "null" }, { "type": "object", "maxProperties": 0 }] },
            } },
        ] }],
        "examples": [
            { "name": "dashboard", "role": "read", "validFor": "30d" },
            { "name": "agent-7", "role": "node", "node": "node-7" },
            { "name": "laptop-of-alice", "role": "user", "user": "alice" },
            { "name": "databases", "role": "join", "labels": { "role": "db" } },
        ],
    })
}

impl NewToken {
    /// Reads the body of a request.
    pub fn from_map(map: Map<String, Value>) -> Result<NewToken, Problem> {
        const ROLES: &str = "`join`, `read`, `write`, `user`, `node` or `operate`";
        let mut fields = Fields::new(map);
        let name = fields.required("name", DataName::EXPECTED, fields::data_name);
        let role = fields.required("role", ROLES, |value| fields::word(value, &Grant::WORDS));
        let node = fields.optional("node", NodeName::EXPECTED, fields::node_name);
        let user = fields.optional("user", UserName::EXPECTED, fields::user_name);
        let valid_for = fields.optional("validFor", "a duration such as 30d", fields::parsed::<Span>);
        let labels = fields
            .part("labels", |value| read_labels_of_node("labels", value, MAX_LABELS))
            .unwrap_or_default();
        if let Some(role) = role
            && !labels.is_empty()
            && !matches!(role, Grant::Node | Grant::Join)
        {
            fields.error("labels", format!("go with the roles node and join, not with {role}"));
        }
        match (role, &node) {
            (Some(Grant::Node), None) => {
                fields.error("node", "is missing").expected = Some("the node that it speaks for".to_owned());
            }
            (Some(role), Some(_)) if !matches!(role, Grant::Node | Grant::Join) => {
                fields.error("node", format!("goes with the role node, not with {role}"));
            }
            _ => {}
        }
        match (role, &name, &user) {
            (Some(Grant::User), Some(name), None) if !UserName::is_valid(name.as_str()) => {
                fields.error("user", "is missing: the token's name is not a user's").expected =
                    Some(UserName::EXPECTED.to_owned());
            }
            (Some(role), _, Some(_)) if role != Grant::User => {
                fields.error("user", format!("goes with the role user, not with {role}"));
            }
            _ => {}
        }
        if valid_for == Some(Span::ZERO) {
            fields.error("validFor", "is nothing");
        }
        fields.end_body()?;
        match (name, role) {
            (Some(name), Some(role)) => Ok(NewToken { name, role, node, user, valid_for, labels }),
            _ => Err(Problem::internal()),
        }
    }

    /// With the role `user`: whose tasks and files it is for.
    pub fn its_user(&self) -> Option<&str> {
        let named = self.user.as_ref().map_or(self.name.as_str(), UserName::as_str);
        (self.role == Grant::User).then_some(named)
    }

    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("name".to_owned(), self.name.as_str().into());
        map.insert("role".to_owned(), self.role.as_str().into());
        if let Some(node) = &self.node {
            map.insert("node".to_owned(), node.as_str().into());
        }
        if let Some(user) = &self.user {
            map.insert("user".to_owned(), user.as_str().into());
        }
        if let Some(span) = self.valid_for {
            map.insert("validFor".to_owned(), span.to_string().into());
        }
        if !self.labels.is_empty() {
            map.insert("labels".to_owned(), json!(self.labels));
        }
        map
    }
}

/// The state of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    Live,
    Expired,
    Revoked,
}

/// A token as it is listed: everything but itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    pub id: String,
    pub name: String,
    pub role: Grant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The user whose tasks and files it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The labels that the node has by it.
    #[serde(default, skip_serializing_if = "LabelMap::is_empty")]
    pub labels: LabelMap,
    pub state: TokenState,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at: DateTime<Utc>,
    pub created_by: String,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<DateTime<Utc>>,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// The answer to a new token: the only time that it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct IssuedToken {
    pub token: String,
    /// With the role `join`: the SHA-256 of the authority's certificate, by which whoever joins knows the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    #[serde(flatten)]
    pub view: TokenView,
}

/// The answer to a node that joins or renews its certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinAnswer {
    /// PEM: the node's certificate, and the authority's behind it.
    pub certificate: String,
    /// PEM: whom the node can trust.
    pub authority: String,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: DateTime<Utc>,
}

/// One change in the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    /// The token's name; null if none was shown.
    pub by: Option<String>,
    /// The address that it came from; null where it was no request.
    pub from: Option<String>,
    /// `registration`, `binding`, `token`, `user` or `node`.
    pub kind: String,
    /// The name of that thing.
    pub subject: String,
    /// The action.
    pub action: String,
    #[schema(value_type = Option<Object>)]
    pub detail: Option<Value>,
}

/// Refuses a request for a token by name that does not say one.
pub fn no_such_token(name: &str) -> Problem {
    Problem::not_found(format!("there is no live token `{}`", crate::problem::shorten(name)))
}

/// 401: the credential is missing or unknown.
pub fn unauthorized(detail: impl Into<String>) -> Problem {
    Problem::new(401, kind::UNAUTHORIZED, "This needs a token", detail)
}

/// 403: the caller is known and may not do this.
pub fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(403, kind::FORBIDDEN, "This is not allowed", detail)
}

/// 403 because of one field.
pub fn forbidden_field(error: FieldError) -> Problem {
    Problem { detail: error.to_string(), errors: vec![error], ..forbidden("") }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
