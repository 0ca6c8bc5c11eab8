#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;

fn site(properties: &[(&str, &str)]) -> String {
    let lines = properties.iter().map(|(name, value)| {
        format!("  <property>\n    <name>{name}</name>\n    <value> {value}\n</value>\n  </property>\n")
    });
    format!("<?xml version=\"1.0\"?>\n<configuration>\n{}</configuration>\n", lines.collect::<String>())
}

fn find(
    params: (Option<&str>, Option<&str>),
    core: &[(&str, &str)],
    hdfs: &[(&str, &str)],
) -> Result<Target, Failure> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("core-site.xml"), site(core)).unwrap();
    fs::write(folder.path().join("hdfs-site.xml"), site(hdfs)).unwrap();
    let addresses = Addresses::new(params.0.map(str::to_owned), params.1.map(str::to_owned)).unwrap();
    target(&addresses, &Folders(vec!["/nonexistent".into(), folder.path().to_owned()]))
}

fn one(rpc: &str, http: &str) -> Result<Target, Failure> {
    Ok(Target { rpc: vec![rpc.into()], http: vec![http.into()] })
}

#[test]
fn ports_are_hadoops_own_unless_something_says_otherwise() {
    let plain = [("fs.defaultFS", "hdfs://nn.example")];
    assert_eq!(find((None, None), &plain, &[]), one("nn.example:8020", "http://nn.example:9870"));
    let everywhere = [("dfs.namenode.http-address", "0.0.0.0:50070")];
    assert_eq!(find((None, None), &plain, &everywhere), one("nn.example:8020", "http://nn.example:50070"));
    let elsewhere = [("dfs.namenode.http-address", "web.example:1234")];
    assert_eq!(find((None, None), &plain, &elsewhere), one("nn.example:8020", "http://web.example:1234"));
}

#[test]
fn parameters_go_before_files_and_files_about_another_hdfs_do_not_count() {
    let core = [("fs.defaultFS", "hdfs://nn.example:9000")];
    let hdfs = [("dfs.namenode.http-address", "nn.example:1234"), ("dfs.http.policy", "HTTPS_ONLY")];
    let other = find((Some("hdfs://other:9001"), None), &core, &hdfs);
    assert_eq!(other, one("other:9001", "http://other:9870"));
    let same = find((Some("hdfs://nn.example:9000"), Some("http://gate:80/")), &core, &hdfs);
    assert_eq!(same, one("nn.example:9000", "http://gate"));
    let Err(Failure::Failed(why)) = find((None, None), &core, &hdfs) else { panic!("HTTPS was spoken") };
    assert!(why.contains("HTTPS only"), "{why}");
}

#[test]
fn a_name_service_is_all_of_its_namenodes() {
    let core = [("fs.defaultFS", "hdfs://cluster")];
    let hdfs = [
        ("dfs.ha.namenodes.cluster", "a, b"),
        ("dfs.namenode.rpc-address.cluster.a", "one:8020"),
        ("dfs.namenode.rpc-address.cluster.b", "two:8020"),
        ("dfs.namenode.http-address.cluster.b", "two:50070"),
    ];
    let expected = Target {
        rpc: vec!["one:8020".into(), "two:8020".into()],
        http: vec!["http://one:9870".into(), "http://two:50070".into()],
    };
    assert_eq!(find((None, None), &core, &hdfs), Ok(expected));
}

#[test]
fn other_file_systems_are_not_here_and_kerberos_is_a_failure() {
    let no_files = target(&Addresses::default(), &Folders(vec!["/nonexistent".into()]));
    let Err(Failure::NotHere(why)) = no_files else { panic!("{no_files:?}") };
    assert!(why.contains("`namenode`") && why.contains("/nonexistent"), "{why}");
    let Err(Failure::NotHere(why)) = find((None, None), &[("fs.defaultFS", "s3a://bucket")], &[]) else {
        panic!("a bucket is no HDFS")
    };
    assert!(why.contains("s3a://bucket"), "{why}");
    let secure = [("fs.defaultFS", "hdfs://nn"), ("hadoop.security.authentication", "kerberos")];
    let Err(Failure::Failed(why)) = find((None, None), &secure, &[]) else { panic!("it has no ticket") };
    assert!(why.contains("this HDFS wants Kerberos"), "{why}");
}

#[test]
fn a_broken_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [("<configuration>", "no XML"), ("<html/>", "<html>"), ("", "no XML")] {
        fs::write(folder.path().join("core-site.xml"), text).unwrap();
        let Err(Failure::Failed(why)) =
            target(&Addresses::default(), &Folders(vec![folder.path().to_owned()]))
        else {
            panic!("{text:?} was read")
        };
        assert!(why.contains("core-site.xml: ") && why.contains(expected), "{why}");
    }
}

#[test]
fn addresses_in_parameters_are_checked_when_it_is_made() {
    for (namenode, webhdfs) in
        [("nn:8020", ""), ("http://nn:8020", ""), ("hdfs://nn/x", ""), ("", "https://nn")]
    {
        let made = Addresses::new(Some(namenode.into()), Some(webhdfs.into()));
        assert!(made.is_err(), "{namenode} {webhdfs} was taken");
    }
}
