//! Against what a NameNode of Hadoop 3.4 said, and old forms that it doesn't use any more.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

macro_rules! said {
    ($name:literal) => {
        include_bytes!(concat!("../../fixtures/hdfs/", $name, ".json"))
    };
}

/// Offset, bytes and, because a NameNode shuffles them, the holders in order.
fn plain(blocks: Result<Vec<Block>, String>) -> Vec<(u64, u64, String)> {
    let plain = |mut block: Block| {
        block.holders.sort();
        (block.offset, block.bytes, block.holders.join(" "))
    };
    blocks.unwrap().into_iter().map(plain).collect()
}

#[test]
fn both_operations_say_the_same_about_a_file() {
    let new = plain(blocks(said!("file-block-locations")));
    assert_eq!(
        new.iter().map(|block| (block.0, block.1)).collect::<Vec<_>>(),
        [(0, 1024), (1024, 1024), (2048, 952)]
    );
    assert!(new.iter().all(|block| block.2.split(' ').count() == 3), "{new:?}");
    assert_eq!(new, plain(blocks(said!("block-locations"))));
}

#[test]
fn an_empty_file_has_no_blocks() {
    assert_eq!(blocks(said!("file-block-locations-empty")), Ok(Vec::new()));
    assert_eq!(blocks(said!("block-locations-empty")), Ok(Vec::new()));
}

#[test]
fn a_block_that_is_being_written_does_not_count() {
    for body in [&said!("file-block-locations-open")[..], said!("block-locations-open")] {
        let blocks = plain(blocks(body));
        assert_eq!(blocks.len(), 1, "{blocks:?}");
        assert_eq!((blocks[0].0, blocks[0].1), (0, 1024));
    }
}

#[test]
fn a_group_of_an_erasure_coded_file_is_one_block_in_several_places() {
    let blocks = plain(blocks(said!("file-block-locations-striped")));
    assert_eq!(blocks, [(0, 3_000_000, "node-1 node-3 node-4".to_owned())]);
    assert_eq!(coding(said!("file-status-striped")), Ok(Some(Coding { data_units: 2, cell_bytes: 1 << 20 })));
    assert_eq!(coding(said!("file-status")), Ok(None));
    let early = br#"{"FileStatus":{"ecPolicyObj":{"name":"RS-6-3-1024k","cellSize":1048576,
        "schema":{"codecName":"rs","numDataUnits":6,"numParityUnits":3}}}}"#;
    assert_eq!(coding(early), Ok(Some(Coding { data_units: 6, cell_bytes: 1 << 20 })));
}

#[test]
fn nobody_holds_a_block_of_which_all_replicas_are_corrupt() {
    let new =
        br#"{"BlockLocations":{"BlockLocation":[{"offset":0,"length":9,"hosts":["a"],"corrupt":true}]}}"#;
    let old =
        br#"{"LocatedBlocks":{"locatedBlocks":[{"startOffset":0,"isCorrupt":true,"block":{"numBytes":9},
        "locations":[{"hostName":"a"}]}]}}"#;
    for body in [&new[..], old] {
        assert_eq!(blocks(body), Ok(vec![Block { offset: 0, bytes: 9, holders: Vec::new() }]));
    }
}

#[test]
fn the_name_node_knows_live_nodes_and_its_safe_mode() {
    let Cluster { safe_mode, datanodes } = cluster(said!("name-node-info")).unwrap().unwrap();
    assert!(safe_mode);
    let states: Vec<_> = datanodes.iter().map(|node| (node.host.as_str(), node.live)).collect();
    assert_eq!(states, [("node-1", true), ("node-3", true), ("node-4", true), ("node-2", false)]);
    let (alive, dead) = (&datanodes[0].facts, &datanodes[3].facts);
    assert_eq!(alive.admin_state.as_deref(), Some("In Service"));
    assert!(
        alive.capacity > alive.remaining && alive.used > Some(0) && alive.num_blocks > Some(0),
        "{alive:?}"
    );
    assert_eq!((dead.capacity, dead.used), (None, None));
}

#[test]
fn hosts_lose_their_ports_and_old_ones_have_none() {
    for (name, expected) in [("n1:9866", "n1"), ("n1.example", "n1.example"), ("fd00::1:9866", "fd00::1")] {
        let body = format!(r#"{{"beans":[{{"LiveNodes":"{{\"{name}\":{{}}}}","DeadNodes":"{{}}"}}]}}"#);
        let cluster = cluster(body.as_bytes()).unwrap().unwrap();
        assert_eq!(cluster.datanodes[0].host, expected);
        assert!(!cluster.safe_mode);
    }
    assert_eq!(cluster(br#"{"beans":[]}"#), Ok(None), "a gateway has no such bean");
}

#[test]
fn refusals_are_told_apart() {
    assert!(refusal(said!("unknown-operation")).unwrap().is_unknown_operation());
    let gone = refusal(said!("not-found")).unwrap();
    assert_eq!((gone.exception.as_str(), gone.is_unknown_operation()), ("FileNotFoundException", false));
    assert_eq!(refusal(b"<html><title>Error 404 Not Found</title></html>"), None);
}

proptest! {
    /// Any body is understood or rejected, and nothing worse.
    #[test]
    fn a_damaged_body_does_no_harm(at in 0_usize..4_000, with: u8) {
        for body in [&said!("file-block-locations")[..], said!("block-locations"), said!("name-node-info")] {
            let mut damaged = body.to_vec();
            damaged[at % body.len()] = with;
            for body in [&damaged[..], &body[..at % body.len()]] {
                let _ = (blocks(body), coding(body), cluster(body), refusal(body));
            }
        }
    }
}
