//! Nodes in the order of their names, no two of one name.
//!
//! The names of a large cluster begin alike and lie all over the memory, so that looking at them is most of the time of
//! a plan. The eight bytes after the common beginning, side by side, mostly decide without.

use super::{Error, Node};

pub(crate) fn by_name(nodes: Vec<Node>) -> Result<Vec<Node>, Error> {
    if nodes.is_sorted_by(|a, b| a.name < b.name) {
        return Ok(nodes);
    }
    let common = common_beginning(&nodes);
    let mut keys: Vec<(u64, usize)> =
        nodes.iter().enumerate().map(|(i, node)| (next_bytes(&node.name, common), i)).collect();
    keys.sort_unstable_by(|(a_key, a), (b_key, b)| {
        a_key.cmp(b_key).then_with(|| nodes[*a].name.cmp(&nodes[*b].name))
    });
    for pair in keys.windows(2) {
        let [(a_key, a), (b_key, b)] = [pair[0], pair[1]];
        if a_key == b_key && nodes[a].name == nodes[b].name {
            return Err(Error::DuplicateNode { node: nodes[a].name.clone() });
        }
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    Ok(keys.into_iter().filter_map(|(_, i)| nodes[i].take()).collect())
}

/// How many bytes all names begin with that are the same.
fn common_beginning(nodes: &[Node]) -> usize {
    let first = nodes[0].name.as_bytes();
    nodes.iter().fold(first.len(), |common, node| {
        let same = node.name.bytes().zip(&first[..common]).take_while(|(a, b)| a == *b);
        same.count()
    })
}

/// Eight bytes as a number that is in their order. Where a name ends there are zeros, which is before any other name
/// that goes on, or the same as one that goes on with zeros: the names decide then.
fn next_bytes(name: &str, from: usize) -> u64 {
    let mut bytes = [0; 8];
    for (byte, of) in bytes.iter_mut().zip(&name.as_bytes()[from..]) {
        *byte = *of;
    }
    u64::from_be_bytes(bytes)
}
