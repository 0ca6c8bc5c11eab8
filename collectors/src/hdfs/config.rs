//! The addresses of HDFS: from the parameters, else from Hadoop's own configuration files on this machine.
//!
//! Files are read again at each collection, because they may change or appear. No network is used here.
//! Only the properties that lead to the NameNodes are understood, and `${…}` in them is not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use reqwest::Url;

use crate::Failure;

const MOST_CONFIG_BYTES: u64 = 16 << 20;
/// Where a NameNode listens unless something else is configured.
const RPC_PORT: u16 = 8020;
const HTTP_PORT: u16 = 9870;

/// The addresses that the parameters give.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses {
    pub namenode: Option<Url>,
    pub webhdfs: Option<Url>,
}

/// Folders that may hold Hadoop's files; the first that is there counts.
#[derive(Debug, Clone)]
pub(super) struct Folders(pub Vec<PathBuf>);

/// The NameNodes of one HDFS: one, or several of which one is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// `host:port` each.
    pub rpc: Vec<String>,
    /// `http://host:port` each.
    pub http: Vec<String>,
}

impl Addresses {
    pub(super) fn new(namenode: Option<String>, webhdfs: Option<String>) -> Result<Self, String> {
        Ok(Addresses {
            namenode: address("namenode", namenode, "hdfs", "hdfs://host:port")?,
            webhdfs: address("webhdfs", webhdfs, "http", "http://host:port")?,
        })
    }
}

/// Finds the NameNodes.
pub(super) fn target(addresses: &Addresses, folders: &Folders) -> Result<Target, Failure> {
    let properties = read(folders)?;
    if properties.get("hadoop.security.authentication").is_some_and(|way| way == "kerberos") {
        return Err(Failure::Failed(super::kerberos("its hadoop.security.authentication is kerberos")));
    }
    let configured = match properties.get("fs.defaultFS").or_else(|| properties.get("fs.default.name")) {
        Some(text) => Url::parse(text).ok().filter(|url| url.scheme() == "hdfs" && url.has_host()),
        None => None,
    };
    let Some(namenode) = addresses.namenode.as_ref().or(configured.as_ref()) else {
        return Err(Failure::NotHere(match properties.get("fs.defaultFS") {
            Some(other) => {
                format!("the fs.defaultFS of core-site.xml is {other}, which is no hdfs://host:port")
            }
            None => format!(
                "no HDFS is configured: there is no parameter `namenode`, and no core-site.xml with \
                 fs.defaultFS in {}",
                folders.shown()
            ),
        }));
    };
    let ours = configured.as_ref().is_some_and(|configured| same_place(configured, namenode));
    let mut target = namenodes(namenode, ours, &properties);
    if let Some(webhdfs) = &addresses.webhdfs {
        target.http = vec![webhdfs.as_str().trim_end_matches('/').to_owned()];
    } else if ours && properties.get("dfs.http.policy").is_some_and(|policy| policy == "HTTPS_ONLY") {
        let text = "this HDFS offers WebHDFS over HTTPS only (dfs.http.policy), which is not spoken here; the \
                    parameter `webhdfs` can name an address that is served over HTTP";
        return Err(Failure::Failed(text.into()));
    }
    Ok(target)
}

/// `ours` if the files describe this HDFS and not another.
fn namenodes(namenode: &Url, ours: bool, properties: &BTreeMap<String, String>) -> Target {
    let host = namenode.host_str().unwrap_or_default();
    let get = |key: String| properties.get(&key).filter(|value| !value.is_empty());
    let one = |rpc: String, http: Option<&String>| {
        let rpc = if rpc.contains(':') { rpc } else { format!("{rpc}:{RPC_PORT}") };
        // A NameNode may be told to listen everywhere; it is reached by the host it is known by.
        let host = rpc.rsplit_once(':').map_or(rpc.as_str(), |(host, _)| host);
        let http = match http.map(|http| http.rsplit_once(':').unwrap_or((http, ""))) {
            Some(("0.0.0.0" | "", port)) => format!("http://{host}:{port}"),
            Some((http, "")) => format!("http://{http}:{HTTP_PORT}"),
            Some((http, port)) => format!("http://{http}:{port}"),
            None => format!("http://{host}:{HTTP_PORT}"),
        };
        (rpc, http)
    };
    let ids = get(format!("dfs.ha.namenodes.{host}")).filter(|_| namenode.port().is_none());
    let pairs: Vec<(String, String)> = match ids {
        Some(ids) => ids
            .split(',')
            .filter_map(|id| {
                let id = id.trim();
                let rpc = get(format!("dfs.namenode.rpc-address.{host}.{id}"))?;
                Some(one(rpc.clone(), get(format!("dfs.namenode.http-address.{host}.{id}"))))
            })
            .collect(),
        None => Vec::new(),
    };
    let pairs = if pairs.is_empty() {
        let named = get(format!("dfs.namenode.rpc-address.{host}")).filter(|_| namenode.port().is_none());
        let rpc = named.cloned().unwrap_or_else(|| format!("{host}:{}", namenode.port().unwrap_or(RPC_PORT)));
        let http = get(format!("dfs.namenode.http-address.{host}"));
        let http = http.or_else(|| get("dfs.namenode.http-address".into()).filter(|_| ours));
        vec![one(rpc, http)]
    } else {
        pairs
    };
    let (rpc, http) = pairs.into_iter().unzip();
    Target { rpc, http }
}

fn same_place(one: &Url, other: &Url) -> bool {
    let port = |url: &Url| url.port().unwrap_or(RPC_PORT);
    one.host_str() == other.host_str() && port(one) == port(other)
}

fn address(name: &str, text: Option<String>, scheme: &str, form: &str) -> Result<Option<Url>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let url = Url::parse(&text).ok().filter(|url| {
        url.scheme() == scheme && url.has_host() && matches!(url.path(), "" | "/") && url.query().is_none()
    });
    url.map(Some).ok_or_else(|| format!("the parameter `{name}` is `{text}`; expected {form}"))
}

impl Folders {
    /// Hadoop's own order: its variables, then where distributions put the files.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>, etc: &Path) -> Self {
        let named = variable("HADOOP_CONF_DIR").map(PathBuf::from);
        let home = variable("HADOOP_HOME").map(|home| PathBuf::from(home).join("etc/hadoop"));
        Folders(named.into_iter().chain(home).chain([etc.join("hadoop/conf")]).collect())
    }

    fn shown(&self) -> String {
        let shown: Vec<String> = self.0.iter().map(|folder| folder.display().to_string()).collect();
        shown.join(" or ")
    }
}

/// All properties of `core-site.xml` and `hdfs-site.xml`; none if there is no folder with either.
fn read(folders: &Folders) -> Result<BTreeMap<String, String>, Failure> {
    let mut properties = BTreeMap::new();
    for folder in &folders.0 {
        for name in ["core-site.xml", "hdfs-site.xml"] {
            let path = folder.join(name);
            let failed = |what: String| Failure::Failed(format!("{}: {what}", path.display()));
            match File::open(&path) {
                Ok(file) => {
                    let mut text = String::new();
                    let read = file.take(MOST_CONFIG_BYTES).read_to_string(&mut text);
                    read.map_err(|error| failed(error.to_string()))?;
                    properties.extend(parse(&text).map_err(failed)?);
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        if !properties.is_empty() {
            break;
        }
    }
    Ok(properties)
}

/// The properties of one file, of which a later one counts.
fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let document = roxmltree::Document::parse(text).map_err(|error| format!("no XML: {error}"))?;
    let root = document.root_element();
    if root.tag_name().name() != "configuration" {
        return Err(format!("begins with <{}>; expected <configuration>", root.tag_name().name()));
    }
    let properties = root.children().filter(|node| node.has_tag_name("property"));
    Ok(properties
        .filter_map(|property| {
            let field = |name| property.children().find(|node| node.has_tag_name(name))?.text();
            Some((field("name")?.trim().to_owned(), field("value")?.trim().to_owned()))
        })
        .collect())
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
