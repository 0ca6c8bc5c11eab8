#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::*;

const HOST: &[u8] = include_bytes!("../../fixtures/mountinfo-host");
const CONTAINER: &[u8] = include_bytes!("../../fixtures/mountinfo-container-v2");

fn points(text: &[u8], network: bool) -> Vec<String> {
    let all = mounts::parse(text);
    let folder = |mount: &Mount| !mount.point.starts_with("/etc");
    let chosen = chosen(&all, network, folder);
    chosen.iter().map(|(mount, _)| mount.point.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_host_has_its_disks_once_each() {
    assert_eq!(points(HOST, false), ["/", "/boot/efi", "/home", "/mnt/my disk: old"]);
}

#[test]
fn file_systems_of_the_network_are_asked_on_request() {
    let expected =
        ["/", "/boot/efi", "/home", "/mnt/my disk: old", "/net/data", "/net/data/scratch", "/net/ssh"];
    assert_eq!(points(HOST, true), expected);
}

#[test]
fn a_container_has_its_root_and_its_volumes_but_no_single_files() {
    assert_eq!(points(CONTAINER, false), ["/", "/data"]);
}

#[test]
fn space_is_told_as_df_tells_it() {
    let mount = &mounts::parse(HOST)[0];
    let space = Space { total: 1000, free: 400, available: 350, inodes: 100, inodes_free: 25 };
    let value = entry(mount, space).unwrap().value;
    assert_eq!((&value["usedBytes"], &value["availableBytes"]), (&json!(600), &json!(350)));
    assert_eq!(value["usedFraction"], 0.631579, "of what is not kept back");
    assert_eq!(value["inodes"]["usedFraction"], 0.75);
}

#[test]
fn file_systems_without_blocks_or_inodes_divide_by_nothing() {
    let mount = &mounts::parse(HOST)[0];
    let none = Space { total: 0, free: 0, available: 0, inodes: 0, inodes_free: 0 };
    assert!(entry(mount, none).is_none());
    let full_without_inodes = entry(mount, Space { total: 10, ..none }).unwrap().value;
    assert_eq!(full_without_inodes["usedFraction"], 1.0);
    assert_eq!(full_without_inodes["inodes"], Value::Null);
    let strange = Space { total: 10, free: u64::MAX, available: u64::MAX, inodes: 1, inodes_free: 2 };
    assert_eq!(entry(mount, strange).unwrap().value["usedFraction"], 0.0);
}

/// A machine whose files are in a folder: the mounts are told about by the folders in there.
#[test]
fn paths_begin_at_the_root() {
    let machine = tempfile::tempdir().unwrap();
    let root = machine.path();
    std::fs::create_dir_all(root.join("proc/1")).unwrap();
    std::fs::create_dir_all(root.join("mnt/my disk: old")).unwrap();
    std::fs::write(root.join("proc/1/mountinfo"), HOST).unwrap();
    let roots = Roots { proc: root.join("proc"), root: root.into(), ..Roots::default() };
    let around = Surroundings { roots, ..Surroundings::default() };
    let mut disk = crate::make(&KIND, &BTreeMap::new(), &around).unwrap();
    let Reading::Here(value) = disk.collect(Instant::now() + Duration::from_secs(5)).unwrap() else {
        panic!()
    };
    let points: Vec<&String> = value["mounts"].as_object().unwrap().keys().collect();
    assert_eq!(points, ["/", "/mnt/my disk: old"], "the others are not there");
}
