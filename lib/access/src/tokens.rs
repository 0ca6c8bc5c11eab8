//! All tokens at one moment. Pure: rows in, decisions out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use estimand_api::access::{Grant, NewToken, Token, TokenState, TokenView, no_such_token};
use estimand_api::labels::LabelMap;
use estimand_api::problem::Problem;
use estimand_store::TokenRow;
use estimand_web::LabelGrant;
use serde_json::{Value, json};

use crate::digest::{self, Digest};

/// More tokens than any cluster has; a bound, so that nothing grows without one.
const MAX_TOKENS: usize = 20_000;

/// The beginning of the names of joined nodes' certificates, which are listed and revoked like tokens.
const CERTIFICATE: &str = "certificate-";
/// How much of a key's digest is in such a name.
const NAMED_DIGITS: usize = 12;
/// The lifetime of a join token, unless another one is given.
const JOIN_MICROS: i64 = 3_600_000_000;

/// A token or a certificate, and the rights that it gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub kind: CredentialKind,
    pub name: Arc<str>,
    pub grant: Grant,
    pub node: Option<Arc<str>>,
    /// With the role `user`, and no other: whose tasks and files it is for.
    pub user: Option<Arc<str>>,
    /// Microseconds.
    pub expires_at: Option<i64>,
    /// A join token that a node has joined with.
    pub is_used: bool,
    /// The labels of its node.
    pub labels: LabelGrant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// Its digest.
    Token(Digest),
    /// The digest of its public key.
    Certificate(Digest),
}

impl Credential {
    /// A description for people.
    pub fn description(&self) -> String {
        match self.kind {
            CredentialKind::Token(_) => format!("the token `{}`", self.name),
            CredentialKind::Certificate(_) => format!("the {}", self.name),
        }
    }
}

#[derive(Debug, Default)]
pub struct Tokens {
    /// All that ever were stored, the oldest first; none as long as that is not known.
    rows: Option<Arc<Vec<TokenRow>>>,
    by_digest: HashMap<Digest, Credential>,
    revoked: HashSet<Digest>,
    /// The labels of certificates, by the digests of their keys.
    labels_by_key: HashMap<Digest, Arc<LabelMap>>,
}

impl Tokens {
    pub fn new(rows: Option<Arc<Vec<TokenRow>>>, own: &[(Token, Credential)]) -> Tokens {
        let good = |row: &&TokenRow| row.revoked_at.is_none() || row.used_by.is_some();
        let stored = rows.iter().flat_map(|rows| rows.iter()).filter(good).filter_map(known);
        let own = own.iter().map(|(token, known)| (digest::of(token.expose()), known.clone()));
        let by_digest = stored.chain(own).collect();
        let over = rows.iter().flat_map(|rows| rows.iter()).filter(|row| row.revoked_at.is_some());
        let revoked = over.filter_map(|row| digest::from_hex(&row.hash)).collect();
        let certificates = rows.iter().flat_map(|rows| rows.iter()).filter(|row| is_certificate(row));
        let labelled = certificates.filter(|row| row.labels.is_some());
        let labels_by_key = labelled
            .filter_map(|row| Some((digest::from_hex(&row.hash)?, Arc::new(labels_of(row)))))
            .collect();
        Tokens { rows, by_digest, revoked, labels_by_key }
    }

    /// The labels that the certificates of a key bind to their node.
    pub fn labels_of_key(&self, key: &Digest) -> LabelGrant {
        LabelGrant::These(self.labels_by_key.get(key).cloned().unwrap_or_default())
    }

    /// The stored tokens, if they are known.
    pub fn stored(&self) -> Option<&Arc<Vec<TokenRow>>> {
        self.rows.as_ref()
    }

    fn rows(&self) -> &[TokenRow] {
        self.rows.as_ref().map_or(&[], |rows| rows.as_slice())
    }

    /// The credential of a token, also after it expired.
    pub fn find(&self, token: &str) -> Option<&Credential> {
        self.by_digest.get(&digest::of(token))
    }

    /// True if certificates of that key are revoked.
    pub fn is_revoked(&self, key: &Digest) -> bool {
        self.revoked.contains(key)
    }

    /// The certificates of other keys that speak for a node now.
    pub fn certificates_for(&self, node: &str, but: &str, now: i64) -> Vec<TokenRow> {
        let others = self.rows().iter().filter(|row| is_certificate(row) && row.hash != but);
        let of_node = others.filter(|row| row.node_name.as_deref() == Some(node));
        of_node.filter(|row| state(row, now) == TokenState::Live).cloned().collect()
    }

    /// The name of another key's certificate that spoke for a node at any time.
    pub fn any_certificate_for(&self, node: &str, but: &str) -> Option<&str> {
        let mut others = self.rows().iter().filter(|row| is_certificate(row) && row.hash != but);
        others.find(|row| row.node_name.as_deref() == Some(node)).map(|row| row.name.as_str())
    }

    /// The name of a token that speaks for a node now.
    pub fn token_for(&self, node: &str, now: i64) -> Option<&str> {
        let speaks = |known: &&Credential| {
            known.grant == Grant::Node
                && known.node.as_deref() == Some(node)
                && known.expires_at.is_none_or(|end| end > now)
        };
        self.by_digest.values().find(speaks).map(|known| &*known.name)
    }

    /// The row of a join token with which that key may join: the token is unused, or that key has used it.
    pub fn to_join_with(&self, token: &Digest, key: &str, now: i64) -> Option<&TokenRow> {
        let hash = digest::hex(token);
        let row = self.rows().iter().find(|row| row.hash == hash && row.role == Grant::Join.as_str())?;
        match &row.used_by {
            None => (state(row, now) == TokenState::Live).then_some(row),
            Some(user) => (user == key && row.expires_at.is_none_or(|end| end > now)).then_some(row),
        }
    }

    /// The row of a node's key, also when it is over.
    pub fn of_key(&self, key: &str) -> Option<&TokenRow> {
        self.rows().iter().find(|row| row.hash == key && is_certificate(row))
    }

    pub fn check_room(&self) -> Result<(), Problem> {
        match self.rows().len() >= MAX_TOKENS {
            true => Err(Problem::conflict(format!("there are {MAX_TOKENS} tokens already"))),
            false => Ok(()),
        }
    }

    pub fn live(&self, name_or_id: &str, now: i64) -> Option<&TokenRow> {
        let named = |row: &&TokenRow| row.name == name_or_id || row.id == name_or_id;
        self.rows().iter().filter(named).find(|row| state(row, now) == TokenState::Live)
    }

    pub fn check_new(&self, new: &NewToken, now: i64) -> Result<(), Problem> {
        if new.name.as_str().starts_with(CERTIFICATE) {
            return Err(Problem::conflict(format!(
                "names that begin with `{CERTIFICATE}` are those of certificates"
            )));
        }
        if let Some(row) = self.live(new.name.as_str(), now) {
            let detail = format!("a token named `{}` is in use: revoke it, or choose another name", row.name);
            return Err(Problem::conflict(detail));
        }
        self.check_room()
    }

    /// The row of a certificate's key as it is when that is revoked; it may have been issued without asking here.
    pub fn revoked_key(&self, key: &Digest, by: &str, now: i64) -> TokenRow {
        let key = digest::hex(key);
        let row = match self.of_key(&key) {
            Some(row) => row.clone(),
            None => TokenRow {
                role: Grant::Operate.as_str().to_owned(),
                node_name: None,
                expires_at: None,
                ..row_of_key(&key, "", now, by, now)
            },
        };
        TokenRow { revoked_at: row.revoked_at.or(Some(now)), ..row }
    }

    /// The row of a token as it is when it is revoked. A token cannot revoke itself.
    pub fn revoked(&self, name_or_id: &str, own_name: &str, now: i64) -> Result<TokenRow, Problem> {
        let row = self.live(name_or_id, now).ok_or_else(|| no_such_token(name_or_id))?;
        if row.name == own_name {
            let detail =
                "a token does not revoke itself: make another one with the role operate, and use that";
            return Err(Problem::conflict(detail));
        }
        Ok(TokenRow { revoked_at: Some(now), ..row.clone() })
    }
}

/// None for a certificate: its key is not secret, and knowing it gives no rights.
fn known(row: &TokenRow) -> Option<(Digest, Credential)> {
    if is_certificate(row) {
        return None;
    }
    let digest = digest::from_hex(&row.hash)?;
    let grant: Grant = row.role.parse().ok()?;
    // Without a user it would be for the tasks of all.
    let user = match grant {
        Grant::User => Some(row.user_name.as_deref()?.into()),
        _ => None,
    };
    let known = Credential {
        kind: CredentialKind::Token(digest),
        name: row.name.as_str().into(),
        grant,
        user,
        node: row.node_name.as_deref().map(Into::into),
        expires_at: row.expires_at,
        is_used: row.used_by.is_some(),
        labels: LabelGrant::These(Arc::new(labels_of(row))),
    };
    Some((digest, known))
}

pub fn row_of(new: &NewToken, token: &Token, by: &str, now: i64) -> TokenRow {
    let lasts = new.valid_for.map(|span| i64::try_from(span.as_micros()).unwrap_or(i64::MAX));
    let lasts = lasts.or((new.role == Grant::Join).then_some(JOIN_MICROS));
    TokenRow {
        id: digest::random_id(),
        name: new.name.to_string(),
        hash: digest::hex(&digest::of(token.expose())),
        role: new.role.as_str().to_owned(),
        node_name: new.node.as_ref().map(ToString::to_string),
        created_at: now,
        created_by: estimand_store::actor(by),
        expires_at: lasts.map(|lasts| now.saturating_add(lasts)),
        revoked_at: None,
        used_by: None,
        labels: (!new.labels.is_empty()).then(|| json!(new.labels).to_string()),
        user_name: new.its_user().map(str::to_owned),
    }
}

/// The labels that a token or certificate binds to its node. A row that cannot be read binds none.
fn labels_of(row: &TokenRow) -> LabelMap {
    let read = row.labels.as_deref().map(serde_json::from_str).transpose();
    read.inspect_err(|error| tracing::warn!(token = row.name, %error, "the labels of a token cannot be read"))
        .ok()
        .flatten()
        .unwrap_or_default()
}

pub fn is_certificate(row: &TokenRow) -> bool {
    row.name.starts_with(CERTIFICATE)
}

/// The row of the key with which a node has joined, until its certificate is over.
pub fn row_of_key(key: &str, node: &str, expires_at: i64, by: &str, now: i64) -> TokenRow {
    TokenRow {
        id: digest::random_id(),
        name: format!("{CERTIFICATE}{}", key.get(..NAMED_DIGITS).unwrap_or(key)),
        hash: key.to_owned(),
        role: Grant::Node.as_str().to_owned(),
        node_name: Some(node.to_owned()),
        created_at: now,
        created_by: estimand_store::actor(by),
        expires_at: Some(expires_at),
        revoked_at: None,
        used_by: None,
        labels: None,
        user_name: None,
    }
}

pub fn state(row: &TokenRow, now: i64) -> TokenState {
    match (row.revoked_at, row.expires_at) {
        (Some(_), _) => TokenState::Revoked,
        (None, Some(end)) if end <= now => TokenState::Expired,
        _ => TokenState::Live,
    }
}

/// A token as people see it; none if its row is not one that was written here.
pub fn view(row: &TokenRow, now: i64) -> Option<TokenView> {
    Some(TokenView {
        id: row.id.clone(),
        name: row.name.clone(),
        role: row.role.parse().ok()?,
        node: row.node_name.clone(),
        user: row.user_name.clone(),
        labels: labels_of(row),
        state: state(row, now),
        created_at: instant(row.created_at),
        created_by: row.created_by.clone(),
        expires_at: row.expires_at.map(instant),
        revoked_at: row.revoked_at.map(instant),
    })
}

/// The detail for the audit trail.
pub fn detail(row: &TokenRow) -> Value {
    let mut detail = json!({ "id": row.id, "role": row.role });
    if let Some(node) = &row.node_name {
        detail["node"] = node.as_str().into();
    }
    if let Some(user) = &row.user_name {
        detail["user"] = user.as_str().into();
    }
    if row.labels.is_some() {
        detail["labels"] = json!(labels_of(row));
    }
    detail
}

pub fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
