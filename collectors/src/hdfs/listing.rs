//! Lists the files under a path or a pattern over HDFS's own protocol; a failure is a sentence.

use std::cell::Cell;

use hdfs_native::client::FileStatus;
use hdfs_native::{Client, ClientBuilder, HdfsError};
use tokio::runtime::Handle;

use super::config::Target;
use super::kerberos;
use super::webhdfs::first_words;

/// The name of the NameNodes together towards the library.
const SERVICE: &str = "estimand";
/// A folder that is none: all that the library is to know is told to it.
const NO_FILES: &str = "/dev/null";

#[derive(Debug, Clone)]
pub(super) struct FileEntry {
    pub path: String,
    pub bytes: u64,
    pub block_bytes: u64,
    /// Of a replicated file; 0 or 1 of an erasure-coded one.
    pub replication: u32,
}

/// The files under the path.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub files: Vec<FileEntry>,
    /// Folders that this user may not list.
    pub denied: u64,
    /// True if there are more files than were asked for.
    pub truncated: bool,
}

/// A client of these NameNodes. It lives on the runtime that it is made on, and no longer.
pub(super) fn client(target: &Target, user: &str) -> Result<Client, String> {
    let ids: Vec<String> = (0..target.rpc.len()).map(|id| id.to_string()).collect();
    let mut config = vec![
        (format!("dfs.ha.namenodes.{SERVICE}"), ids.join(",")),
        // Each NameNode is asked once; the library's own patience is a quarter of an hour.
        ("dfs.client.failover.max.attempts".into(), (target.rpc.len() - 1).to_string()),
        ("dfs.client.failover.sleep.base.millis".into(), "10".into()),
        ("dfs.client.failover.sleep.max.millis".into(), "100".into()),
    ];
    let addresses = ids.iter().zip(&target.rpc);
    config
        .extend(addresses.map(|(id, rpc)| (format!("dfs.namenode.rpc-address.{SERVICE}.{id}"), rpc.clone())));
    let builder = ClientBuilder::new().with_config_dir(NO_FILES).with_config(config).with_user(user);
    let made = builder.with_url(format!("hdfs://{SERVICE}")).with_io_runtime(Handle::current()).build();
    made.map_err(|error| format!("no client of HDFS: {error}"))
}

/// The files that the pattern names and those below the folders that it names, up to `most`. `seen` counts them
/// meanwhile.
pub(super) async fn list(
    client: &Client,
    target: &Target,
    pattern: &str,
    most: usize,
    seen: &Cell<usize>,
) -> Result<Listing, String> {
    let mut roots = client.glob_status(pattern).await.map_err(|error| sentence(&error, target, pattern))?;
    if roots.is_empty() {
        return Err(format!("there is no {pattern} in the HDFS at {}", shown(target)));
    }
    // A pattern may name a folder and what is in it, which counts once.
    roots.sort_by(|one, other| one.path.cmp(&other.path));
    let mut listing = Listing::default();
    let mut within: Option<String> = None;
    for root in roots {
        let mut folder = root.path.trim_end_matches('/').to_owned();
        folder.push('/');
        if within.as_ref().is_some_and(|within| folder.starts_with(within)) {
            continue;
        }
        if root.isdir {
            walk(client, target, &root.path, most, &mut listing, seen).await?;
        } else {
            listing.add(root, most, seen);
        }
        if listing.truncated {
            break;
        }
        within = Some(folder);
    }
    Ok(listing)
}

async fn walk(
    client: &Client,
    target: &Target,
    root: &str,
    most: usize,
    listing: &mut Listing,
    seen: &Cell<usize>,
) -> Result<(), String> {
    let entries = client.list_status_iter(root, true);
    let mut is_first = true;
    while let Some(entry) = entries.next().await {
        match entry {
            Ok(entry) if entry.isdir => {}
            Ok(entry) => listing.add(entry, most, seen),
            // Deleted since its parent was listed.
            Err(HdfsError::FileNotFound(_)) if !is_first => {}
            Err(error) if !is_first && is_denied(&error) => listing.denied += 1,
            Err(error) => return Err(sentence(&error, target, root)),
        }
        if listing.truncated {
            break;
        }
        is_first = false;
    }
    Ok(())
}

impl Listing {
    fn add(&mut self, file: FileStatus, most: usize, seen: &Cell<usize>) {
        if self.files.len() == most {
            self.truncated = true;
            return;
        }
        let FileStatus { path, length, replication, blocksize, .. } = file;
        self.files.push(FileEntry {
            path,
            bytes: length as u64,
            block_bytes: blocksize.unwrap_or(0),
            replication: replication.unwrap_or(0),
        });
        seen.set(self.files.len());
    }
}

fn is_denied(error: &HdfsError) -> bool {
    matches!(error, HdfsError::RPCError(class, _) if class.ends_with(".AccessControlException"))
}

fn sentence(error: &HdfsError, target: &Target, path: &str) -> String {
    let shown = shown(target);
    match error {
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            let class = class.rsplit('.').next().unwrap_or(class);
            let message = first_words(message.as_bytes());
            match class {
                "AccessControlException" if message.contains("SIMPLE authentication is not enabled") => {
                    kerberos(&format!("{shown} takes no user's word for who it is"))
                }
                "AccessControlException" => format!("{path}: {message}"),
                "StandbyException" => format!("no NameNode of {shown} is active: {message}"),
                _ => format!("{shown}: {path}: {class}: {message}"),
            }
        }
        HdfsError::FileNotFound(_) => format!("there is no {path} in the HDFS at {shown}"),
        HdfsError::IOError(error) => format!("the NameNode at {shown} can't be reached: {error}"),
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            kerberos(&format!("{shown}: {error}"))
        }
        _ => format!("{shown}: {path}: {}", first_words(error.to_string().as_bytes())),
    }
}

fn shown(target: &Target) -> String {
    let addresses: Vec<String> = target.rpc.iter().map(|rpc| format!("hdfs://{rpc}")).collect();
    addresses.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_library_become_a_sentence() {
        let target = Target { rpc: vec!["nn:8020".into()], http: Vec::new() };
        let rpc = |class: &str, message: &str| HdfsError::RPCError(class.into(), message.into());
        let access = "org.apache.hadoop.security.AccessControlException";
        let ticket = "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]";
        for (error, expected) in [
            (rpc(access, ticket), "this HDFS wants Kerberos"),
            (HdfsError::NoSASLMechanism, "this HDFS wants Kerberos"),
            (
                rpc(access, "Permission denied: user=a\n\tat org.apache.X(X.java:1)\n"),
                "/x: Permission denied: user=a",
            ),
            (
                rpc("org.apache.hadoop.ipc.StandbyException", "not now"),
                "no NameNode of hdfs://nn:8020 is active",
            ),
            (HdfsError::FileNotFound("/y".into()), "there is no /x in the HDFS at hdfs://nn:8020"),
            (rpc("java.io.IOException", "what"), "hdfs://nn:8020: /x: IOException: what"),
        ] {
            let text = sentence(&error, &target, "/x");
            assert!(text.starts_with(expected) && !text.contains('\n'), "{text}");
        }
    }
}
