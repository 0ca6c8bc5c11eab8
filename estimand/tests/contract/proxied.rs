//! Requests that come by a proxy, and answers and bodies that are compressed on their way.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::PATIENCE;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::answers::problem;
use crate::target::Target;

on_every_target!(
    what_came_by_a_proxy_is_not_of_this_machine,
    what_is_open_is_open_whatever_the_host_is_called,
    a_place_is_below_the_path_of_the_proxy,
    a_large_answer_is_compressed_for_whom_asks,
    events_are_compressed_one_by_one,
    a_compressed_body_is_taken_everywhere_but_for_files,
);

const GZIP: (&str, &str) = ("Accept-Encoding", "gzip");

fn nobody(http: &Http) -> Http {
    Http::new(&format!("http://{}", http.authority())).showing(None)
}

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn inflated(answer: &Response) -> Vec<u8> {
    assert_eq!(answer.header("content-encoding"), Some("gzip"), "{answer}");
    let mut plain = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut plain).unwrap();
    plain
}

fn what_came_by_a_proxy_is_not_of_this_machine(target: &Target) {
    let path = "/api/data?dataName=*";
    let nobody = nobody(&target.data);
    nobody.get(path).expect_status(200);
    for header in [("X-Forwarded-For", "192.0.2.7"), ("Forwarded", "for=192.0.2.7"), ("Via", "1.1 proxy")] {
        let refused = problem(&nobody.request("GET", path, &[header], b""), 401);
        assert!(refused["detail"].as_str().unwrap().contains("proxy"), "{refused}");
        target.data.request("GET", path, &[header], b"").expect_status(200);
        nobody.request("GET", "/healthz", &[header], b"").expect_status(200);
    }
    // A token may then do no more than it says.
    let reader = crate::access::token_with(target, &json!({ "role": "read" }));
    let reader = Http::new(&format!("http://{}", target.data.authority())).showing(Some(&reader));
    let write = json!({ "dataName": target.name("proxied"), "nodeName": "n", "dataValue": 1 }).to_string();
    let by_proxy = reader.request("PUT", "/api/data", &[("Via", "1.1 proxy")], write.as_bytes());
    problem(&by_proxy, 403);
    reader.request("PUT", "/api/data", &[], write.as_bytes()).expect_status(201);
}

fn what_is_open_is_open_whatever_the_host_is_called(target: &Target) {
    for path in ["/", "/healthz", "/readyz", "/openapi.json", "/assets/app.js", "/ping"] {
        let elsewhere = format!("GET {path} HTTP/1.1\r\nHost: estimand.example\r\nConnection: close\r\n\r\n");
        let answer = target.data.raw(elsewhere.as_bytes());
        assert!(matches!(answer.status, 200 | 204), "{path}: {answer}");
    }
}

fn a_place_is_below_the_path_of_the_proxy(target: &Target) {
    let body = |name: &str| json!({ "dataName": name, "cmd": "/bin/true", "max-Time": 60 }).to_string();
    for (prefix, before) in [("/estimand/", "/estimand"), ("//evil.example", "")] {
        let name = target.name("placed");
        let header = ("X-Forwarded-Prefix", prefix);
        let made = target.registry.request("POST", "/api/registry", &[header], body(&name).as_bytes());
        let place = format!("{before}/api/registry/{name}");
        assert_eq!(made.expect_status(201).header("location"), Some(&*place));
    }
}

fn a_large_answer_is_compressed_for_whom_asks(target: &Target) {
    let name = target.name("large");
    target.write(&name, "n1", "x".repeat(20_000));
    target.write(&name, "n2", "y".repeat(20_000));
    for path in [format!("/api/data?dataName={name}"), format!("/api/data/{name}/n1")] {
        let ask = |headers: &[(&str, &str)]| target.data.request("GET", &path, headers, b"");
        let plain = ask(&[]).expect_status(200);
        assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("Accept-Encoding")));
        let packed = ask(&[GZIP]).expect_status(200);
        assert!(packed.body.len() < plain.body.len() / 10, "{} bytes", packed.body.len());
        assert!(inflated(&packed) == plain.body, "{path}");
        // One tag for one content, and a weak one for other bytes.
        let tag = ask(&[("If-None-Match", "\"\"")]).header("etag").unwrap().to_owned();
        let packed = ask(&[GZIP, ("If-None-Match", "\"\"")]);
        assert_eq!(packed.header("etag"), Some(&*format!("W/{tag}")));
        for known in [&tag, packed.header("etag").unwrap()] {
            assert!(ask(&[GZIP, ("If-None-Match", known)]).expect_status(304).body.is_empty());
        }
    }
    let small = target.name("small");
    target.write(&small, "n1", 1);
    let answer = target.data.request("GET", &format!("/api/data/{small}/n1"), &[GZIP], b"");
    assert_eq!((answer.header("content-encoding"), answer.header("vary")), (None, None), "{answer}");
    let figures = target.data.request("GET", "/metrics", &[GZIP], b"").expect_status(200);
    assert!(String::from_utf8(inflated(&figures)).unwrap().contains("estimand_build_info"));
}

fn events_are_compressed_one_by_one(target: &Target) {
    let name = target.name("events");
    target.write(&name, "n1", 1);
    // As nginx asks, unless it is told otherwise: so the body has no chunks.
    let mut stream = TcpStream::connect(&target.data_address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let path = format!("/api/data/watch?dataName={name}");
    let host = &target.data_address;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    for line in ["content-encoding: gzip", "cache-control: no-store", "x-accel-buffering: no"] {
        assert!(head.contains(line), "{head}");
    }
    let mut plain = GzDecoder::new(stream);
    let mut said = String::new();
    let mut until = |part: &str| {
        while !said.contains(part) {
            let mut bytes = [0; 64];
            let length = plain.read(&mut bytes).unwrap();
            assert_ne!(length, 0, "the stream ended without {part:?}: {said}");
            said.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
    };
    until("event: snapshot");
    target.write(&name, "n1", 2);
    until("event: change");
}

fn a_compressed_body_is_taken_everywhere_but_for_files(target: &Target) {
    let packed = ("Content-Encoding", "gzip");
    let name = target.name("packed");
    let write = json!({ "dataName": name, "nodeName": "n", "dataValue": 1 }).to_string();
    target.data.request("PUT", "/api/data", &[packed], &gzip(write.as_bytes())).expect_status(201);
    let registration = json!({ "dataName": name, "cmd": "/bin/true", "max-Time": 60 }).to_string();
    target
        .registry
        .request("POST", "/api/registry", &[packed], &gzip(registration.as_bytes()))
        .expect_status(201);
    // A body that grows beyond the limit, and bytes that are no gzip.
    problem(&target.data.request("PUT", "/api/data", &[packed], &gzip(&vec![b' '; 32 << 20])), 413);
    problem(&target.data.request("PUT", "/api/data", &[packed], b"none"), 400);
    problem(&target.data.request("PUT", "/api/data", &[("Content-Encoding", "br")], b"x"), 415);
    let file = format!("/api/files/content?path={name}");
    problem(&target.files.request("PUT", &file, &[packed], &gzip(b"text")), 415);
    target.files.request("PUT", &file, &[("Content-Encoding", "identity")], b"text").expect_status(200);
}
