//! The registry's uploaded files: stored, looked for, and removed when nothing needs them.

use bytes::Bytes;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{Registration, Sha256};
use estimand_store::{Error, Upload};

use crate::Registry;

/// The most files that are kept.
const MAX_UPLOADS: i64 = 4096;
/// A file that no registration names is kept for so long: an hour.
const KEPT_US: i64 = 3_600_000_000;

impl Registry {
    /// Stores a file; false if it was there already. What nothing needs any more goes then.
    pub(crate) async fn upload(&self, sha256: Sha256, content: Bytes) -> Result<bool, Problem> {
        let (now, digest) = (self.0.shared.clock.now_micros(), sha256.to_string());
        let stored = self.0.audit.run(move |connection| {
            let stored = connection.put_upload(&digest, &content, now, MAX_UPLOADS)?;
            let swept = match stored {
                Upload::New | Upload::Full => connection.sweep_uploads(now.saturating_sub(KEPT_US))?,
                Upload::Known => 0,
            };
            match stored {
                Upload::Full if swept > 0 => connection.put_upload(&digest, &content, now, MAX_UPLOADS),
                _ => Ok(stored),
            }
        });
        match stored.await.map_err(|error| unavailable(&error))? {
            Upload::New => Ok(true),
            Upload::Known => Ok(false),
            Upload::Full => Err(Problem::conflict(format!(
                "there are {MAX_UPLOADS} files that registrations name or named, the most that are kept"
            ))),
        }
    }

    pub(crate) async fn uploaded(&self, sha256: Sha256) -> Result<Vec<u8>, Problem> {
        let digest = sha256.to_string();
        let loaded = self.0.audit.run(move |connection| connection.load_upload(&digest)).await;
        let content = loaded.map_err(|error| unavailable(&error))?;
        content.ok_or_else(|| Problem::not_found(format!("no file with the SHA-256 {sha256} was uploaded")))
    }

    /// Rejects a registration whose file is not there. One that is there stays for a while from now on.
    pub(crate) async fn check_upload(&self, registration: &Registration) -> Result<(), Problem> {
        let Some(upload) = registration.upload else { return Ok(()) };
        let (now, digest) = (self.0.shared.clock.now_micros(), upload.sha256.to_string());
        let found = self.0.audit.run(move |connection| connection.touch_upload(&digest, now)).await;
        match found.map_err(|error| unavailable(&error))? {
            true => Ok(()),
            false => Err(Problem::invalid_field(
                FieldError::new("upload.sha256", "is the digest of no file that was uploaded")
                    .given(upload.sha256)
                    .expected("a digest that `POST /api/uploads` answered"),
            )),
        }
    }
}

fn unavailable(error: &Error) -> Problem {
    tracing::warn!(%error, "an uploaded file is neither stored nor read");
    Problem::unavailable("the database does not answer", 1)
}
