//! The place of a process on this machine: its data folder and the file of its store, which no other process may use
//! meanwhile. A lock of the operating system holds each; it ends with the process, however that ends.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use estimand_cli::credentials::TOKEN_FILE;
use estimand_runtime::lock_file::{Holder, LockError, LockFile};
use estimand_store::StoreUrl;

use crate::options::Options;

/// The lock in the data folder, and the end of the names of those beside a SQLite file.
const LOCK: &str = "lock";

/// The locks of a process.
pub struct Place {
    _folder: Option<LockFile>,
    /// One for each service that is alone over a file: they may run apart.
    _file: Vec<LockFile>,
}

impl Place {
    /// Takes the folder and the file; the error names the process that has them.
    pub fn take(options: &Options, store: &StoreUrl, address: &str) -> anyhow::Result<Place> {
        let folder = uses_folder(options).then(|| {
            make_folder(&options.data_dir, lets_others_through(options))?;
            hold(&options.data_dir.join(LOCK), &options.data_dir, address, "--data-dir names another folder")
        });
        let folder = folder.transpose()?;
        let Some(file) = store.file() else { return Ok(Place { _folder: folder, _file: Vec::new() }) };
        let file = actual(file)?;
        let held = options.owners().into_iter().map(|owner| {
            let mut name = file.file_name().unwrap_or_default().to_owned();
            name.push(format!("-{}.{LOCK}", owner.name));
            hold(&file.with_file_name(name), &file, address, "--store names another database")
        });
        Ok(Place { _folder: folder, _file: held.collect::<anyhow::Result<_>>()? })
    }
}

/// True if another user goes through the data folder, to the folders of slots.
fn lets_others_through(options: &Options) -> bool {
    options.agent.as_ref().is_some_and(|agent| agent.run_as.is_some())
}

/// True if this process keeps something in its data folder, beside a store.
fn uses_folder(options: &Options) -> bool {
    options.has(|kind| kind.keeps_files)
        || (options.has(|kind| kind.makes_tokens) && !crate::guard::is_given_a_token())
}

fn hold(lock: &Path, what: &Path, address: &str, other: &str) -> anyhow::Result<LockFile> {
    let mut taken = LockFile::take(lock).map_err(|error| match error {
        LockError::Held { holder, .. } => {
            anyhow!("{holder} uses {} and goes on: end it first; {other}", what.display())
        }
        error => error.into(),
    })?;
    taken.describe(Some(address));
    Ok(taken)
}

/// The URL of the store. Nothing is made yet.
pub fn store_url(options: &Options) -> anyhow::Result<StoreUrl> {
    let url = match &options.store {
        Some(url) => url.clone(),
        None => {
            let folder = std::path::absolute(&options.data_dir)
                .with_context(|| format!("cannot find {}", options.data_dir.display()))?;
            let folder = folder.canonicalize().unwrap_or(folder);
            format!("sqlite://{}", folder.join("estimand.db").display())
        }
    };
    Ok(StoreUrl::parse(&url)?)
}

/// A description of this process for people who start another one, maybe elsewhere.
pub fn description(address: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let process = Holder::this_process(Some(address));
    match host.trim() {
        "" => process,
        host => format!("{process} on {host}"),
    }
}

/// The file behind all links, so that it has one lock under all of its names. Its folder is made.
fn actual(file: &Path) -> anyhow::Result<PathBuf> {
    if let Ok(file) = file.canonicalize() {
        return Ok(file);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // One that is there may be the data folder, whose mode is settled.
    if !folder.exists() {
        make_folder(folder, false)?;
    }
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    Ok(folder.join(file.file_name().unwrap_or_default()))
}

/// Makes a folder that nobody else reads, whatever the umask says. One that was there stays as it is unless this program
/// made it.
fn make_folder(folder: &Path, passable: bool) -> anyhow::Result<()> {
    let mode = if passable { 0o711 } else { 0o700 };
    let is_new = !folder.exists();
    let failed = || format!("cannot make {}", folder.display());
    DirBuilder::new().recursive(true).mode(mode).create(folder).with_context(failed)?;
    let is_ours = || [LOCK, TOKEN_FILE, "estimand.db"].iter().any(|file| folder.join(file).exists());
    if is_new || is_ours() {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder, permissions)
            .with_context(|| format!("cannot close {} to others", folder.display()))?;
    }
    Ok(())
}
