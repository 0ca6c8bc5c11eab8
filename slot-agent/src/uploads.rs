//! Uploaded files: fetched from the manager by the digest of their content, kept on disk, and run from a sealed copy.
//!
//! An agent takes none unless its operator said so, and with a key only what that key signed. Content and signature are
//! checked before each use: neither the way here nor the disk is believed. A file goes when no slot needs it any more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use estimand_api::names::NodeName;
use estimand_api::registration::{MAX_UPLOAD_BYTES, Sha256, Upload, UploadSignature};
use estimand_client as client;
use estimand_runtime::files::write_atomically;
use estimand_runtime::{Driver, Next, Rounds, Stop, Work};
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::allow::ProgramError;
use crate::link::Servers;
use crate::program::{Program, sealed, sha256};

/// The uploaded files that an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadPolicy {
    Nothing,
    Everything,
    /// The files that the holder of this Ed25519 key has signed.
    Signed([u8; 32]),
}

/// The uploaded files of this node.
#[derive(Debug)]
pub struct Uploads {
    policy: UploadPolicy,
    folder: PathBuf,
    node: NodeName,
    servers: Arc<Servers>,
    /// The digests of what the slots need.
    needed: Mutex<BTreeSet<Sha256>>,
    rounds: Rounds,
}

impl Uploads {
    pub fn new(policy: UploadPolicy, folder: PathBuf, node: NodeName, servers: Arc<Servers>) -> Self {
        Uploads { policy, folder, node, servers, needed: Mutex::default(), rounds: Rounds::new() }
    }

    /// Says what the slots need; the rest is removed, and what is not here yet is fetched before its time comes.
    pub fn need(&self, uploads: impl Iterator<Item = Upload>) {
        let allowed = uploads.filter(|upload| match self.policy {
            UploadPolicy::Nothing => false,
            UploadPolicy::Everything => true,
            UploadPolicy::Signed(_) => upload.signature.is_some(),
        });
        let needed: BTreeSet<Sha256> = allowed.map(|upload| upload.sha256).collect();
        let mut known = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != needed {
            *known = needed;
            self.rounds.ask();
        }
    }

    /// Fetches and removes files, as they are needed.
    pub async fn run(&self, mut driver: Driver, stop: &Stop) {
        driver.run(&mut Upkeep(self), &self.rounds, stop.requested()).await;
    }

    /// The program that a file is, sealed so that nobody changes it.
    pub async fn program(&self, word: &str, upload: Upload) -> Result<Program, ProgramError> {
        if self.policy == UploadPolicy::Nothing {
            return Err(ProgramError::Refused(format!(
                "`{word}` is not run: it is an uploaded file, and the agent on this node takes none; start it with \
                 `--allow-uploads`"
            )));
        }
        if let (UploadPolicy::Signed(_), None) = (self.policy, upload.signature) {
            return Err(unsigned(word, "is not signed"));
        }
        let content = self.content(upload.sha256).await.map_err(|cause| {
            ProgramError::NotNow(format!("`{word}` is an uploaded file that is not here: {cause}"))
        })?;
        if let (UploadPolicy::Signed(key), Some(signature)) = (self.policy, upload.signature)
            && !is_signed(&key, &content, &signature)
        {
            return Err(unsigned(word, "is not signed by that key"));
        }
        let file = sealed(&content).map_err(|error| {
            ProgramError::NotNow(format!("`{word}` is an uploaded file that cannot be copied: {error}"))
        })?;
        Ok(Program { path: self.path(upload.sha256), file: Some(file) })
    }

    /// The content of a file: as it is kept, if that is still what it should be, else as the manager has it.
    async fn content(&self, digest: Sha256) -> Result<Vec<u8>, UploadError> {
        let path = self.path(digest);
        if let Ok(kept) = fs::read(&path)
            && sha256(&kept) == digest
        {
            return Ok(kept);
        }
        let content = self.servers.current().node_upload(&self.node, digest).await?;
        if content.len() > MAX_UPLOAD_BYTES || sha256(&content) != digest {
            return Err(UploadError::OtherContent);
        }
        let (content, keep) = (content.to_vec(), (self.folder.clone(), path));
        let kept = content.clone();
        let written = tokio::task::spawn_blocking(move || {
            let (folder, path) = keep;
            fs::create_dir_all(folder)?;
            write_atomically(&path, &kept, 0o600)
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "an uploaded file cannot be kept; it is fetched each time");
            }
            Err(error) => tracing::warn!(%error, "an uploaded file was not kept"),
        }
        Ok(content)
    }

    fn path(&self, digest: Sha256) -> PathBuf {
        self.folder.join(digest.to_string())
    }

    fn remove_unneeded(&self, needed: &BTreeSet<Sha256>) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let digest = entry.file_name().to_str().and_then(|name| name.parse::<Sha256>().ok());
            if digest.is_none_or(|digest| !needed.contains(&digest)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// A file that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("the manager did not send it: {0}")]
    Fetch(#[from] client::Error),
    #[error("the manager sent another content than its digest says")]
    OtherContent,
    #[error("a file that is not needed any more cannot be removed: {0}")]
    Remove(#[from] io::Error),
}

/// One round fetches all that is missing, and removes the rest.
struct Upkeep<'a>(&'a Uploads);

impl Work for Upkeep<'_> {
    type Error = UploadError;

    async fn round(&mut self) -> Result<Next, UploadError> {
        let needed = self.0.needed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.remove_unneeded(&needed)?;
        for digest in needed {
            self.0.content(digest).await?;
        }
        Ok(Next::Period)
    }
}

fn is_signed(key: &[u8; 32], content: &[u8], signature: &UploadSignature) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(content, &signature.0).is_ok()
}

fn unsigned(word: &str, what: &str) -> ProgramError {
    ProgramError::Refused(format!(
        "`{word}` is not run: it is an uploaded file that {what}, and the agent on this node runs only what the key of \
         its `--upload-key` has signed; `estimand register --sign-with` signs it"
    ))
}
