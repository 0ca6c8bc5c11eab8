//! Of many changes the last one of each value, in the order of keys: that is all that a fold has to store.

use crate::Change;
use crate::journal::codec::{Damage, Record};

/// Changes that are stored in one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceSize {
    pub(crate) changes: usize,
    pub(crate) bytes: usize,
}

/// Keeps the last change of each key, sorted by key.
pub(crate) fn latest(records: Vec<Record<'_>>) -> Vec<Record<'_>> {
    let mut records = records;
    // From the last to the first, so that of equal keys the last one comes first, which is the one that stays.
    records.reverse();
    records.sort_by_key(|record| record.key);
    records.dedup_by_key(|record| record.key);
    records
}

/// Splits off the changes of the next piece, of which there is at least one unless none is left.
pub(crate) fn next_piece<'a>(
    records: &mut &[Record<'a>],
    size: PieceSize,
) -> Result<Vec<Change<'a>>, Damage> {
    let mut bytes = 0;
    let fits = |(place, record): &(usize, &Record<'a>)| {
        bytes += record.bytes();
        *place == 0 || (*place < size.changes && bytes <= size.bytes)
    };
    let count = records.iter().enumerate().take_while(fits).count();
    let (piece, rest) = records.split_at(count);
    *records = rest;
    piece.iter().map(Record::change).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::journal::codec::{begin, push, records};
    use crate::{DataRowRef, Key};

    fn put(data_name: &str, revision: i64) -> Change<'_> {
        Change::Put(DataRowRef {
            data_name,
            node_name: "n",
            data_value: "0.5",
            collected_at: 0,
            received_at: 0,
            valid_for: None,
            failed: false,
            lost: false,
            revision,
            epoch: 0,
            sequence: 0,
            provenance: None,
        })
    }

    proptest! {
        /// Storing them piece by piece leaves what storing all changes one by one would.
        #[test]
        fn a_fold_leaves_what_the_changes_would(
            changes in vec(("[a-d]", any::<bool>()), 0..40),
            size in (1_usize..5, 1_usize..200),
        ) {
            let mut content = Vec::new();
            begin(&mut content);
            let mut expected = BTreeMap::new();
            for (revision, (name, is_put)) in (1..).zip(&changes) {
                let key = Key { data_name: name, node_name: "n" };
                let change = if *is_put { put(name, revision) } else { Change::Delete(key) };
                push(&mut content, &change);
                expected.insert(key, change);
            }
            let all = latest(records(&content).collect::<Result<_, _>>().unwrap());
            let size = PieceSize { changes: size.0, bytes: size.1 };
            let (mut rest, mut stored) = (&all[..], Vec::new());
            while !rest.is_empty() {
                let piece = next_piece(&mut rest, size).unwrap();
                prop_assert!((1..=size.changes).contains(&piece.len()));
                stored.extend(piece);
            }
            prop_assert_eq!(stored, expected.into_values().collect::<Vec<_>>());
        }
    }
}
