//! Against real servers, well behaved and not.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::KIND;
use super::accept::Accept;
use crate::{Failure, Reading, Surroundings, make};

const LONG: Duration = Duration::from_secs(20);

/// A server that does something with each of a number of requests; it gets the first line and the rest of the head.
fn server(
    requests: usize,
    serve: impl Fn(&str, &str, TcpStream) + Send + 'static,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for _ in 0..requests {
            let stream = listener.accept().unwrap().0;
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            serve(&first, &head.join("\n"), stream);
        }
    });
    (base, thread)
}

fn answer(mut stream: TcpStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
}

/// Time that a machine which is busy with other tests may add.
const SLACK: Duration = Duration::from_secs(10);

fn ask(params: &[(&str, &str)], time: Duration) -> Result<Value, String> {
    let params: BTreeMap<String, Value> =
        params.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let mut http = make(&KIND, &params, &Surroundings::default())?;
    let until = Instant::now() + time;
    let reading = http.collect(until);
    assert!(Instant::now() <= until + SLACK, "it took longer than it may");
    match reading {
        Ok(Reading::Here(value)) => Ok(value),
        Ok(Reading::PerNode(_)) => panic!("it is of this node"),
        Err(Failure::Failed(why) | Failure::Refused(why)) => Err(why),
        Err(Failure::NotHere(_)) => panic!("there is always something to ask"),
    }
}

/// The reading of one response with a body.
fn asked(status: &'static str, body: impl Into<Vec<u8>>, more: &[(&str, &str)]) -> Result<Value, String> {
    let body = body.into();
    let (base, thread) = server(1, move |_, _, mut stream| {
        // The other side may hang up before it has read all.
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    });
    let mut params = vec![("url", base.as_str())];
    params.extend_from_slice(more);
    let value = ask(&params, LONG);
    thread.join().unwrap();
    value
}

#[test]
fn a_value_comes_with_its_time_and_size() {
    let value = asked("200 OK", r#"{"jobs":[{"state":"up","n":9007199254740993}]}"#, &[]).unwrap();
    assert_eq!(value["value"], json!({"jobs": [{"state": "up", "n": 9_007_199_254_740_993_u64}]}));
    assert_eq!((&value["status"], &value["bytes"]), (&json!(200), &json!(46)));
    assert!(value["seconds"].as_f64().unwrap() < 20.0);
}

#[test]
fn a_pointer_leads_into_the_body_or_says_that_it_does_not() {
    let body = r#"{"a/b":{"c":[1,2,3]}}"#;
    assert_eq!(asked("200 OK", body, &[("pointer", "/a~1b/c/1")]).unwrap()["value"], 2);
    let why = asked("200 OK", body, &[("pointer", "/a/b")]).unwrap_err();
    assert!(why.contains("nothing at `/a/b`"), "{why}");
    let why = asked("200 OK", "<html>\n down </html>", &[("pointer", "/a")]).unwrap_err();
    assert!(why.contains("no JSON") && why.ends_with("<html> down </html>"), "{why}");
}

#[test]
fn a_body_that_is_no_json_is_text() {
    assert_eq!(asked("200 OK", "plenty\n", &[]).unwrap()["value"], "plenty\n");
    assert_eq!(asked("200 OK", "", &[]).unwrap()["value"], "");
    assert_eq!(asked("200 OK", vec![b'a', 0xff], &[]).unwrap()["value"], "a\u{fffd}");
    let deep = "[".repeat(100_000);
    assert!(asked("200 OK", deep, &[("pointer", "/0")]).unwrap_err().contains("no JSON"));
}

const PAGE: &str = "# HELP node_load1 1m load average.\n# TYPE node_load1 gauge\nnode_load1 0.5\n\
    # TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{cpu=\"0\"} 9007199254740993\nup 1\n";

#[test]
fn the_page_of_an_exporter_is_a_value() {
    let value = asked("200 OK", PAGE, &[("format", "prometheus")]).unwrap();
    let load = json!({"type": "gauge", "help": "1m load average.", "value": 0.5});
    assert_eq!(value["value"]["node_load1"], load);
    assert_eq!(
        value["value"]["node_cpu_seconds_total"]["series"]["cpu=\"0\""],
        json!(9_007_199_254_740_993_u64)
    );
    assert_eq!(value.get("leftOut"), None);
    let more = [("format", "prometheus"), ("prefix", "up, node_load"), ("pointer", "/node_load1/value")];
    assert_eq!(asked("200 OK", PAGE, &more).unwrap()["value"], 0.5);
    let broken = format!("{PAGE}node_load5 much\n");
    let value = asked("200 OK", broken, &[("format", "prometheus")]).unwrap();
    assert!(value["leftOut"].as_str().unwrap().starts_with("1 record was left out"), "{value}");
}

/// The part of a page that is taken fits, however large the page is.
#[test]
fn a_prefix_takes_a_part_of_a_page_that_is_too_large_for_a_value() {
    let mut page = PAGE.to_owned();
    for number in 0..9_000 {
        page.push_str(&format!("go_gc_duration_seconds{{quantile=\"{number}\"}} {number}\n"));
    }
    let why = asked("200 OK", page.clone(), &[("format", "prometheus")]).unwrap_err();
    assert!(why.contains("64 KiB") || why.contains("bytes"), "{why}");
    let value = asked("200 OK", page.clone(), &[("format", "prometheus"), ("prefix", "node_load")]).unwrap();
    assert_eq!(value["value"].as_object().unwrap().keys().collect::<Vec<_>>(), ["node_load1"]);
    assert_eq!(value["value"]["node_load1"]["help"], "1m load average.");
    let why = asked("200 OK", page, &[("format", "prometheus"), ("prefix", "nope")]).unwrap_err();
    assert!(why.ends_with("none of its samples begins with `prefix`"), "{why}");
}

#[test]
fn other_formats_are_read_and_unknown_ones_refused() {
    let value = asked("200 OK", "a,b\n1,2\n", &[("format", "csv")]).unwrap();
    assert_eq!(value["value"]["rows"], json!([{"a": 1, "b": 2}]));
    let url = ("url", "http://127.0.0.1:9/");
    let why = ask(&[url, ("format", "nagios")], LONG).unwrap_err();
    assert!(why.contains("`format` is `nagios`; expected one of prometheus, influx, csv, logfmt"), "{why}");
    let why = ask(&[url, ("prefix", "a")], LONG).unwrap_err();
    assert!(why.contains("`prefix` needs `format` to be `prometheus`"), "{why}");
}

#[test]
fn another_status_is_a_failure_that_shows_the_first_words() {
    let why = asked("503 Busy", "come\nback  later", &[]).unwrap_err();
    assert!(why.ends_with(": status 503, expected 2xx: come back later"), "{why}");
    let value = asked("404 None", "[]", &[("accept_status", "200, 404")]).unwrap();
    assert_eq!((&value["status"], &value["value"]), (&json!(404), &json!([])));
    let why = asked("200 OK", "", &[("accept_status", "404,5xx")]).unwrap_err();
    assert!(why.ends_with("status 200, expected 404, 5xx"), "{why}");
}

#[test]
fn bodies_and_values_have_a_most() {
    let long = format!("[{}\"end\"]", "1,".repeat(40_000));
    let why = asked("200 OK", long.clone(), &[]).unwrap_err();
    assert!(why.contains("more than 64512") && why.contains("`pointer`"), "{why}");
    assert_eq!(asked("200 OK", long, &[("pointer", "/40000")]).unwrap()["value"], "end");
    let why = asked("200 OK", vec![b' '; 1024 * 1024 + 1], &[]).unwrap_err();
    assert!(why.contains("more than 1048576 bytes"), "{why}");
}

#[test]
fn a_body_without_an_end_is_not_read_to_it() {
    let (base, thread) = server(1, |_, _, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
        while stream.write_all(chunk.as_bytes()).is_ok() {}
    });
    assert!(ask(&[("url", &base)], LONG).unwrap_err().contains("more than 1048576 bytes"));
    thread.join().unwrap();
}

#[test]
fn servers_that_drip_or_say_nothing_run_into_the_time() {
    let late = "no whole answer within ";
    std::thread::scope(|scope| {
        for (head, expected) in [
            ("", late),
            ("HTTP/1.1 200 OK\r\n", late),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", late),
            ("HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n", "status 500, expected 2xx"),
        ] {
            scope.spawn(move || {
                let (base, thread) = server(1, |_, _, stream| drip(head, stream));
                let why = ask(&[("url", &base)], Duration::from_secs(2)).unwrap_err();
                assert!(why.contains(expected), "{head:?}: {why}");
                thread.join().unwrap();
            });
        }
    });
}

/// A letter now and then after a beginning, if there is one, until the other side hangs up.
fn drip(head: &str, mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    while !stream.read(&mut [0; 8]).is_ok_and(|count| count == 0) {
        if !head.is_empty() && stream.write_all(b"x").is_err() {
            return;
        }
    }
}

#[test]
fn connections_that_end_early_are_failures() {
    let (base, thread) = server(2, |first, _, mut stream| {
        if first.contains("/half") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
    });
    for path in ["/half", "/none"] {
        let why = ask(&[("url", &format!("{base}{path}"))], LONG).unwrap_err();
        assert!(why.starts_with(&format!("{base}{path}: ")), "{why}");
    }
    thread.join().unwrap();
    // An address of its own, on which no other test opens the port meanwhile.
    let closed = TcpListener::bind("127.77.0.1:0").unwrap().local_addr().unwrap();
    let why = ask(&[("url", &format!("http://{closed}/"))], LONG).unwrap_err();
    assert!(why.contains("refused"), "{why}");
}

#[test]
fn redirects_are_followed_to_a_fifth() {
    let hop = |first: &str, _: &str, mut stream: TcpStream| {
        let left: u32 = first.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if left == 0 {
            return answer(stream, "200 OK", b"7");
        }
        let head = format!(
            "HTTP/1.1 302 On\r\nLocation: /{}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            left - 1
        );
        stream.write_all(head.as_bytes()).unwrap();
    };
    let (base, thread) = server(6, hop);
    assert_eq!(ask(&[("url", &format!("{base}/5"))], LONG).unwrap()["value"], 7);
    thread.join().unwrap();
    let (base, thread) = server(6, hop);
    let why = ask(&[("url", &format!("{base}/9"))], LONG).unwrap_err();
    assert!(why.contains("redirect"), "{why}");
    thread.join().unwrap();
}

#[test]
fn secrets_in_the_url_go_to_its_server_alone() {
    let (base, thread) = server(1, |first, head, stream| {
        assert_eq!(first, "GET /x?key=secret HTTP/1.1");
        assert!(head.to_ascii_lowercase().contains("authorization: basic bwu6agf0y2hldhq="), "{head}");
        answer(stream, "401 No", b"");
    });
    let url = format!("{}/x?key=secret", base.replace("http://", "http://me:hatchett@"));
    let why = ask(&[("url", &url)], LONG).unwrap_err();
    assert_eq!(why, format!("{base}/x: status 401, expected 2xx"));
    thread.join().unwrap();
}

#[test]
fn one_collector_asks_again_and_again_over_fresh_connections() {
    let (base, thread) = server(3, |_, _, stream| answer(stream, "200 OK", b"1"));
    let params = BTreeMap::from([("url".to_owned(), json!(base))]);
    let mut http = make(&KIND, &params, &Surroundings::default()).unwrap();
    for _ in 0..3 {
        assert!(http.collect(Instant::now() + LONG).is_ok());
    }
    thread.join().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(http) });
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    for url in ["", "x", "ftp://h/", "file:///etc/passwd", "http://"] {
        assert!(ask(&[("url", url)], LONG).is_err(), "{url}");
    }
    assert!(ask(&[("url", "http://h/"), ("pointer", "a")], LONG).unwrap_err().contains("begins with"));
    for wrong in ["", "ok", "99", "600", "2x", "9xx", "200,,201", "-1xx"] {
        assert!(Accept::parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Accept::parse(" 2xx,404 ").unwrap().to_string(), "2xx, 404");
}
