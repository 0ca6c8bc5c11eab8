//! The operator's first token: made when there is none, and kept in a file that only its owner can read.
//!
//! The file is written before the token is stored: a crash between the two leaves a file with a token that is unknown,
//! and the next start makes another one. If the file is deleted, the next start makes a new token and revokes the old.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use estimand_api::access::{Grant, NewToken, Token};
use estimand_api::names::DataName;
use estimand_runtime::files::write_atomically;
use estimand_store::Error;

use crate::{Access, digest, tokens};

/// The name of the token.
const NAME: &str = "operator";
/// Its author in the audit trail.
const BY: &str = "first start";
const MAX_BYTES: u64 = 1024;

/// The token that is kept there.
pub fn read(place: &Path) -> Option<Token> {
    let mut text = String::new();
    File::open(place).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    if let Ok(found) = fs::metadata(place)
        && found.permissions().mode() & 0o077 != 0
    {
        tracing::warn!(file = %place.display(), "others can read the operator's token: chmod 600");
    }
    Token::parse(&text).ok()
}

/// Makes a token and keeps it there. The caller holds the turn.
pub async fn make(access: &Access, place: &Path) -> Result<(), Error> {
    let token = digest::random_token();
    let line = format!("{}\n", token.expose());
    if let Err(error) = write_atomically(place, line.as_bytes(), 0o600) {
        tracing::error!(file = %place.display(), %error, "the operator's token cannot be kept; \
            give one in ESTIMAND_TOKEN, or nobody can change what runs");
        return Ok(());
    }
    let now = access.0.clock.now_micros();
    let old = access.0.tokens.load().live(NAME, now).cloned();
    let over = old.map(|old| (estimand_store::TokenRow { revoked_at: Some(now), ..old }, "revoked"));
    let Ok(name) = DataName::parse(NAME) else { return Ok(()) };
    let new = NewToken { name, role: Grant::Operate, node: None, valid_for: None };
    let made = (tokens::row_of(&new, &token, BY, now), "created");
    access.store(over.into_iter().chain([made]).collect(), BY).await
}
