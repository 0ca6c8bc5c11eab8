//! Points in InfluxDB's line protocol, as Telegraf and the libraries of InfluxDB send them.

use estimand_testkit::http::{Http, Response};
use serde_json::{Value, json};

use crate::answers::{problem, unknown_input, wrong_field, wrong_input};
use crate::proxied::gzip;
use crate::target::Target;

on_every_target!(
    a_measurement_of_a_host_is_a_value_of_a_node,
    lines_that_are_wrong_are_named_and_the_others_stored,
    a_compressed_push_is_taken_and_bounded,
    a_push_says_how_long_it_holds_and_in_what_unit,
    a_wrong_push_is_explained,
    lines_of_another_protocol_are_named,
    clients_of_version_1_write_and_find_a_server,
    a_refused_push_is_counted,
);

fn push(target: &Target, query: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
    target.data.request("POST", &format!("/api/v2/write?{query}"), headers, body.as_ref())
}

fn value(target: &Target, name: &str, node: &str) -> Value {
    target.data.get(&format!("/api/data/{name}/{node}")).expect_status(200).json()
}

fn a_measurement_of_a_host_is_a_value_of_a_node(target: &Target) {
    let bucket = target.name("telegraf");
    let lines = "cpu,cpu=cpu0,host=n1 idle=1.50 1700000000000000000\n\
                 cpu,cpu=cpu1,host=n1 idle=2 1700000001000000000\n\
                 cpu,cpu=cpu0,host=n2 idle=3\n\
                 mem,host=n1 free=4i,low=true,note=\"a b\" 1700000000000000000\n";
    let answer = push(target, &format!("bucket={bucket}&org=any&precision=ns"), &[], lines);
    assert_eq!((answer.status, answer.text()), (204, ""), "{answer}");
    let cpu = value(target, &format!("{bucket}_cpu"), "n1");
    assert_eq!(cpu["collectedAt"], "2023-11-14T22:13:21.000000Z", "the latest: {cpu}");
    let series = &cpu["dataValue"]["series"];
    assert_eq!(series["cpu=cpu0"]["fields"], json!({"idle": 1.5}), "{cpu}");
    assert_eq!(series["cpu=cpu1"]["fields"], json!({"idle": 2}), "{cpu}");
    let other = value(target, &format!("{bucket}_cpu"), "n2");
    assert_eq!(other["dataValue"]["series"]["cpu=cpu0"]["fields"]["idle"], 3, "{other}");
    let memory = value(target, &format!("{bucket}_mem"), "n1");
    assert_eq!(memory["dataValue"]["fields"], json!({"free": 4, "low": true, "note": "a b"}), "{memory}");
    assert_eq!(memory["validFor"], Value::Null, "{memory}");
    // All of a push are of one revision.
    assert_eq!(cpu["revision"].as_u64().unwrap() + 1, memory["revision"].as_u64().unwrap(), "{cpu} {memory}");
}

fn lines_of_another_protocol_are_named(target: &Target) {
    let bucket = target.name("other");
    for (lines, protocol) in [
        ("servers.a.load 0.5 1700000000\n", "Graphite's plaintext protocol"),
        ("load:0.5|g\n", "StatsD's protocol"),
        ("PUTVAL \"a/load/load\" interval=10 N:0.5\n", "collectd's plain text protocol"),
    ] {
        let refused = problem(&push(target, &format!("bucket={bucket}"), &[], lines), 400);
        let said = refused["errors"][0]["message"].as_str().unwrap();
        assert!(said.contains(protocol) && said.contains("Telegraf"), "{said}");
    }
    let refused = problem(&push(target, &format!("bucket={bucket}"), &[], "nowhere x=1\n"), 400);
    assert!(!refused.to_string().contains("it looks like"), "{refused}");
}

fn lines_that_are_wrong_are_named_and_the_others_stored(target: &Target) {
    let bucket = target.name("partly");
    let lines = "good,host=n1 x=1\nnowhere x=1\nbad,host=n1 x=\n1 of,host=n1 y=2\nno/name,host=n1 x=1\n";
    let refused = problem(&push(target, &format!("bucket={bucket}"), &[], lines), 400);
    let said = refused["errors"][0]["message"].as_str().unwrap();
    for part in [
        "4 records",
        "line 2: `nowhere x=1` says no node: it has no tag `host`",
        "line 3",
        "what else was sent is stored",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(value(target, &format!("{bucket}_good"), "n1")["dataValue"]["fields"]["x"], 1);
    let names = target.data.get(&format!("/api/data?dataName={bucket}_*")).expect_status(200).json();
    assert_eq!(names.as_array().unwrap().len(), 1, "{names}");
}

fn a_compressed_push_is_taken_and_bounded(target: &Target) {
    let bucket = target.name("packed");
    let query = format!("bucket={bucket}");
    let packed = [("Content-Encoding", "gzip")];
    let lines: String = (0..1_000).map(|series| format!("m,host=n1,series={series} x={series}\n")).collect();
    assert_eq!(push(target, &query, &packed, gzip(lines.as_bytes())).status, 204);
    let stored = value(target, &format!("{bucket}_m"), "n1");
    assert_eq!(stored["dataValue"]["series"].as_object().unwrap().len(), 1_000);
    // The inflated body is bounded as a plain one is.
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000);
    problem(&push(target, &query, &packed, bomb), 413);
    wrong_field(&push(target, &query, &packed, b"no gzip"), "body");
    let whole = gzip(b"m,host=n1 x=1");
    wrong_field(&push(target, &query, &packed, &whole[..whole.len() - 4]), "body");
    let refused = problem(&push(target, &query, &[("Content-Encoding", "zstd")], b"x"), 415);
    assert!(refused["detail"].as_str().unwrap().contains("gzip"), "{refused}");
    assert_eq!(value(target, &format!("{bucket}_m"), "n1"), stored);
}

fn a_push_says_how_long_it_holds_and_in_what_unit(target: &Target) {
    for (unit, time) in [
        ("ns", "1700000000000000000"),
        ("us", "1700000000000000"),
        ("ms", "1700000000000"),
        ("s", "1700000000"),
    ] {
        let bucket = target.name("units");
        let query = format!("bucket={bucket}&precision={unit}");
        let holds = [("Estimand-Valid-For", "30s")];
        assert_eq!(push(target, &query, &holds, format!("m,host=n1 x=1 {time}")).status, 204);
        let stored = value(target, &format!("{bucket}_m"), "n1");
        assert_eq!(stored["collectedAt"], "2023-11-14T22:13:20.000000Z", "{unit}: {stored}");
        assert_eq!((&stored["validFor"], &stored["state"]), (&json!(30), &json!("stale")), "{stored}");
    }
}

fn a_wrong_push_is_explained(target: &Target) {
    let line = "m,host=n1 x=1";
    let bucket = target.name("wrong");
    wrong_field(&push(target, "org=o", &[], line), "bucket");
    wrong_input(&push(target, "bucket=a%20b", &[], line), "bucket", "a b", "letter");
    wrong_input(&push(target, &format!("bucket={bucket}&precision=h"), &[], line), "precision", "h", "ns");
    unknown_input(&push(target, &format!("bucket={bucket}&db=x"), &[], line), "db", "bucket");
    for given in ["for ever", "0s", "0"] {
        let answer = push(target, &format!("bucket={bucket}"), &[("Estimand-Valid-For", given)], line);
        wrong_input(&answer, "Estimand-Valid-For", given, "30s");
    }
    wrong_field(&push(target, &format!("bucket={bucket}"), &[], [0x6d, 0xff]), "body");
    let many = format!("m,host=n1 {}x=1", "x=1,".repeat(100_000));
    problem(&push(target, &format!("bucket={bucket}"), &[], many), 413);
    // Nothing but comments is nothing wrong.
    assert_eq!(push(target, &format!("bucket={bucket}"), &[], "# nothing\n").status, 204);
    let bound = format!("{bucket}_m");
    target
        .data
        .send_json("PUT", &format!("/api/bindings/{bound}"), &json!({"to": bucket}))
        .expect_status(200);
    problem(&push(target, &format!("bucket={bucket}"), &[], line), 409);
}

fn clients_of_version_1_write_and_find_a_server(target: &Target) {
    let database = target.name("db");
    let write = |query: &str, body: &str| {
        target.data.request("POST", &format!("/write?{query}"), &[], body.as_bytes())
    };
    for (unit, time) in [("n", "1700000000000000000"), ("u", "1700000000000000"), ("m", "28333333")] {
        let query = format!("db={database}&precision={unit}&rp=autogen&consistency=any");
        assert_eq!(write(&query, &format!("m,host=n1 x=1 {time}")).status, 204, "{unit}");
        let stored = value(target, &format!("{database}_m"), "n1");
        assert!(stored["collectedAt"].as_str().unwrap().starts_with("2023-11-14T22:13"), "{unit}: {stored}");
    }
    wrong_field(&write("precision=s", "m,host=n1 x=1"), "db");
    wrong_field(&write(&format!("db={database}&precision=d"), "m,host=n1 x=1"), "precision");
    unknown_input(&write(&format!("db={database}&p=secret"), "m,host=n1 x=1"), "p", "precision");
    // A client that looks for a server shows no token.
    let nobody = Http::new(&format!("http://{}", target.data.authority())).showing(None);
    for method in ["GET", "HEAD"] {
        let pong = nobody.request(method, "/ping", &[], b"").expect_status(204);
        assert!(pong.header("x-influxdb-version").is_some(), "{pong}");
    }
    assert!(nobody.get("/ping?verbose=true").expect_status(200).json()["version"].is_string());
    assert_eq!(nobody.get("/health").expect_status(200).json()["status"], "pass");
    assert_eq!(nobody.get("/ready").expect_status(200).json()["status"], "ready");
}

fn a_refused_push_is_counted(target: &Target) {
    let count = |name: &str, protocol: &str| -> f64 {
        let line = format!("{name}{{protocol=\"{protocol}\"}} ");
        let figures = target.data.get("/metrics").expect_status(200);
        figures.text().lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
    };
    let bucket = target.name("counted");
    for protocol in ["influx", "otlp"] {
        let whole = count("estimand_push_refused_total", protocol);
        let refused = match protocol {
            "influx" => push(target, &format!("bucket={bucket}"), &[], b"\xff"),
            _ => target.data.request("POST", "/v1/metrics", &[("Content-Type", "application/json")], b"7"),
        };
        assert_eq!(refused.status, 400, "{refused}");
        assert!(count("estimand_push_refused_total", protocol) > whole, "{protocol}");
    }
    let lines = count("estimand_push_left_out_total", "influx");
    assert_eq!(push(target, &format!("bucket={bucket}"), &[], "m,host=n1 x=1\nnowhere x=1").status, 400);
    assert!(count("estimand_push_left_out_total", "influx") > lines);
}
