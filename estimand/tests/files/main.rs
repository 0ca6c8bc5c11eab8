//! Files, sent to a real service and fetched from it, in pieces, over sockets, and by the command line.

#![allow(clippy::unwrap_used)]

mod closed;
mod shares;
mod sharing;
mod web_socket;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use estimand_testkit::disk::Disk;
use estimand_testkit::http::{Http, Response};
use estimand_testkit::process::{self, Estimand, free_port};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Files {
    service: Estimand,
    http: Http,
    /// Here they are on disk.
    folder: TempDir,
}

impl Files {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("files-").tempdir().unwrap();
        let service = process::estimand().args(["file-service", "--files"]).args([folder.path()]);
        // A certain port, so that a start after a kill finds it free.
        let service = service.port(free_port()).start();
        let http = service.http();
        Files { service, http, folder }
    }

    fn put(&self, query: &str, bytes: &[u8]) -> Response {
        self.http.request("PUT", &format!("/api/files/content?{query}"), &[], bytes)
    }

    fn content(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.http.request("GET", &format!("/api/files/content?path={path}"), headers, b"")
    }

    fn paths(&self, query: &str) -> Vec<String> {
        let page = self.http.get(&format!("/api/files{query}")).expect_status(200).json();
        page["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap().to_owned())
            .collect()
    }

    fn cli(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", self.service.base_url());
        command
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes))
}

/// Bytes without a pattern that repeats soon.
fn some_bytes(count: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

#[test]
fn a_file_is_there_whole_with_its_digest_and_in_ranges() {
    let files = Files::start();
    let bytes = some_bytes(3_000_000);
    let there = files.put("path=data/a.bin", &bytes).expect_status(200).json();
    assert_eq!((&there["size"], &there["sha256"]), (&json!(3_000_000), &json!(sha256(&bytes))));
    assert_eq!(fs::read(files.folder.path().join("data/a.bin")).unwrap(), bytes);
    let whole = files.content("data/a.bin", &[]).expect_status(200);
    assert!(whole.body == bytes && whole.header("content-disposition").unwrap().starts_with("attachment"));
    let etag = whole.header("etag").unwrap();
    let range = [("Range", "bytes=1000000-1000009"), ("If-Range", etag)];
    let part = files.content("data/a.bin", &range).expect_status(206);
    assert_eq!(part.body, bytes[1_000_000..1_000_010]);
    files.content("data/a.bin", &[("If-None-Match", etag)]).expect_status(304);
    files.content("data/a.bin", &[("Range", "bytes=4000000-")]).expect_status(416);
    // Another content takes its place as a whole.
    files.put("path=data/a.bin", b"other").expect_status(200);
    let part = files.content("data/a.bin", &range).expect_status(200);
    assert_eq!(part.body, b"other");
    let entry = files.http.get("/api/files/entry?path=data/a.bin").expect_status(200).json();
    assert_eq!(entry["sha256"], sha256(b"other"));
    files.put("path=empty", b"").expect_status(200);
    assert_eq!(files.content("empty", &[]).expect_status(200).body, b"");
}

#[test]
fn files_are_listed_found_and_removed() {
    let files = Files::start();
    for path in ["b/two", "b/c/Three", "a"] {
        files.put(&format!("path={path}"), path.as_bytes()).expect_status(200);
    }
    // Files that came by other means are there, too; links and the service's own are not.
    fs::write(files.folder.path().join("b/four"), "4").unwrap();
    symlink("/etc", files.folder.path().join("etc")).unwrap();
    assert_eq!(files.paths(""), ["a", "b"]);
    assert_eq!(files.paths("?recursive=true"), ["a", "b", "b/c", "b/c/Three", "b/four", "b/two"]);
    assert_eq!(files.paths("?folder=b"), ["b/c", "b/four", "b/two"]);
    assert_eq!(files.paths("?contains=thr"), ["b/c/Three"]);
    let page = files.http.get("/api/files?recursive=true&limit=4").expect_status(200).json();
    assert_eq!(page["next"], "b/c/Three");
    assert_eq!(files.paths("?recursive=true&after=b/c/Three"), ["b/four", "b/two"]);
    let remove = |path: &str| files.http.request("DELETE", &format!("/api/files?path={path}"), &[], b"");
    let refused = remove("b").expect_status(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("is not empty"), "{refused}");
    for path in ["b/c/Three", "b/c", "a"] {
        remove(path).expect_status(204);
    }
    remove("a").expect_status(404);
    assert_eq!(files.paths("?recursive=true"), ["b", "b/four", "b/two"]);
}

#[test]
fn an_upload_goes_on_where_it_was_after_a_kill() {
    let mut files = Files::start();
    let bytes = some_bytes(2_500_000);
    let whole = format!("path=big&size={}&sha256={}", bytes.len(), sha256(&bytes));
    let first = files.put(&format!("{whole}&offset=0"), &bytes[..1_200_000]).expect_status(202).json();
    assert_eq!(first, json!({ "received": 1_200_000, "size": 2_500_000 }));
    files.service.kill9();
    files.service.restart_on_same_port();
    files.content("big", &[]).expect_status(404);
    let progress = files.http.get(&format!("/api/files/upload?{whole}")).expect_status(200).json();
    assert_eq!(progress["received"], 1_200_000);
    // Elsewhere no piece is taken, and nothing is lost by that.
    let refused =
        files.put(&format!("{whole}&offset=1300000"), &bytes[1_300_000..]).expect_status(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("offset=1200000"), "{refused}");
    let too_long =
        files.put(&format!("{whole}&offset=1200000"), &vec![0; 1_400_000]).expect_status(400).json();
    assert_eq!(too_long["errors"][0]["field"], "body", "{too_long}");
    let progress = files.http.get(&format!("/api/files/upload?{whole}")).expect_status(200).json();
    let at = usize::try_from(progress["received"].as_u64().unwrap()).unwrap();
    assert!(at >= 1_200_000, "{progress}");
    // Begun anew: of what was sent wrongly nothing stays.
    files.put(&format!("{whole}&offset=0"), &bytes[..2_000_000]).expect_status(202);
    let there = files.put(&format!("{whole}&offset=2000000"), &bytes[2_000_000..]).expect_status(200).json();
    assert_eq!(there["sha256"], sha256(&bytes));
    assert_eq!(files.content("big", &[]).expect_status(200).body, bytes);
    assert_eq!(fs::read_dir(files.folder.path().join(".estimand-uploads")).unwrap().count(), 0);
}

#[test]
fn a_piece_that_breaks_off_is_kept() {
    let files = Files::start();
    let query = "path=x&size=3000000&offset=0";
    let head = format!(
        "PUT /api/files/content?{query} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 3000000\r\n\r\n",
        files.http.authority(),
        estimand_testkit::TOKEN,
    );
    let mut sent = std::net::TcpStream::connect(files.http.authority()).unwrap();
    std::io::Write::write_all(&mut sent, &[head.as_bytes(), &[7; 2_100_000]].concat()).unwrap();
    sent.shutdown(std::net::Shutdown::Write).unwrap();
    let received =
        estimand_testkit::wait::until(estimand_testkit::wait::PATIENCE, "what came to be kept", || {
            let progress = files.http.get("/api/files/upload?path=x&size=3000000").expect_status(200).json();
            progress["received"].as_u64().filter(|received| *received >= 1 << 20)
        });
    assert!(received <= 2_100_000, "{received}");
}

#[test]
fn a_wrong_input_is_told_what_would_be_right() {
    let files = Files::start();
    fs::create_dir(files.folder.path().join("folder")).unwrap();
    fs::write(files.folder.path().join("file"), "f").unwrap();
    symlink("/etc", files.folder.path().join("link")).unwrap();
    let check = |query: &str, status: u16, part: &str| {
        let refused = files.put(query, b"abc").expect_status(status);
        assert!(refused.text().contains(part), "{query}: {refused}");
    };
    check("", 400, "path");
    check("path=../x", 400, "is not the path of a file");
    check("path=a/.estimand-uploads/x", 400, "is not the path of a file");
    check("path=x&offset=5", 400, "the size of the whole file");
    check("path=x&size=2", 400, "2 bytes in all");
    check("path=x&size=-1", 400, "a whole number from 0");
    check("path=x&sha256=12", 400, "64 hexadecimal digits");
    check(&format!("path=x&sha256={}", "0".repeat(64)), 400, &sha256(b"abc"));
    check("path=x&color=red", 400, "color");
    check("path=folder", 409, "is a folder");
    check("path=file/x", 409, "one of the folders of");
    check("path=link/x", 409, "one of the folders of");
    files.content("link/passwd", &[]).expect_status(404);
    files.content("folder", &[]).expect_status(409);
    files.http.get("/api/files?folder=nowhere").expect_status(404);
    assert_eq!(files.paths("?recursive=true"), ["file", "folder"], "nothing else came of all that");
    assert!(!fs::exists("/etc/x").unwrap());
}

#[test]
fn of_many_who_send_one_file_one_has_sent_it_whole() {
    let files = Files::start();
    let contents: Vec<Vec<u8>> = (0..8).map(|n| vec![n; 700_000]).collect();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let sending: Vec<_> =
            contents.iter().map(|bytes| scope.spawn(|| files.put("path=same", bytes).status)).collect();
        sending.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        answers.contains(&200) && answers.iter().all(|status| [200, 409].contains(status)),
        "{answers:?}"
    );
    let there = files.content("same", &[]).expect_status(200).body;
    assert!(contents.contains(&there), "{} bytes of several", there.len());
}

#[test]
fn a_disk_without_room_refuses_and_keeps_what_is_there() {
    let disk = Disk::in_memory("70m");
    let service = process::estimand().args(["file-service", "--files"]).args([disk.path()]).start();
    let http = service.http();
    let put = |path: &str, bytes: &[u8]| {
        http.request("PUT", &format!("/api/files/content?path={path}"), &[], bytes)
    };
    put("small", &some_bytes(100_000)).expect_status(200);
    let refused = put("large", &some_bytes(8 << 20)).expect_status(507).json();
    assert_eq!(refused["type"], "no-room", "{refused}");
    assert_eq!(http.get("/api/files/content?path=small").expect_status(200).body, some_bytes(100_000));
    http.get("/api/files/content?path=large").expect_status(404);
    http.get("/readyz").expect_status(200);
}

#[test]
fn the_command_line_sends_and_fetches() {
    let files = Files::start();
    let place = tempfile::tempdir().unwrap();
    let (here, back) = (place.path().join("train.bin"), place.path().join("back.bin"));
    let bytes = some_bytes(9_000_000);
    fs::write(&here, &bytes).unwrap();
    let (here, back) = (here.to_str().unwrap(), back.to_str().unwrap());
    for _ in 0..2 {
        let sent = run(files.cli(&["files", "put", here, "data/"]));
        assert!(sent.status.success(), "{sent:?}");
        assert!(String::from_utf8_lossy(&sent.stdout).contains("`data/train.bin` is there"), "{sent:?}");
    }
    let listed = run(files.cli(&["files", "list", "data"]));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("data/train.bin"), "{listed:?}");
    let shown: Value =
        serde_json::from_slice(&run(files.cli(&["files", "show", "data/train.bin", "--json"])).stdout)
            .unwrap();
    assert_eq!(shown["sha256"], sha256(&bytes));
    let fetched = run(files.cli(&["files", "get", "data/train.bin", back]));
    assert!(fetched.status.success() && fs::read(back).unwrap() == bytes, "{fetched:?}");
    // A part that is there is gone on with, and does no harm if it is wrong.
    let part = format!("{back}.{}.part", &sha256(&bytes)[..16]);
    fs::write(&part, "wrong").unwrap();
    let fetched = run(files.cli(&["files", "get", "data/train.bin", back]));
    assert_eq!(fetched.status.code(), Some(1), "{fetched:?}");
    fs::write(&part, &bytes[..5_000_000]).unwrap();
    assert!(run(files.cli(&["files", "get", "data/train.bin", back])).status.success());
    assert_eq!(fs::read(back).unwrap(), bytes);
    let printed = run(files.cli(&["files", "get", "data/train.bin", "-"]));
    assert!(printed.stdout == bytes);
    let removed = run(files.cli(&["files", "remove", "--recursive", "data"]));
    assert!(removed.status.success(), "{removed:?}");
    let missing = run(files.cli(&["files", "show", "data/train.bin"]));
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
}
