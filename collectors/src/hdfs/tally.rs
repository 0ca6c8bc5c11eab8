//! Counts the blocks of each DataNode, and divides blocks and files among their holders so that each has one owner.
//!
//! Pure. Files may be added in any order: the result is the same, because all is sorted first. A name is what HDFS
//! calls the host, as far as a node's name may have its letters; DataNodes of one name are one node and are added up.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answers::{Block, Cluster, Coding, DataNode};

const MOST_NAME_BYTES: usize = 253;
/// Of a value.
const MOST_VALUE_BYTES: usize = 64 * 1024;

/// A file and where its blocks are.
#[derive(Debug, Clone)]
pub(super) struct FileBlocks {
    pub path: String,
    pub blocks: Vec<Block>,
    /// None if it is replicated.
    pub coding: Option<Coding>,
}

/// The files under the path.
#[derive(Debug, Clone)]
pub(super) struct Census {
    pub path: String,
    pub files: Vec<FileBlocks>,
    /// Files without a block, among them those whose first is being written.
    pub empty_files: u64,
    /// Folders that may not be listed, and files that may not be looked at.
    pub denied: u64,
    pub truncated: bool,
    /// True if the names of the files are asked for.
    pub names: bool,
}

#[derive(Debug, Default)]
struct Node {
    datanodes: Vec<DataNode>,
    blocks: u64,
    bytes: u64,
    files: u64,
    primary_blocks: u64,
    primary_bytes: u64,
    primary_files: u64,
    /// Names of the files of which it has at least a block.
    names: Vec<String>,
}

#[derive(Debug, Default)]
struct Total {
    files: u64,
    blocks: u64,
    bytes: u64,
    missing_files: u64,
    missing_blocks: u64,
    missing_bytes: u64,
}

/// The value of each node. `cluster` is none if the NameNode doesn't tell about its DataNodes.
pub(super) fn values(census: Census, cluster: Option<Cluster>, short_names: bool) -> BTreeMap<String, Value> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    let knows_nodes = cluster.is_some();
    let Cluster { safe_mode, datanodes } = cluster.unwrap_or_default();
    for datanode in datanodes {
        let name = node_name(&datanode.host, short_names);
        if !name.is_empty() {
            nodes.entry(name).or_default().datanodes.push(datanode);
        }
    }
    let mut files = census.files;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut total = Total { files: census.empty_files, ..Total::default() };
    let base = census.names.then(|| base(&census.path, &files).to_owned());
    for file in &files {
        let holders = count(file, short_names, &mut nodes, &mut total);
        let Some(base) = &base else { continue };
        let name = file.path.strip_prefix(base).unwrap_or(&file.path).trim_start_matches('/');
        for holder in holders {
            nodes.entry(holder).or_default().names.push(name.to_owned());
        }
    }
    let under = json!({
        "path": census.path,
        "files": total.files,
        "blocks": total.blocks,
        "bytes": total.bytes,
        "emptyFiles": census.empty_files,
        "missingFiles": total.missing_files,
        "missingBlocks": total.missing_blocks,
        "missingBytes": total.missing_bytes,
        "denied": census.denied,
    });
    let value = |node: &Node| {
        let mut value = json!({
            "live": is_live(node, knows_nodes),
            "blocks": node.blocks,
            "bytes": node.bytes,
            "files": node.files,
            "primaryBlocks": node.primary_blocks,
            "primaryBytes": node.primary_bytes,
            "primaryFiles": node.primary_files,
            "capacityBytes": sum(node, |datanode| datanode.facts.capacity),
            "usedBytes": sum(node, |datanode| datanode.facts.used),
            "remainingBytes": sum(node, |datanode| datanode.facts.remaining),
            "replicas": sum(node, |datanode| datanode.facts.num_blocks),
            "adminState": node.datanodes.iter().find_map(|datanode| datanode.facts.admin_state.clone()),
            "safeMode": knows_nodes.then_some(safe_mode),
        });
        value["truncated"] = Value::Bool(census.truncated);
        value["under"] = under.clone();
        if census.names {
            value["items"] = json!(node.names);
        }
        value
    };
    nodes.iter().map(|(name, node)| (name.clone(), value(node))).collect()
}

/// Rejects values that would be too large to be kept.
pub(super) fn check_sizes(values: &BTreeMap<String, Value>) -> Result<(), String> {
    let sizes = values.iter().map(|(node, value)| (value.to_string().len(), node));
    match sizes.max() {
        Some((bytes, node)) if bytes > MOST_VALUE_BYTES => Err(format!(
            "the value of {node} would have {bytes} bytes with the names of its files, and at most {MOST_VALUE_BYTES} \
             are kept: a narrower `path`, shorter names, or no `names` would do"
        )),
        _ => Ok(()),
    }
}

/// The folder that names are relative to: what the pattern names, if that is a folder, else the last one in it that has
/// no letters of a pattern.
fn base<'a>(path: &'a str, files: &[FileBlocks]) -> &'a str {
    let plain = path.find(['*', '?', '[', '{', '\\']).map_or(path, |wild| &path[..wild]);
    let is_folder = plain.len() == path.len() && files.iter().all(|file| file.path != path);
    if is_folder {
        path.trim_end_matches('/')
    } else {
        plain.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// Adds a file to those who hold it, and chooses an owner for each of its blocks and for the whole. Gives who holds it.
fn count(
    file: &FileBlocks,
    short_names: bool,
    nodes: &mut BTreeMap<String, Node>,
    total: &mut Total,
) -> Vec<String> {
    total.files += 1;
    let mut of_file: BTreeMap<String, u64> = BTreeMap::new();
    for block in &file.blocks {
        total.blocks += 1;
        total.bytes += block.bytes;
        let part = part_bytes(block.bytes, file.coding);
        let mut held: Vec<String> = block.holders.iter().map(|host| node_name(host, short_names)).collect();
        held.retain(|name| !name.is_empty());
        for name in &held {
            let node = nodes.entry(name.clone()).or_default();
            node.blocks += 1;
            node.bytes += part;
            *of_file.entry(name.clone()).or_default() += part;
        }
        let owner = held.into_iter().min_by_key(|name| {
            let node = nodes.get(name);
            (node.map(|node| (node.primary_blocks, node.primary_bytes)), name.clone())
        });
        let Some(owner) = owner else {
            total.missing_blocks += 1;
            total.missing_bytes += block.bytes;
            continue;
        };
        let owner = nodes.entry(owner).or_default();
        owner.primary_blocks += 1;
        owner.primary_bytes += block.bytes;
    }
    let holders: Vec<String> = of_file.keys().cloned().collect();
    for name in &holders {
        nodes.entry(name.clone()).or_default().files += 1;
    }
    let owner = of_file.into_iter().min_by_key(|(name, bytes)| {
        (nodes.get(name).map(|node| node.primary_files), u64::MAX - bytes, name.clone())
    });
    match owner {
        Some((owner, _)) => nodes.entry(owner).or_default().primary_files += 1,
        None => total.missing_files += 1,
    }
    holders
}

/// One holder's bytes of a block: all of it, or of an erasure-coded group an even share, for the units cannot be told
/// apart from outside. Parity has the size of data, and a group shorter than its row of cells has fewer units.
fn part_bytes(bytes: u64, coding: Option<Coding>) -> u64 {
    match coding {
        None => bytes,
        Some(Coding { data_units, cell_bytes }) => {
            let units = bytes.div_ceil(cell_bytes.max(1)).clamp(1, data_units.max(1));
            bytes.div_ceil(units)
        }
    }
}

/// The holder of a block that can be read is live, unless the NameNode says better.
fn is_live(node: &Node, knows_nodes: bool) -> bool {
    if node.datanodes.is_empty() || !knows_nodes {
        return true;
    }
    node.datanodes.iter().any(|datanode| datanode.live)
}

/// Over the DataNodes of a node that say it; none if none does.
fn sum(node: &Node, field: fn(&DataNode) -> Option<u64>) -> Option<u64> {
    node.datanodes.iter().filter_map(field).reduce(u64::saturating_add)
}

/// A host as the name of a node: letters that no such name has are dashes, and a domain is cut if that is wanted. An
/// address has none to cut.
fn node_name(host: &str, short: bool) -> String {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    let host = match host.split_once('.') {
        Some((first, _)) if short && !is_address => first,
        _ => host,
    };
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    host.chars().map(|letter| if allowed(letter) { letter } else { '-' }).take(MOST_NAME_BYTES).collect()
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
