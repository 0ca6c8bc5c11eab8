//! A real HDFS: what is counted, and what happens when parts of it are away.

use std::collections::BTreeMap;
use std::time::Duration;

use estimand_collectors::Failure;
use estimand_testkit::hdfs::Hdfs;
use estimand_testkit::http::Http;
use hdfs_native::WriteOptions;
use serde_json::{Value, json};

use crate::support::*;

const WITHIN: Duration = Duration::from_secs(60);

/// Holds the answer against the other operation's, and owners against totals.
#[track_caller]
fn check(hdfs: &Hdfs, folder: &str, nodes: &Nodes) {
    let (expected, total) = second_opinion(hdfs, folder);
    for (host, value) in nodes {
        let counted = ["blocks", "bytes", "files"].map(|field| number(value, field));
        assert_eq!(counted, expected.get(host).copied().unwrap_or_default(), "{host}: {value}");
    }
    assert!(expected.keys().all(|host| nodes.contains_key(host)), "{expected:?} {nodes:?}");
    let under = &nodes.values().next().unwrap()["under"];
    assert_eq!(["blocks", "bytes", "files"].map(|field| number(under, field)), total);
    assert_eq!(summed(nodes, "primaryBlocks"), total[0]);
    assert_eq!(summed(nodes, "primaryBytes"), total[1]);
    assert_eq!(summed(nodes, "primaryFiles"), total[2] - number(under, "emptyFiles"));
}

#[test]
fn each_replica_is_found_where_it_is() {
    let hdfs = shared();
    let files = [
        ("/count/one", 1_024, 1),
        ("/count/three blocks", 2_500, 2),
        ("/count/deep/er/everywhere", 5_000, 4),
        ("/count/deep/50% off?", 100, 3),
        ("/count/deep/;x+ä", 100, 1),
        ("/count/empty", 0, 2),
    ];
    write(hdfs, &files);
    let nodes = measure(hdfs, "/count");
    assert_eq!(
        nodes.keys().map(String::as_str).collect::<Vec<_>>(),
        ["node-1", "node-2", "node-3", "node-4"]
    );
    check(hdfs, "/count", &nodes);
    // By hand: 1 + 3 + 5 + 1 + 1 blocks, of 1, 2, 4, 3 and 1 replicas.
    assert_eq!(summed(&nodes, "primaryBlocks"), 11);
    assert_eq!(summed(&nodes, "blocks"), 1 + 3 * 2 + 5 * 4 + 3 + 1);
    for value in nodes.values() {
        assert_eq!(
            (&value["live"], &value["safeMode"], &value["adminState"]),
            (&json!(true), &json!(false), &json!("In Service"))
        );
        assert!(number(value, "capacityBytes") > number(value, "remainingBytes"), "{value}");
        assert!(number(value, "replicas") >= number(value, "blocks"), "{value}");
        assert_eq!(value["truncated"], false);
    }
}

#[test]
fn files_are_listed_by_name_on_request() {
    let hdfs = shared();
    write(
        hdfs,
        &[("/named/a", 2_500, 2), ("/named/deep/b c", 10, 4), ("/named/deep/d", 10, 1), ("/named/e", 0, 1)],
    );
    let named = |path: &str| ask(&json!({ "path": path, "names": true }), Some(hdfs), WITHIN).unwrap();
    let nodes = named("/named");
    check(hdfs, "/named", &nodes);
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for value in nodes.values() {
        let items: Vec<&str> =
            value["items"].as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect();
        assert_eq!(items.len() as u64, number(value, "files"), "{value}");
        assert!(items.is_sorted(), "{items:?}");
        items.into_iter().for_each(|item| *copies.entry(item).or_default() += 1);
    }
    // The first has three blocks, each of them in two places.
    let of_three = copies.remove("a").unwrap();
    assert!((2..=4).contains(&of_three), "{of_three}");
    assert_eq!(copies, BTreeMap::from([("deep/b c", 4), ("deep/d", 1)]));
    for (path, expected) in [("/named/deep/b c", "b c"), ("/named/*/b*", "deep/b c")] {
        assert_eq!(named(path)["node-3"]["items"], json!([expected]), "{path}");
    }
    assert_eq!(measure(hdfs, "/named")["node-1"].get("items"), None);
}

#[test]
fn patterns_and_limits_narrow_the_files() {
    let hdfs = shared();
    write(
        hdfs,
        &[("/narrow/a/1", 10, 1), ("/narrow/a/2", 10, 1), ("/narrow/b/1", 10, 1), ("/narrow/c", 10, 1)],
    );
    let under = |params: Value| {
        let nodes = ask(&params, Some(hdfs), WITHIN).unwrap();
        let under = nodes["node-1"]["under"].clone();
        (number(&under, "files"), nodes["node-1"]["truncated"].clone())
    };
    assert_eq!(under(json!({ "path": "/narrow/[ab]/*" })), (3, json!(false)));
    // A file that is named twice counts once.
    assert_eq!(under(json!({ "path": "/narrow/{a,a/1,c}" })), (3, json!(false)));
    assert_eq!(under(json!({ "path": "/narrow/c" })), (1, json!(false)));
    assert_eq!(under(json!({ "path": "/narrow", "max_files": 2 })), (2, json!(true)));
    assert_eq!(under(json!({ "path": "/narrow", "max_files": 4 })), (4, json!(false)));
}

#[test]
fn an_erasure_coded_file_is_shared_among_its_holders() {
    let hdfs = shared();
    put(hdfs, "/coded", "MKDIRS");
    put(hdfs, "/coded", "SETECPOLICY&ecpolicy=XOR-2-1-1024k");
    // Blocks of a group have to be as large as a cell at least, so this one has the usual size.
    write_one(hdfs, "/coded/file", 3_000_000, &WriteOptions::default());
    await_replicas(hdfs, "/coded/file", 3);
    let nodes = measure(hdfs, "/coded");
    assert_eq!((summed(&nodes, "blocks"), summed(&nodes, "bytes")), (3, 3 * 1_500_000));
    assert_eq!((summed(&nodes, "primaryBlocks"), summed(&nodes, "primaryBytes")), (1, 3_000_000));
}

#[test]
fn a_denied_file_is_counted_and_a_denied_path_is_a_failure() {
    let hdfs = shared();
    write(hdfs, &[("/guarded/open/file", 10, 1), ("/guarded/shut/file", 10, 1)]);
    put(hdfs, "/guarded/shut", "SETPERMISSION&permission=700");
    let alice = |path: &str| json!({ "path": path, "user": "alice" });
    let nodes = ask(&alice("/guarded"), Some(hdfs), WITHIN).unwrap();
    let under = &nodes["node-1"]["under"];
    assert_eq!((number(under, "files"), number(under, "denied")), (1, 1));
    let why = failure(&alice("/guarded/shut"), Some(hdfs), WITHIN);
    assert!(why.starts_with("/guarded/shut: Permission denied: user=alice"), "{why}");
    let why = failure(&alice("/guarded/none"), Some(hdfs), WITHIN);
    assert!(why.starts_with("there is no /guarded/none in the HDFS at hdfs://127.0.0.1:"), "{why}");
}

#[test]
fn a_server_that_knows_only_the_old_operation_gives_the_same() {
    let hdfs = shared();
    write(hdfs, &[("/old/file", 3_000, 2)]);
    let behind = format!("http://{}", hdfs.http());
    let old = server(move |line, stream| {
        let path = line.split(' ').nth(1).unwrap();
        if path.contains("op=GETFILEBLOCKLOCATIONS") {
            let unknown = include_bytes!("../../fixtures/hdfs/unknown-operation.json");
            reply(stream, "400 Bad Request", unknown);
        } else {
            let answer = Http::new(&behind).get(path);
            reply(stream, &format!("{} Whatever", answer.status), &answer.body);
        }
    });
    let params = json!({ "path": "/old", "webhdfs": old });
    let nodes = ask(&params, Some(hdfs), WITHIN).unwrap();
    check(hdfs, "/old", &nodes);
    assert_eq!(summed(&nodes, "blocks"), 6);
}

#[test]
fn the_active_namenode_is_found_among_several() {
    let hdfs = shared();
    let conf = tempfile::tempdir().unwrap();
    let standby = server(|_, stream| {
        let body = br#"{"RemoteException":{"exception":"StandbyException","javaClassName":"x","message":"standby"}}"#;
        reply(stream, "403 Forbidden", body);
    });
    let property = |(name, value): (&str, &str)| {
        format!("<property><name>{name}</name><value>{value}</value></property>")
    };
    let properties = [
        ("fs.defaultFS", "hdfs://cluster"),
        ("dfs.ha.namenodes.cluster", "down,standby,up"),
        ("dfs.namenode.rpc-address.cluster.down", "127.0.0.1:9"),
        ("dfs.namenode.http-address.cluster.down", "127.0.0.1:9"),
        ("dfs.namenode.rpc-address.cluster.standby", "127.0.0.1:9"),
        ("dfs.namenode.http-address.cluster.standby", standby.strip_prefix("http://").unwrap()),
        ("dfs.namenode.rpc-address.cluster.up", hdfs.rpc()),
        ("dfs.namenode.http-address.cluster.up", hdfs.http()),
    ];
    std::fs::create_dir_all(conf.path().join("hadoop/conf")).unwrap();
    let write_some = |properties: &[(&str, &str)]| {
        let text: String = properties.iter().copied().map(property).collect();
        let path = conf.path().join("hadoop/conf/core-site.xml");
        std::fs::write(path, format!("<configuration>{text}</configuration>")).unwrap();
    };
    let ask_again = || ask_with_etc(&json!({ "path": "/", "max_files": 1 }), conf.path(), WITHIN);
    write_some(&properties);
    assert_eq!(ask_again().unwrap().len(), 4);
    write_some(&properties[..6]);
    let Err(Failure::Failed(why)) = ask_again() else { panic!("nobody is active") };
    assert!(why.contains("is a standby NameNode") && why.contains("http://127.0.0.1:9: "), "{why}");
}

#[test]
fn dead_nodes_safe_mode_and_a_stopped_hdfs_are_reported() {
    let hdfs = Hdfs::start(3);
    write(&hdfs, &[("/a", 4_000, 3), ("/b", 1_000, 1), ("/c", 1_000, 1), ("/d", 1_000, 1), ("/e", 1_000, 1)]);
    let before = measure(&hdfs, "/");
    check(&hdfs, "/", &before);
    let single: u64 = number(&before["node-2"], "blocks") - 4;

    hdfs.stop_datanode(2);
    hdfs.safe_mode(true);
    let nodes = measure(&hdfs, "/");
    let dead = &nodes["node-2"];
    assert_eq!(
        (&dead["live"], &dead["capacityBytes"], number(dead, "blocks")),
        (&json!(false), &Value::Null, 0)
    );
    for name in ["node-1", "node-3"] {
        assert_eq!((&nodes[name]["live"], &nodes[name]["safeMode"]), (&json!(true), &json!(true)));
    }
    let under = &dead["under"];
    assert_eq!((number(under, "missingBlocks"), number(under, "missingFiles")), (single, single));
    assert_eq!(summed(&nodes, "primaryBlocks") + single, summed(&before, "primaryBlocks"));

    hdfs.safe_mode(false);
    hdfs.start_datanode(2);
    let nodes = measure(&hdfs, "/");
    assert_eq!((&nodes["node-2"]["live"], &nodes["node-2"]["safeMode"]), (&json!(true), &json!(false)));
    check(&hdfs, "/", &nodes);

    let conf = hdfs.conf_dir();
    let params =
        json!({ "namenode": format!("hdfs://{}", hdfs.rpc()), "webhdfs": format!("http://{}", hdfs.http()) });
    hdfs.kill9();
    let why = failure(&params, None, WITHIN);
    assert!(why.starts_with(&format!("http://{}: ", hdfs.http())) && why.contains("refused"), "{why}");
    assert!(conf.exists(), "it is down, but not gone");
}
