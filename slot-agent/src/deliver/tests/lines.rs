//! The spool after a kill, a power cut or a fault of the disk.

use std::fs;

use estimand_api::names::{DataName, NodeName};
use estimand_api::write::{Content, Order, Write};
use proptest::prelude::*;

use super::{files, write, writes};
use crate::deliver::line;
use crate::deliver::spool::{Limits, Spool};

const WIDE: Limits = Limits { max_bytes: 1 << 20, segment_bytes: 1 << 16 };

fn one_segment(writes: &[Write]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let done = Spool::open(dir.path(), WIDE).unwrap().append(writes, &[]);
    assert_eq!((done.written, done.segments.len()), (writes.len(), 1));
    let path = dir.path().join(&files(dir.path())[0]);
    (dir, path)
}

#[test]
fn a_torn_tail_is_cut_off_at_whatever_byte_it_ends() {
    let sent = [writes("a", 1..=4), vec![write("b", 5, 40)]].concat();
    let (dir, path) = one_segment(&sent);
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|place| whole[*place] == b'\n').collect();
    for end in ends[1]..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let mut spool = Spool::open(dir.path(), WIDE).unwrap();
        // A line that lacks nothing but its newline is whole.
        let intact = ends.iter().filter(|at| **at <= end).count();
        assert_eq!(spool.content().items, intact, "{end}");
        let (_, items, found) = spool.head().unwrap();
        let found = found.unwrap();
        assert_eq!(found.writes, sent[..intact], "{end}");
        assert_eq!(
            (items, found.damaged),
            (intact, usize::from(!ends.contains(&end) && !ends.contains(&(end - 1))))
        );
        // The next line does not stand behind the torn one. Not each time, because that waits for the disk.
        if end % 16 == 0 {
            assert_eq!(spool.append(&sent[..1], &[]).segments, [2]);
            spool.remove(2);
        }
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let others = [
        "README",
        "v1-1.spool",
        "v1-0000000000000000000x.spool",
        "v2-00000000000000000001.spool",
        "v1-00000000000000000009.spool.bak",
    ];
    for other in others {
        fs::write(dir.path().join(other), "mine").unwrap();
    }
    fs::create_dir(dir.path().join("v1-00000000000000000001.spool")).unwrap();
    let mut spool = Spool::open(dir.path(), WIDE).unwrap();
    assert!(spool.head().is_none());
    // The folder is in the way of the first segment only.
    assert!(spool.append(&writes("a", 1..=1), &[]).error.is_some());
    assert_eq!(spool.append(&writes("a", 1..=1), &[]).segments, [2]);
    let mut spool = Spool::open(dir.path(), WIDE).unwrap();
    assert_eq!(spool.head().unwrap().0, 2);
    spool.remove(2);
    assert_eq!(files(dir.path()).len(), others.len() + 1);
}

#[test]
fn a_former_process_is_found_with_what_it_left_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let narrow = Limits { segment_bytes: 500, ..WIDE };
    let sent = writes("a", 1..=30);
    for part in sent.chunks(10) {
        // Each is a process of its own.
        assert_eq!(Spool::open(dir.path(), narrow).unwrap().append(part, &[]).written, 10);
    }
    let mut spool = Spool::open(dir.path(), narrow).unwrap();
    assert_eq!((spool.content().items, spool.content().oldest), (30, sent[0].collected_at));
    let mut found = Vec::new();
    while let Some((number, _, segment)) = spool.head() {
        found.extend(segment.unwrap().writes);
        spool.remove(number);
    }
    assert_eq!(found, sent);
    assert!(files(dir.path()).is_empty());
}

#[test]
fn intact_but_wrong_lines_are_told_apart_from_damaged_ones() {
    let mut bytes = Vec::new();
    let newline = Content::Value { text: "[1,\n2]".into(), valid_for: None, provenance: None };
    line::push(&Write { content: newline, ..write("a", 1, 0) }, &mut bytes);
    line::push(&write("large", 2, 70_000), &mut bytes);
    bytes.extend_from_slice(b"00000000 {}\n");
    let found = line::read(&bytes);
    let texts = found.writes.iter().map(|write| match &write.content {
        Content::Value { text, .. } => text.to_string(),
        Content::Failed => String::new(),
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["[1,2]"]);
    assert_eq!(found.refused[0].data_name.as_str(), "large");
    assert!(found.refused[0].reason.contains("70"), "{}", found.refused[0].reason);
    assert_eq!(found.damaged, 1);
}

fn any_write() -> impl Strategy<Value = Write> {
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        ".{0,40}".prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    let content = prop_oneof![
        (value, proptest::option::of(1..1_000_000_000i64)).prop_map(|(text, valid_for)| Content::Value {
            text: text.into(),
            valid_for,
            provenance: Some("{\"run\":1}".into()),
        }),
        Just(Content::Failed),
    ];
    ("[a-z]{1,8}", content, 0..4_000_000_000_000_000i64, 0..u64::MAX / 2).prop_map(
        |(name, content, collected_at, sequence)| Write {
            data_name: DataName::parse(&name).unwrap(),
            node_name: NodeName::parse("n1").unwrap(),
            content,
            collected_at: Some(collected_at),
            order: Some(Order { epoch: 3, sequence }),
        },
    )
}

proptest! {
    #[test]
    fn spoilt_bytes_take_their_lines_and_garble_nothing(
        sent in proptest::collection::vec(any_write(), 1..6),
        spoilt in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut bytes = Vec::new();
        sent.iter().for_each(|write| line::push(write, &mut bytes));
        let whole = line::read(&bytes);
        prop_assert_eq!(&whole.writes, &sent);
        prop_assert_eq!(whole.damaged, 0);
        for (place, byte) in &spoilt {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let found = line::read(&bytes);
        prop_assert!(found.refused.is_empty());
        // A newline that is spoilt takes two lines.
        prop_assert!(found.writes.len() + 2 * spoilt.len() >= sent.len());
        let mut rest = sent.iter();
        prop_assert!(found.writes.iter().all(|write| rest.any(|other| other == write)));
    }
}
