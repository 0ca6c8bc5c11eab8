//! A real HDFS comes up, does as it is told, and leaves nothing behind.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Duration;

use estimand_testkit::hdfs::Hdfs;
use estimand_testkit::http::Http;
use estimand_testkit::processes;
use serde_json::Value;

fn name_node_info(hdfs: &Hdfs) -> Value {
    let http = Http::new(&format!("http://{}", hdfs.http()));
    let answer = http.get("/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo").expect_status(200);
    answer.json()["beans"][0].clone()
}

/// The hosts in one of the lists, without ports.
fn hosts(info: &Value, list: &str) -> Vec<String> {
    let nodes: Value = serde_json::from_str(info[list].as_str().unwrap()).unwrap();
    let mut hosts: Vec<String> =
        nodes.as_object().unwrap().keys().map(|key| key.split(':').next().unwrap().to_owned()).collect();
    hosts.sort();
    hosts
}

#[test]
fn datanodes_go_and_come_back_and_safe_mode_is_seen() {
    let hdfs = Hdfs::start(2);
    let conf = fs::read_to_string(hdfs.conf_dir().join("core-site.xml")).unwrap();
    assert!(conf.contains(hdfs.rpc()), "{conf}");
    assert_eq!(hosts(&name_node_info(&hdfs), "LiveNodes"), ["node-1", "node-2"]);

    hdfs.stop_datanode(2);
    let info = name_node_info(&hdfs);
    assert_eq!(
        (hosts(&info, "LiveNodes"), hosts(&info, "DeadNodes")),
        (vec!["node-1".into()], vec!["node-2".into()])
    );
    hdfs.start_datanode(2);
    assert_eq!(hosts(&name_node_info(&hdfs), "LiveNodes"), ["node-1", "node-2"]);

    hdfs.safe_mode(true);
    assert_ne!(name_node_info(&hdfs)["Safemode"], "");
    hdfs.safe_mode(false);
    assert_eq!(name_node_info(&hdfs)["Safemode"], "");
}

#[test]
fn nothing_is_left_of_it() {
    let hdfs = Hdfs::start(1);
    let folder = hdfs.conf_dir().parent().unwrap().to_owned();
    let mark = folder.display().to_string();
    assert!(folder.join("data-1").exists() && !processes::with_argument(&mark).is_empty());
    drop(hdfs);
    processes::none_with(&mark, Duration::from_secs(30));
    assert!(!folder.exists(), "{mark} is left");
}
