//! `hdfs`: the blocks of the files under a path on each node, measured once for all nodes.
//!
//! Files are listed over HDFS's own protocol; where their blocks are, and which DataNodes there are, is asked over
//! WebHDFS and the NameNode's JMX. All of it is asked anew each time and nothing stays open between two collections.
//! Nothing is read from DataNodes and nothing is ever written. It has no Kerberos.

mod answers;
mod config;
mod listing;
mod tally;
mod webhdfs;

use std::cell::Cell;
use std::env;
use std::time::Instant;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::blocking::BlockingRuntime;
use crate::bounds::Bounds;
use crate::{Collector, CollectorKind, DefaultRegistration, Failure, Param, Params, Reading, Surroundings};
use answers::{Block, Coding};
use config::{Addresses, Folders, Target};
use listing::{FileEntry, Listing};
use tally::{Census, FileBlocks};
use webhdfs::{WebError, WebHdfs};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "hdfs",
    about: "blocks of the files under a path on each DataNode of an HDFS, and its state",
    params: &[
        Param::optional("path", "a path or a pattern with * ? [] {}; / if none is given"),
        Param::optional(
            "namenode",
            "hdfs://host:port; else fs.defaultFS of HADOOP_CONF_DIR or /etc/hadoop/conf",
        ),
        Param::optional(
            "webhdfs",
            "http://host:port; else dfs.namenode.http-address, else port 9870 of the NameNode",
        ),
        Param::optional("user", "user of HDFS; else HADOOP_USER_NAME, else the user of this process"),
        Param::optional("max_files", "how many files are looked at (10000)"),
        Param::optional("short_names", "true cuts the domains off the hosts' names"),
        Param::optional("names", "true gives the names of the files that a node holds"),
    ],
    default: Some(DefaultRegistration { every: 60.0, once: true }),
    make,
};

const MAX_FILES: usize = 10_000;
/// More would be minutes of questions to the NameNode.
const MOST_MAX_FILES: usize = 100_000;
/// Questions about files that wait for an answer at one time.
const ASKED_AT_ONCE: usize = 16;
/// Of a file that can't be read. A NameNode refuses to make files of more than 10,000 unless it is told otherwise.
const MOST_BLOCKS: u64 = 1 << 16;

struct Hdfs {
    pattern: String,
    addresses: Addresses,
    folders: Folders,
    bounds: Bounds,
    user: String,
    max_files: usize,
    short_names: bool,
    names: bool,
}

/// The progress of a collection, for the message of one that took too long.
#[derive(Default)]
struct Progress {
    listed: Cell<usize>,
    located: Cell<usize>,
    lists: Cell<bool>,
}

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let pattern = params.text("path").filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into());
    if !pattern.starts_with('/') {
        return Err(format!("the parameter `path` is `{pattern}`; expected a path that begins with /"));
    }
    let user = params.text("user").filter(|user| !user.is_empty()).or_else(|| variable("HADOOP_USER_NAME"));
    let user = user.or_else(|| whoami::username().ok());
    Ok(Box::new(Hdfs {
        pattern,
        addresses: Addresses::new(params.text("namenode"), params.text("webhdfs"))?,
        folders: Folders::of(variable, &around.roots.etc),
        bounds: around.bounds.clone(),
        user: user.ok_or("the user that runs this process has no name: give the parameter `user`")?,
        max_files: max_files(params.number("max_files")?)?,
        short_names: params.switch("short_names")?.unwrap_or(false),
        names: params.switch("names")?.unwrap_or(false),
    }))
}

fn max_files(number: Option<f64>) -> Result<usize, String> {
    match number {
        None => Ok(MAX_FILES),
        Some(number) if number.fract() == 0.0 && (1.0..=MOST_MAX_FILES as f64).contains(&number) => {
            Ok(number as usize)
        }
        Some(number) => Err(format!("the parameter `max_files` is {number}; expected 1 to {MOST_MAX_FILES}")),
    }
}

impl Collector for Hdfs {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let target = config::target(&self.addresses, &self.folders)?;
        let progress = Progress::default();
        let begun = Instant::now();
        // A runtime of its own each time: connections would be closed by the other side meanwhile.
        let runtime = BlockingRuntime::new().map_err(Failure::Failed)?;
        let measured = runtime.wait(until, async {
            let target = self.allowed(&target).await?;
            self.measure(&target, &progress).await.map_err(Failure::Failed)
        });
        let late = || Err(Failure::Failed(progress.late(&target, begun.elapsed().as_secs_f64())));
        measured.unwrap_or_else(late)
    }
}

impl Hdfs {
    /// The target with numbers in the place of hosts that the registration names. Those that this machine is configured
    /// for are its operator's choice.
    async fn allowed(&self, target: &Target) -> Result<Target, Failure> {
        if self.addresses.namenode.is_none() && self.addresses.webhdfs.is_none() {
            return Ok(target.clone());
        }
        let own = config::target(&Addresses::default(), &self.folders).ok();
        let own = own.unwrap_or(Target { rpc: Vec::new(), http: Vec::new() });
        let (mut rpc, mut http) = (Vec::new(), Vec::new());
        for address in &target.rpc {
            rpc.push(match own.rpc.contains(address) {
                true => address.clone(),
                false => self.allowed_address(address).await?,
            });
        }
        for url in &target.http {
            http.push(match own.http.contains(url) {
                true => url.clone(),
                false => {
                    let address = url.strip_prefix("http://").unwrap_or(url);
                    format!("http://{}", self.allowed_address(address).await?)
                }
            });
        }
        Ok(Target { rpc, http })
    }

    async fn allowed_address(&self, address: &str) -> Result<String, Failure> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "80"));
        let port = port.parse().map_err(|_| format!("`{address}` has no port"))?;
        let found = self.bounds.find_addresses(host, port).await;
        let found = found.map_err(|barrier| barrier.failure(address))?;
        Ok(found.first().map_or_else(|| address.to_owned(), ToString::to_string))
    }

    async fn measure(&self, target: &Target, progress: &Progress) -> Result<Reading, String> {
        let http = webhdfs::client()?;
        let server = WebHdfs::active(&http, &target.http, &self.user).await?;
        progress.lists.set(true);
        let client = listing::client(target, &self.user)?;
        let files = listing::list(&client, target, &self.pattern, self.max_files, &progress.listed);
        let (listing, cluster) = tokio::join!(files, server.cluster());
        let (Listing { files, denied, truncated }, cluster) = (listing?, cluster?);
        let names = self.names;
        let mut census = Census {
            path: self.pattern.clone(),
            files: Vec::new(),
            empty_files: 0,
            denied,
            truncated,
            names,
        };
        let mut answers = stream::iter(files.into_iter().map(|file| locate(&server, file)))
            .buffer_unordered(ASKED_AT_ONCE)
            .inspect(|_| progress.located.set(progress.located.get() + 1));
        while let Some(found) = answers.try_next().await? {
            match found {
                Lookup::There(file) => census.files.push(file),
                Lookup::Empty => census.empty_files += 1,
                Lookup::Denied => census.denied += 1,
                Lookup::Gone => {}
            }
        }
        let values = tally::values(census, cluster, self.short_names);
        if values.is_empty() {
            return Err(format!("the HDFS at {} has no DataNode", target.rpc.join(" and ")));
        }
        tally::check_sizes(&values)?;
        Ok(Reading::PerNode(values))
    }
}

enum Lookup {
    There(FileBlocks),
    Empty,
    Denied,
    /// Deleted since it was listed.
    Gone,
}

async fn locate(server: &WebHdfs, file: FileEntry) -> Result<Lookup, String> {
    if file.bytes == 0 {
        return Ok(Lookup::Empty);
    }
    let asked = async {
        let blocks = server.blocks(&file.path).await?;
        // Only what is erasure-coded counts as one replica and is in several places, apart from a file that was
        // replicated less a moment ago.
        let is_striped = file.replication <= 1 && blocks.iter().any(|block| block.holders.len() > 1);
        let coding: Option<Coding> = if is_striped { server.coding(&file.path).await? } else { None };
        Ok((blocks, coding))
    };
    match asked.await {
        Ok((blocks, _)) if blocks.is_empty() => Ok(Lookup::Empty),
        Ok((blocks, coding)) => Ok(Lookup::There(FileBlocks { path: file.path, blocks, coding })),
        Err(WebError::Missing) => Ok(Lookup::There(nowhere(file))),
        Err(WebError::Gone) => Ok(Lookup::Gone),
        Err(WebError::Denied(_)) => Ok(Lookup::Denied),
        Err(no) => Err(no.text()),
    }
}

/// A file that can't be read, in blocks as its listing says it was cut.
fn nowhere(file: FileEntry) -> FileBlocks {
    let step = if file.block_bytes == 0 { file.bytes } else { file.block_bytes };
    let count = file.bytes.div_ceil(step).min(MOST_BLOCKS);
    let block = |index| {
        let offset = index * step;
        Block { offset, bytes: step.min(file.bytes - offset), holders: Vec::new() }
    };
    FileBlocks { blocks: (0..count).map(block).collect(), path: file.path, coding: None }
}

impl Progress {
    fn late(&self, target: &Target, seconds: f64) -> String {
        let (listed, located) = (self.listed.get(), self.located.get());
        if !self.lists.get() {
            format!("{}: no answer within {seconds:.1} s", target.http.join(" and "))
        } else if located == 0 {
            format!(
                "{}: not done within {seconds:.1} s, while files were listed or the first blocks looked for; \
                 {listed} files until then",
                target.rpc.join(" and ")
            )
        } else {
            format!(
                "{}: not done within {seconds:.1} s: of {listed} files it was known for {located} where they \
                 are; a smaller `max_files`, a narrower `path` or more time would do",
                target.http.join(" and ")
            )
        }
    }
}

/// The failure of a secured HDFS; `evidence` is the sign of it.
fn kerberos(evidence: &str) -> String {
    format!(
        "this HDFS wants Kerberos, which Estimand does not speak yet ({evidence}); a collector of its own, run as a \
         command with a ticket, can measure it"
    )
}
