//! Shared by the tests of `hdfs`: asking the collector, writing files, and a second opinion on where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use estimand_collectors::{Failure, Reading, Roots, Surroundings};
use estimand_testkit::hdfs::Hdfs;
use estimand_testkit::http::Http;
use estimand_testkit::wait;
use hdfs_native::WriteOptions;
use hdfs_native::sync::ClientBuilder;
use serde_json::{Value, json};

pub type Nodes = BTreeMap<String, Value>;

/// For tests that read it or write below a folder of their own.
pub fn shared() -> &'static Hdfs {
    static SHARED: OnceLock<Hdfs> = OnceLock::new();
    SHARED.get_or_init(|| Hdfs::start(4))
}

/// Asks the collector once, with `params`, a JSON object, and the files of `conf` in place of the machine's.
pub fn ask(params: &Value, conf: Option<&Hdfs>, within: Duration) -> Result<Nodes, Failure> {
    let etc = tempfile::tempdir().unwrap();
    if let Some(hdfs) = conf {
        std::fs::create_dir(etc.path().join("hadoop")).unwrap();
        std::os::unix::fs::symlink(hdfs.conf_dir(), etc.path().join("hadoop/conf")).unwrap();
    }
    ask_with_etc(params, etc.path(), within)
}

/// The same, with a folder in place of `/etc`.
pub fn ask_with_etc(params: &Value, etc: &Path, within: Duration) -> Result<Nodes, Failure> {
    let roots = Roots { etc: etc.to_owned(), ..Roots::default() };
    let params = serde_json::from_value(params.clone()).unwrap();
    let kind = estimand_collectors::find("hdfs").unwrap();
    let mut made =
        estimand_collectors::make(kind, &params, &Surroundings { roots, ..Surroundings::default() }).unwrap();
    match made.collect(Instant::now() + within)? {
        Reading::PerNode(nodes) => Ok(nodes),
        Reading::Here(value) => panic!("one value for all: {value}"),
    }
}

#[track_caller]
pub fn measure(hdfs: &Hdfs, path: &str) -> Nodes {
    ask(&json!({ "path": path, "user": "root" }), Some(hdfs), Duration::from_secs(60)).unwrap()
}

/// The sentence with which it fails.
#[track_caller]
pub fn failure(params: &Value, conf: Option<&Hdfs>, within: Duration) -> String {
    match ask(params, conf, within) {
        Err(Failure::Failed(why)) => why,
        other => panic!("{params} gave {other:?}"),
    }
}

/// Writes files of (path, bytes, replication) in blocks of 1 KiB.
pub fn write(hdfs: &Hdfs, files: &[(&str, usize, u32)]) {
    for (path, bytes, replication) in files {
        write_one(hdfs, path, *bytes, &WriteOptions::default().replication(*replication).block_size(1_024));
    }
    // A file is whole as soon as one DataNode has told of each block; the others tell a little later.
    for (path, _, replication) in files {
        await_replicas(hdfs, path, *replication as usize);
    }
}

/// Writes a file anew until it is whole: on a busy machine a NameNode refuses a file's next block while it has not heard
/// of the one before, and the client does not ask again.
pub fn write_one(hdfs: &Hdfs, path: &str, bytes: usize, options: &WriteOptions) {
    let builder = ClientBuilder::new().with_url(format!("hdfs://{}", hdfs.rpc()));
    let client = builder.with_user("root").build().unwrap();
    let write = || -> Result<(), String> {
        let anew = options.clone().overwrite(true);
        let mut file = client.create(path, anew).map_err(|error| error.to_string())?;
        file.write_all(&vec![7; bytes]).map_err(|error| error.to_string())?;
        file.close().map_err(|error| error.to_string())
    };
    wait::until_ok(Duration::from_secs(30), &format!("{path} is written"), write);
}

/// Waits until the NameNode knows of so many holders of each block of a file.
pub fn await_replicas(hdfs: &Hdfs, path: &str, count: usize) {
    wait::until_ok(Duration::from_secs(30), &format!("all replicas of {path}"), || {
        let located = get(hdfs, path, "GET_BLOCK_LOCATIONS");
        let blocks = located["LocatedBlocks"]["locatedBlocks"].as_array().unwrap();
        let whole = blocks.iter().all(|block| block["locations"].as_array().unwrap().len() == count);
        if whole { Ok(()) } else { Err(located) }
    });
}

fn get(hdfs: &Hdfs, path: &str, operation: &str) -> Value {
    let letter = |byte: u8| match byte {
        b'/' | b'-' | b'0'..=b'9' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    let path: String = path.bytes().map(letter).collect();
    web(hdfs).get(&format!("/webhdfs/v1{path}?user.name=root&op={operation}")).expect_status(200).json()
}

/// `PUT` of an operation that has no body.
pub fn put(hdfs: &Hdfs, path: &str, operation: &str) {
    web(hdfs)
        .request("PUT", &format!("/webhdfs/v1{path}?user.name=root&op={operation}"), &[], b"")
        .expect_status(200);
}

fn web(hdfs: &Hdfs) -> Http {
    Http::new(&format!("http://{}", hdfs.http()))
}

/// A walk with the other operation below a folder: (blocks, bytes, files) of each host, and of all.
pub fn second_opinion(hdfs: &Hdfs, folder: &str) -> (BTreeMap<String, [u64; 3]>, [u64; 3]) {
    let (mut hosts, mut total): (BTreeMap<String, [u64; 3]>, [u64; 3]) = Default::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in get(hdfs, &folder, "LISTSTATUS")["FileStatuses"]["FileStatus"].as_array().unwrap() {
            let path = format!("{folder}/{}", entry["pathSuffix"].as_str().unwrap());
            if entry["type"] == "DIRECTORY" {
                folders.push(path);
                continue;
            }
            total[2] += 1;
            let mut of_file = BTreeSet::new();
            for block in
                get(hdfs, &path, "GET_BLOCK_LOCATIONS")["LocatedBlocks"]["locatedBlocks"].as_array().unwrap()
            {
                let bytes = block["block"]["numBytes"].as_u64().unwrap();
                total[0] += 1;
                total[1] += bytes;
                for location in block["locations"].as_array().unwrap() {
                    let host = location["hostName"].as_str().unwrap().to_owned();
                    let counts = hosts.entry(host.clone()).or_default();
                    counts[0] += 1;
                    counts[1] += bytes;
                    of_file.insert(host);
                }
            }
            for host in of_file {
                hosts.entry(host).or_default()[2] += 1;
            }
        }
    }
    (hosts, total)
}

pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

pub fn summed(nodes: &Nodes, field: &str) -> u64 {
    nodes.values().map(|value| number(value, field)).sum()
}

/// A server that answers each request line as it is told to, with all that belongs to an answer. It ends with the
/// tests.
pub fn server(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let Some(first) = lines.next() else { return };
                let _headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                answer(&first, &mut stream);
            });
        }
    });
    address
}

pub fn reply(stream: &mut TcpStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    // The client may have left.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}
