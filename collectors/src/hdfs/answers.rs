//! Responses of a NameNode over HTTP, as far as they are needed: places of a file's blocks, DataNodes, the
//! erasure coding of a file, and refusals.
//!
//! Reads bytes and asks nothing. Fields that are not needed are passed over unread, because answers may be large.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A block of a file, or a group of blocks of an erasure-coded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub offset: u64,
    /// Of the file's bytes in it.
    pub bytes: u64,
    /// Host names of the DataNodes that hold it; one that holds two of its parts is there twice.
    pub holders: Vec<String>,
}

/// How a file is erasure-coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Coding {
    pub data_units: u64,
    pub cell_bytes: u64,
}

/// The NameNode's view of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    pub safe_mode: bool,
    pub datanodes: Vec<DataNode>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DataNode {
    pub host: String,
    pub live: bool,
    pub facts: Facts,
}

/// A DataNode, as the NameNode knows it; of a dead one, little.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    pub admin_state: Option<String>,
    pub capacity: Option<u64>,
    pub used: Option<u64>,
    pub remaining: Option<u64>,
    pub num_blocks: Option<u64>,
}

/// A refusal of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Refusal {
    /// The class without its package, such as `FileNotFoundException`.
    pub exception: String,
    #[serde(default)]
    pub message: String,
}

/// The answer of `GETFILEBLOCKLOCATIONS` or of `GET_BLOCK_LOCATIONS`, in the order of the file.
pub(super) fn blocks(body: &[u8]) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = match read(body)? {
        Locations::New(answer) => answer.blocks.into_iter().map(Block::from).collect(),
        Locations::Old(answer) => answer.blocks.into_iter().map(Block::from).collect(),
    };
    // A block that is being written has a place already, but no length that the NameNode knows.
    blocks.retain(|block| block.bytes > 0);
    blocks.sort_by_key(|block| block.offset);
    Ok(blocks)
}

/// The answer of `GETFILESTATUS`: none if the file is replicated.
pub(super) fn coding(body: &[u8]) -> Result<Option<Coding>, String> {
    let status: Status = read(body)?;
    let Some(Policy { cell_size, units, schema }) = status.file.policy else { return Ok(None) };
    let units = units.or(schema.and_then(|schema| schema.units));
    Ok(units.map(|data_units| Coding { data_units, cell_bytes: cell_size }))
}

/// The answer of `/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo`: none from what only stands before a NameNode.
pub(super) fn cluster(body: &[u8]) -> Result<Option<Cluster>, String> {
    let Beans { beans } = read(body)?;
    let Some(bean) = beans.into_iter().next() else { return Ok(None) };
    let nodes = |text: &str, live| {
        let nodes: BTreeMap<String, Facts> = read(text.as_bytes())?;
        let node = |(name, facts): (String, Facts)| DataNode { host: host(&name).to_owned(), live, facts };
        Ok::<_, String>(nodes.into_iter().map(node).collect::<Vec<_>>())
    };
    let mut datanodes = nodes(&bean.live, true)?;
    datanodes.extend(nodes(&bean.dead, false)?);
    Ok(Some(Cluster { safe_mode: bean.safe_mode.is_some_and(|why| !why.is_empty()), datanodes }))
}

/// The refusal in a body with another status than 200, if it has the form of WebHDFS.
pub(super) fn refusal(body: &[u8]) -> Option<Refusal> {
    read::<RemoteException>(body).ok().map(|refused| refused.refusal)
}

impl Refusal {
    /// True if the server has no such operation.
    pub(super) fn is_unknown_operation(&self) -> bool {
        match self.exception.as_str() {
            "IllegalArgumentException" => self.message.contains("\"op\""),
            "UnsupportedOperationException" => true,
            _ => false,
        }
    }
}

/// Without the port, which old NameNodes leave out themselves.
fn host(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => name,
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("not in the words of HDFS: {error}"))
}

#[derive(Deserialize)]
enum Locations {
    #[serde(rename = "BlockLocations")]
    New(NewLocations),
    #[serde(rename = "LocatedBlocks")]
    Old(OldLocations),
}

#[derive(Deserialize)]
struct NewLocations {
    #[serde(rename = "BlockLocation")]
    blocks: Vec<NewLocation>,
}

#[derive(Deserialize)]
struct NewLocation {
    offset: u64,
    length: u64,
    hosts: Vec<String>,
    #[serde(default)]
    corrupt: bool,
}

#[derive(Deserialize)]
struct OldLocations {
    #[serde(rename = "locatedBlocks")]
    blocks: Vec<OldLocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldLocation {
    start_offset: u64,
    block: OldBlock,
    locations: Vec<OldHolder>,
    #[serde(default)]
    is_corrupt: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldBlock {
    num_bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldHolder {
    host_name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "FileStatus")]
    file: FileStatus,
}

#[derive(Deserialize)]
struct FileStatus {
    #[serde(rename = "ecPolicyObj")]
    policy: Option<Policy>,
}

/// Hadoop 3.4 writes the units beside the cell's size, versions before it into a schema.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    cell_size: u64,
    #[serde(rename = "numDataUnits")]
    units: Option<u64>,
    schema: Option<Schema>,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(rename = "numDataUnits")]
    units: Option<u64>,
}

#[derive(Deserialize)]
struct Beans {
    beans: Vec<NameNodeInfo>,
}

/// The DataNodes are a text of JSON in JSON.
#[derive(Deserialize)]
struct NameNodeInfo {
    #[serde(rename = "LiveNodes")]
    live: String,
    #[serde(rename = "DeadNodes")]
    dead: String,
    /// Empty, or why.
    #[serde(rename = "Safemode")]
    safe_mode: Option<String>,
}

#[derive(Deserialize)]
struct RemoteException {
    #[serde(rename = "RemoteException")]
    refusal: Refusal,
}

impl From<NewLocation> for Block {
    fn from(block: NewLocation) -> Self {
        let holders = readable(block.corrupt, block.hosts);
        Block { offset: block.offset, bytes: block.length, holders }
    }
}

impl From<OldLocation> for Block {
    fn from(block: OldLocation) -> Self {
        let hosts = block.locations.into_iter().map(|holder| holder.host_name).collect();
        let holders = readable(block.is_corrupt, hosts);
        Block { offset: block.start_offset, bytes: block.block.num_bytes, holders }
    }
}

/// A block is called corrupt when all of its replicas are, so that no node has it.
fn readable(corrupt: bool, hosts: Vec<String>) -> Vec<String> {
    if corrupt { Vec::new() } else { hosts }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
