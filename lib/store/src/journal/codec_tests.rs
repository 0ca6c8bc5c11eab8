use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// The value and its provenance, its numbers, for how long it is valid, and its marks.
type Fields = (String, Option<String>, [i64; 5], Option<i64>, [bool; 2]);

/// A change that owns its texts.
#[derive(Debug, Clone)]
struct Owned {
    key: (String, String),
    /// None: a deletion.
    put: Option<Fields>,
}

impl Owned {
    fn change(&self) -> Change<'_> {
        let (data_name, node_name) = (self.key.0.as_str(), self.key.1.as_str());
        let Some((data_value, provenance, numbers, valid_for, [failed, lost])) = &self.put else {
            return Change::Delete(Key { data_name, node_name });
        };
        let [collected_at, received_at, revision, epoch, sequence] = *numbers;
        Change::Put(DataRowRef {
            data_name,
            node_name,
            data_value,
            collected_at,
            received_at,
            valid_for: *valid_for,
            failed: *failed,
            lost: *lost,
            revision,
            epoch,
            sequence,
            provenance: provenance.as_deref(),
        })
    }
}

fn any_change() -> impl Strategy<Value = Owned> {
    let put = (".{0,40}", option::of(".{0,9}"), any::<[i64; 5]>(), any::<Option<i64>>(), any::<[bool; 2]>());
    (("[a-c:_]{1,3}", "[a-c.]{1,3}"), option::weighted(0.8, put)).prop_map(|(key, put)| Owned { key, put })
}

fn content(changes: &[Owned]) -> Vec<u8> {
    let mut content = vec![7];
    begin(&mut content);
    changes.iter().for_each(|change| push(&mut content, &change.change()));
    content
}

fn read(content: &[u8]) -> Result<Vec<Change<'_>>, Damage> {
    records(content).map(|record| record?.change()).collect()
}

proptest! {
    #[test]
    fn changes_come_back_as_they_were(changes in vec(any_change(), 0..20)) {
        let content = content(&changes);
        let expected: Vec<Change<'_>> = changes.iter().map(Owned::change).collect();
        prop_assert_eq!(read(&content).unwrap(), expected);
    }

    #[test]
    fn a_content_that_is_cut_off_is_no_content(changes in vec(any_change(), 1..5), cut in any::<prop::sample::Index>()) {
        let content = content(&changes);
        let read = read(&content[..cut.index(content.len())]);
        // Between two changes nothing is missing that the bytes tell of; that is what the checksum is for.
        prop_assert!(read.is_err() || read.unwrap().len() < changes.len());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..200), has_form in any::<bool>()) {
        if has_form && !bytes.is_empty() {
            bytes[0] = FORM;
        }
        prop_assert!(records(&bytes).count() <= bytes.len() + 1);
        let _ = read(&bytes);
    }
}

#[test]
fn a_form_of_a_later_version_is_named() {
    let said = read(&[FORM + 1, PUT]).unwrap_err().to_string();
    assert!(said.contains("form"), "{said}");
    assert_eq!(read(&[]), Err(CUT));
}
