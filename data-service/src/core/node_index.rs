//! The cells of a name, found by their nodes.
//!
//! In the order of the nodes' names, a search goes from key to key, each of them elsewhere in memory. Here a few bits of
//! each name's hash lie side by side, and lead to the cell at once. It is made by the first reader after a node has come or
//! gone, of names with not too many nodes: making it takes as long as the name has nodes.

use std::sync::Arc;

use super::value_cell::ValueCell;

/// A name with more nodes has none.
pub const MAX_NODES: usize = 1_024;

#[derive(Debug)]
pub struct NodeIndex {
    /// Bits of the hash of the name in the place; 0 if the place is empty. The number of places is a power of two, and some
    /// are empty.
    tags: Box<[u16]>,
    cells: Box<[Option<Arc<ValueCell>>]>,
}

impl NodeIndex {
    pub fn new<'c>(nodes: impl ExactSizeIterator<Item = (&'c str, &'c Arc<ValueCell>)>) -> Self {
        let places = (nodes.len() * 8 / 7 + 1).next_power_of_two();
        let (mut tags, mut cells) = (vec![0; places], vec![None; places]);
        for (node, cell) in nodes {
            let (tag, mut place) = tag_and_place(node, places);
            while tags[place] != 0 {
                place = (place + 1) % places;
            }
            tags[place] = tag;
            cells[place] = Some(cell.clone());
        }
        NodeIndex { tags: tags.into(), cells: cells.into() }
    }

    /// The cells that may be of that node: its own, if it has one, and hardly ever another one.
    pub fn candidates(&self, node: &str) -> impl Iterator<Item = &Arc<ValueCell>> {
        let places = self.tags.len();
        let (tag, first) = tag_and_place(node, places);
        let from_there = (0..places).map(move |step| (first + step) % places);
        let filled = from_there.take_while(|place| self.tags[*place] != 0);
        filled.filter(move |place| self.tags[*place] == tag).filter_map(|place| self.cells[place].as_ref())
    }
}

/// By FNV-1a. Names that somebody chose to meet in one place are a row of tags to go through, no more.
fn tag_and_place(node: &str, places: usize) -> (u16, usize) {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let hash = hash ^ hash >> 32;
    ((hash >> 16) as u16 | 1, hash as usize & (places - 1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::names::{DataName, NodeName};

    use super::*;
    use crate::core::entry::{Entry, Facts, Marks};

    fn cell(node: &str) -> Arc<ValueCell> {
        let facts = Facts {
            name: DataName::parse("a").unwrap(),
            node: NodeName::parse(node).unwrap(),
            collected_at: 0,
            received_at: 0,
            valid_for: None.into(),
            marks: Marks::default(),
            revision: 1,
            origin: None,
        };
        Arc::new(ValueCell::new(Entry::new(facts, "1")))
    }

    #[test]
    fn each_node_has_its_own_cell_and_no_other_one_has_any() {
        for count in [0, 1, 2, 6, 7, 8, 55, 56, 100, MAX_NODES] {
            let nodes: Vec<String> = (0..count).map(|number| format!("node-{number}")).collect();
            let cells: Vec<_> = nodes.iter().map(|node| cell(node)).collect();
            let index = NodeIndex::new(nodes.iter().map(String::as_str).zip(&cells));
            assert!(index.tags.contains(&0), "a search for another node would not end");
            for (node, cell) in nodes.iter().zip(&cells) {
                let found: Vec<_> = index.candidates(node).filter(|cell| cell.is_of(node)).collect();
                assert!(found.len() == 1 && Arc::ptr_eq(found[0], cell), "{node} of {count}");
            }
            assert!(!index.candidates("another").any(|cell| cell.is_of("another")));
        }
    }
}
