//! The operator's first token: made when there is none, and kept in a file that only its owner can read.
//!
//! The file is written before the token is stored. So a token in the file that is not stored comes from a start that was
//! cut short, or from another database: it is stored then. Only a file that is not there means that a token is to be made;
//! one that cannot be read now may be there all the same. A new token ends the one that was made for the same file
//! before, and no other: another machine's services may have been started over the same database.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use estimand_api::access::{Grant, NewToken, Token, TokenState};
use estimand_api::names::DataName;
use estimand_runtime::files::write_atomically;
use estimand_store::TokenRow;

use crate::{digest, tokens};

/// The name of the token; a number is added if another file's token has it.
const NAME: &str = "operator";
/// The beginning of its author in the audit trail.
const BY: &str = "first start";
const MAX_BYTES: u64 = 1024;

/// The file of the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("cannot {doing} {}: {cause}", place.display())]
    Io { doing: &'static str, place: PathBuf, cause: io::Error },
    #[error("there is no token in {}: remove the file, and the next start makes another one", .0.display())]
    Content(PathBuf),
}

/// The rows to be stored, each with its action in the audit trail.
pub type Rows = Vec<(TokenRow, &'static str)>;

/// Sees to it that there is a token in the file, and returns what is to be stored for it.
pub fn keep(place: &Path, stored: &[TokenRow], now: i64) -> Result<Rows, KeptError> {
    let by = author(place);
    if let Some(token) = read(place)? {
        let hash = digest::hex(&digest::of(token.expose()));
        return Ok(match stored.iter().find(|row| row.hash == hash) {
            Some(row) => {
                if tokens::state(row, now) != TokenState::Live {
                    tracing::warn!(
                        file = %place.display(),
                        "the operator's token was revoked: remove the file, and the next start makes another one"
                    );
                }
                Vec::new()
            }
            None => vec![(row_of(&token, &free_name(stored, now), &by, now), "created")],
        });
    }
    let token = digest::random_token();
    let line = format!("{}\n", token.expose());
    let io = |cause| KeptError::Io { doing: "write", place: place.to_owned(), cause };
    write_atomically(place, line.as_bytes(), 0o600).map_err(io)?;
    let live = |row: &&TokenRow| tokens::state(row, now) == TokenState::Live;
    let lost = stored.iter().filter(live).filter(|row| row.created_by == by);
    let mut rows: Rows =
        lost.map(|row| (TokenRow { revoked_at: Some(now), ..row.clone() }, "revoked")).collect();
    let others: Vec<TokenRow> =
        stored.iter().filter(|row| rows.iter().all(|(lost, _)| lost.id != row.id)).cloned().collect();
    rows.push((row_of(&token, &free_name(&others, now), &by, now), "created"));
    Ok(rows)
}

/// The author of a file's token: the same for each token that is made for this file.
pub fn author(place: &Path) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let place = place.canonicalize().or_else(|_| std::path::absolute(place));
    let place = place.map_or_else(|_| String::new(), |place| place.display().to_string());
    // An at sign would stand before an address.
    estimand_store::actor(format!("{BY} on {}, {place}", host.trim()).replace('@', "_"))
}

/// The token in a file; none if there is no such file.
fn read(place: &Path) -> Result<Option<Token>, KeptError> {
    let io = |cause| KeptError::Io { doing: "read", place: place.to_owned(), cause };
    let file = match File::open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io)?,
    };
    if file.metadata().map_err(io)?.mode() & 0o077 != 0 {
        tracing::warn!(file = %place.display(), "others can read the operator's token: chmod 600");
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(io)?;
    Token::parse(&text).map(Some).map_err(|_| KeptError::Content(place.to_owned()))
}

fn free_name(stored: &[TokenRow], now: i64) -> String {
    let is_taken =
        |name: &str| stored.iter().any(|row| row.name == name && tokens::state(row, now) == TokenState::Live);
    let numbered = (2..).map(|number| format!("{NAME}-{number}"));
    std::iter::once(NAME.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

fn row_of(token: &Token, name: &str, by: &str, now: i64) -> TokenRow {
    let name = DataName::parse(name).expect("a word and a number are a name");
    let new = NewToken {
        name,
        role: Grant::Operate,
        node: None,
        user: None,
        valid_for: None,
        labels: Default::default(),
    };
    tokens::row_of(&new, token, by, now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn kept(place: &Path) -> String {
        std::fs::read_to_string(place).unwrap()
    }

    /// The rows of a store after these were put into it.
    fn put(stored: &[TokenRow], rows: Rows) -> Vec<TokenRow> {
        let mut all = stored.to_vec();
        for (row, _) in rows {
            all.retain(|known| known.id != row.id);
            all.push(row);
        }
        all
    }

    fn live(stored: &[TokenRow]) -> Vec<&str> {
        let live = stored.iter().filter(|row| tokens::state(row, 9) == TokenState::Live);
        live.map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn a_lost_file_ends_its_own_token_and_no_other() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = folders.each_ref().map(|folder| folder.path().join("token"));
        let stored = put(&[], keep(&one, &[], 1).unwrap());
        assert_eq!(live(&stored), ["operator"]);
        assert!(keep(&one, &stored, 2).unwrap().is_empty());
        // Another folder over the same database.
        let stored = put(&stored, keep(&other, &stored, 3).unwrap());
        assert_eq!(live(&stored), ["operator", "operator-2"]);
        let before = kept(&one);
        std::fs::remove_file(&one).unwrap();
        let stored = put(&stored, keep(&one, &stored, 4).unwrap());
        assert_eq!(live(&stored), ["operator-2", "operator"]);
        assert_ne!(kept(&one), before);
    }

    #[test]
    fn only_a_file_that_is_not_there_means_another_token() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("token");
        let stored = put(&[], keep(&place, &[], 1).unwrap());
        let before = kept(&place);
        // Another database: the token stays.
        assert_eq!(keep(&place, &[], 2).unwrap()[0].0.hash, stored[0].hash);
        assert_eq!(kept(&place), before);
        std::fs::write(&place, "spoilt").unwrap();
        assert!(matches!(keep(&place, &stored, 3), Err(KeptError::Content(_))));
        // A folder in its place, or too many open files: an error of another kind than "not found".
        std::fs::remove_file(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        assert!(matches!(keep(&place, &stored, 4), Err(KeptError::Io { .. })));
    }

    #[test]
    fn a_revoked_token_is_not_stored_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("token");
        let mut stored = put(&[], keep(&place, &[], 1).unwrap());
        stored[0].revoked_at = Some(2);
        assert!(keep(&place, &stored, 3).unwrap().is_empty());
    }
}
