#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::answers::Facts;
use super::*;

fn block(offset: u64, bytes: u64, holders: &[&str]) -> Block {
    Block { offset, bytes, holders: holders.iter().map(|host| (*host).to_owned()).collect() }
}

fn file(path: &str, blocks: Vec<Block>) -> FileBlocks {
    FileBlocks { path: path.into(), blocks, coding: None }
}

fn census(files: Vec<FileBlocks>) -> Census {
    Census { path: "/".into(), files, empty_files: 0, denied: 0, truncated: false, names: false }
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

fn summed(values: &BTreeMap<String, Value>, field: &str) -> u64 {
    values.values().map(|value| number(value, field)).sum()
}

#[test]
fn every_replica_counts_and_each_block_and_file_has_one_owner() {
    let files = vec![
        file("/a", vec![block(0, 10, &["n1", "n2"]), block(10, 5, &["n2", "n3"])]),
        file("/b", vec![block(0, 7, &["n2"])]),
    ];
    let values = values(census(files), None, false);
    let row = |name: &str| {
        let fields = ["blocks", "bytes", "files", "primaryBlocks", "primaryBytes", "primaryFiles"];
        fields.map(|field| number(&values[name], field))
    };
    // Each block went to whoever had fewest so far, the first of equals; of /a, n2 has most, and so it got the file.
    assert_eq!(row("n1"), [1, 10, 1, 1, 10, 0]);
    assert_eq!(row("n2"), [3, 22, 2, 2, 12, 2]);
    assert_eq!(row("n3"), [1, 5, 1, 0, 0, 0]);
    assert_eq!(values["n1"]["live"], true);
    assert_eq!(values["n1"]["safeMode"], Value::Null, "nobody said it");
}

#[test]
fn names_are_relative_to_the_folder_that_was_asked_for() {
    let found = |path: &str, files: &[&str]| {
        let files = files.iter().map(|path| file(path, vec![block(0, 1, &["n1", "n2"])])).collect();
        let values = values(Census { path: path.into(), names: true, ..census(files) }, None, false);
        assert_eq!(values["n1"]["items"], values["n2"]["items"]);
        values["n1"]["items"].clone()
    };
    for (path, files, expected) in [
        ("/a", ["/a/x.jpg", "/a/b/y.jpg"], ["b/y.jpg", "x.jpg"]),
        ("/a/", ["/a/x.jpg", "/a/b/y.jpg"], ["b/y.jpg", "x.jpg"]),
        ("/", ["/a/x.jpg", "/y.jpg"], ["a/x.jpg", "y.jpg"]),
        ("/a/*.jpg", ["/a/x.jpg", "/a/y.jpg"], ["x.jpg", "y.jpg"]),
        ("/a/{b,c}", ["/a/b/x.jpg", "/a/c"], ["b/x.jpg", "c"]),
        ("/?/x*", ["/a/x", "/b/x"], ["a/x", "b/x"]),
    ] {
        assert_eq!(found(path, &files), json!(expected), "{path}");
    }
    assert_eq!(found("/a/x.jpg", &["/a/x.jpg"]), json!(["x.jpg"]));
    // Nobody asked.
    assert_eq!(
        values(census(vec![file("/a", vec![block(0, 1, &["n1"])])]), None, false)["n1"].get("items"),
        None
    );
}

#[test]
fn names_that_would_not_fit_are_refused_with_advice() {
    let many = |count: usize| {
        let files = (0..count).map(|index| file(&format!("/a/{index:05}"), vec![block(0, 1, &["n1"])]));
        values(Census { path: "/a".into(), names: true, ..census(files.collect()) }, None, false)
    };
    assert_eq!(check_sizes(&many(8_000)), Ok(()));
    let why = check_sizes(&many(8_200)).unwrap_err();
    assert!(why.starts_with("the value of n1 would have 6") && why.contains("a narrower `path`"), "{why}");
}

#[test]
fn of_a_group_each_holder_has_a_share() {
    let coding = Some(Coding { data_units: 2, cell_bytes: 1_000 });
    for (bytes, share) in [(3_000, 1_500), (3_001, 1_501), (400, 400)] {
        let mut striped = file("/ec", vec![block(0, bytes, &["n1", "n2", "n3"])]);
        striped.coding = coding;
        let values = values(census(vec![striped]), None, false);
        assert_eq!(number(&values["n3"], "bytes"), share, "of {bytes}");
        assert_eq!((summed(&values, "primaryBytes"), summed(&values, "primaryBlocks")), (bytes, 1));
    }
}

#[test]
fn a_block_without_a_holder_is_missing_and_has_no_owner() {
    let mut lost =
        census(vec![file("/lost", vec![block(0, 9, &[])]), file("/kept", vec![block(0, 1, &["n1"])])]);
    lost.empty_files = 3;
    lost.truncated = true;
    let values = values(lost, None, false);
    let under = &values["n1"]["under"];
    assert_eq!(
        (number(under, "files"), number(under, "emptyFiles"), number(under, "missingFiles")),
        (5, 3, 1)
    );
    assert_eq!((number(under, "missingBlocks"), number(under, "missingBytes")), (1, 9));
    assert_eq!(summed(&values, "primaryFiles"), 1);
    assert_eq!(values["n1"]["truncated"], true);
}

fn datanode(host: &str, live: bool, capacity: Option<u64>) -> DataNode {
    let facts = Facts { capacity, ..Facts::default() };
    DataNode { host: host.into(), live, facts }
}

#[test]
fn datanodes_of_one_host_are_one_node_and_the_dead_are_told() {
    let datanodes = vec![
        datanode("n1.example", true, Some(10)),
        datanode("n1.example", false, Some(5)),
        datanode("n2.example", false, None),
        datanode("fd00::1", true, Some(1)),
        datanode("10.0.0.1", true, Some(1)),
    ];
    let cluster = Some(Cluster { safe_mode: true, datanodes });
    let values = values(census(Vec::new()), cluster, true);
    let names: Vec<_> = values.keys().map(String::as_str).collect();
    assert_eq!(names, ["10.0.0.1", "fd00--1", "n1", "n2"]);
    assert_eq!((number(&values["n1"], "capacityBytes"), &values["n1"]["live"]), (15, &Value::Bool(true)));
    assert_eq!((&values["n2"]["capacityBytes"], &values["n2"]["live"]), (&Value::Null, &Value::Bool(false)));
    assert_eq!(values["n2"]["safeMode"], true);
}

fn any_files() -> impl Strategy<Value = Vec<FileBlocks>> {
    let holders = proptest::sample::subsequence(vec!["n1", "n2", "n3", "n4", "n5"], 0..=3);
    let blocks = proptest::collection::vec((1_u64..5_000, holders), 1..5);
    proptest::collection::vec(blocks, 0..40).prop_map(|files| {
        let one = |(index, blocks): (usize, Vec<(u64, Vec<&str>)>)| {
            let blocks = blocks.into_iter().zip(0..).map(|((bytes, holders), at)| block(at, bytes, &holders));
            file(&format!("/{index:03}"), blocks.collect())
        };
        files.into_iter().enumerate().map(one).collect()
    })
}

proptest! {
    #[test]
    fn owners_add_up_and_the_order_of_the_answers_does_not_matter(files in any_files()) {
        // DataNodes without any block are there too, so that there always is a total to read.
        let cluster = || Some(Cluster { safe_mode: false, datanodes: vec![datanode("idle", true, None)] });
        let found = values(census(files.clone()), cluster(), false);
        let under = &found["idle"]["under"];
        for (what, owned) in [("blocks", "primaryBlocks"), ("bytes", "primaryBytes"), ("files", "primaryFiles")] {
            let missing = format!("missing{}{}", what[..1].to_uppercase(), &what[1..]);
            prop_assert_eq!(summed(&found, owned) + number(under, &missing), number(under, what), "{}", what);
        }
        let mut backwards = files;
        backwards.reverse();
        for file in &mut backwards {
            file.blocks.iter_mut().for_each(|block| block.holders.reverse());
        }
        prop_assert_eq!(values(census(backwards), cluster(), false), found);
    }

    /// With every file on all nodes nobody has an excuse for being given more than another.
    #[test]
    fn owners_are_even(count in 0_usize..60) {
        let all = ["n1", "n2", "n3"];
        let files = (0..count).map(|index| file(&format!("/{index:03}"), vec![block(0, 8, &all)])).collect();
        let found = values(census(files), None, false);
        for field in ["primaryBlocks", "primaryFiles"] {
            let given: Vec<u64> = found.values().map(|value| number(value, field)).collect();
            let most = given.iter().max().unwrap_or(&0);
            prop_assert!(most - given.iter().min().unwrap_or(&0) <= 1, "{:?}", given);
        }
    }
}
