//! The answers that every service gives, over real connections.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Reply, Running};

#[tokio::test]
async fn an_unknown_path_says_where_the_description_is() {
    let service = Running::start();
    let problem = service.get("/nowhere").await.problem();
    assert_eq!((problem.status, problem.kind.as_str()), (404, "not-served"));
    assert!(problem.detail.contains("/nowhere") && problem.detail.contains("/openapi.json"), "{problem}");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn an_unknown_method_says_which_are_known() {
    let service = Running::start();
    for path in ["/things", "/things/"] {
        let reply = service.send("POST", path, "", b"x").await;
        assert_eq!(reply.header("allow"), Some("GET, HEAD, PUT"));
        assert_eq!(reply.problem().status, 405);
    }
    service.stop().await.unwrap();
}

/// Nor does it fill the log: see `access_log`.
#[tokio::test]
async fn a_method_of_any_length_is_not_said_back_whole() {
    let service = Running::start();
    let reply = service.send(&"G".repeat(60_000), "/things", "", b"").await;
    assert_eq!(reply.problem().status, 405);
    assert!(reply.body.len() < 1000, "{} bytes", reply.body.len());
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_slash_before_the_query_is_accepted() {
    let service = Running::start();
    for target in ["/things?name=a%20b", "/things/?name=a+b"] {
        let reply = service.get(target).await;
        assert_eq!((reply.status, reply.body.as_str()), (200, "a b"), "{target}");
    }
    assert_eq!(service.send("DELETE", "/things/7/", "", b"").await.problem().status, 404);
    service.stop().await.unwrap();
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_by_name() {
    let service = Running::start();
    let problem = service.get("/things?nmae=x").await.problem();
    assert_eq!((problem.status, problem.errors[0].field.as_str()), (400, "nmae"));
    assert_eq!(problem.errors[0].expected.as_deref(), Some("name"));
    service.stop().await.unwrap();
}

/// As nginx asks, unless it is told otherwise.
#[tokio::test]
async fn a_client_that_knows_no_chunks_is_sent_none() {
    let service = Running::start();
    for connection in ["", "Connection: keep-alive\r\n"] {
        let head = format!("GET /metrics HTTP/1.0\r\nHost: t\r\n{connection}\r\n");
        let reply = service.raw(head.as_bytes()).await;
        assert_eq!((reply.status, reply.header("transfer-encoding")), (200, None));
        assert!(reply.body.starts_with("# HELP "), "{reply:?}");
    }
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_body_is_refused_where_none_is_taken() {
    let service = Running::start();
    assert_eq!(service.send("POST", "/node", "", b"").await.body, "ok");
    let chunked = b"POST /node HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    for reply in [service.send("POST", "/node", "", b"{}").await, service.raw(chunked).await] {
        let problem = reply.problem();
        assert_eq!((problem.status, problem.errors[0].field.as_str()), (400, "body"));
    }
    service.stop().await.unwrap();
}

#[tokio::test]
async fn bodies_are_limited_and_must_be_whole() {
    let service = Running::start();
    let fits = service.send("PUT", "/things", "", &[b'x'; support::BODY_LIMIT]).await;
    assert_eq!((fits.status, fits.body.as_str()), (200, "127.0.0.1 sent 16"));
    assert_eq!(service.send("PUT", "/things", "", b"").await.body, "127.0.0.1 sent 0");

    let large = service.send("PUT", "/things", "", &[b'x'; support::BODY_LIMIT + 1]).await;
    let problem = large.problem();
    assert_eq!(problem.status, 413);
    assert!(problem.detail.contains("16 bytes"), "{problem}");

    let chunked = b"PUT /things HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n\
                    a\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n";
    assert_eq!(service.raw(chunked).await.problem().status, 413);

    let short = service.raw(b"PUT /things HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc").await;
    let problem = short.problem();
    assert_eq!((problem.status, problem.errors[0].field.as_str()), (400, "body"));
    assert!(problem.detail.contains("cut short"), "{problem}");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_sane_request_id_comes_back_and_another_is_replaced() {
    let service = Running::start();
    let own = service.send("GET", "/things", "X-Request-Id: abc.1\r\n", b"").await;
    assert_eq!(own.header("x-request-id"), Some("abc.1"));
    let failed = service.send("GET", "/nowhere", "X-Request-Id: abc.2\r\n", b"").await;
    assert_eq!(failed.problem().request_id.as_deref(), Some("abc.2"));

    assert_eq!(service.get("/things").await.header("x-request-id"), None);
    let mad = service.send("GET", "/nowhere", "X-Request-Id: a b\"c\r\n", b"").await;
    let made = mad.problem().request_id.unwrap();
    assert_ne!(made, "a b\"c");
    assert_ne!(service.get("/nowhere").await.problem().request_id.unwrap(), made);
    service.stop().await.unwrap();
}

#[tokio::test]
async fn errors_of_the_library_are_problems_too() {
    let service = Running::start();
    // The path's extractor wants a number; the library takes anything else for an unknown path.
    let problem = service.send("DELETE", "/things/seven", "", b"").await.problem();
    assert_eq!(problem.status, 404);
    assert!(problem.detail.contains("seven"), "{problem}");
    assert_eq!(service.get("/teapot").await.problem().status, 418);
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_panicking_handler_is_a_500_and_the_connection_lives_on() {
    use tokio::io::AsyncWriteExt;
    let service = Running::start();
    let mut connection = service.connect().await;
    connection.write_all(b"GET /panic HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    let failed = support::read_until(&mut connection, "}").await;
    assert!(failed.starts_with("HTTP/1.1 500 ") && failed.contains("\"internal\""), "{failed}");
    assert!(!failed.contains("told to"), "{failed}");
    connection.write_all(b"GET /things HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    support::read_until(&mut connection, "all").await;
    drop(connection);
    service.stop().await.unwrap();
}

#[tokio::test]
async fn ready_is_when_every_part_is() {
    let service = Running::start();
    assert_eq!(service.get("/readyz").await.status, 200);
    let (data, store) = (service.readiness.part("data"), service.readiness.part("store"));
    data.not_ready("loading 12,000 of 500,000");
    let reply = service.get("/readyz").await;
    assert_eq!(reply.header("retry-after"), Some("1"));
    let problem = reply.problem();
    assert_eq!(problem.status, 503);
    let parts: Vec<_> = problem.errors.iter().map(|error| (&*error.field, &*error.message)).collect();
    assert_eq!(parts, [("data", "loading 12,000 of 500,000"), ("store", "starting")]);
    data.ready();
    store.ready();
    assert_eq!(service.get("/readyz").await.status, 200);
    assert_eq!(service.get("/healthz").await.status, 200);
    service.stop().await.unwrap();
}

#[tokio::test]
async fn the_description_gives_every_operation_its_role() {
    let service = Running::start();
    let reply = service.get("/openapi.json").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let (_, stop) = estimand_runtime::stop::pair();
    assert_eq!(reply.body, support::routes(stop).openapi_json(), "what is pinned is what is served");

    let document: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(document["openapi"].as_str().unwrap().split('.').take(2).collect::<Vec<_>>(), ["3", "1"]);
    assert_eq!(document["info"]["title"], "Estimand");
    let operations = document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| {
            let role = operation["x-role"].as_str().unwrap_or("MISSING");
            format!("{method} {path} {role}")
        })
    });
    let mut operations: Vec<_> = operations.collect();
    operations.sort();
    assert_eq!(
        operations,
        [
            "delete /things/{name} operate",
            "get /endless read",
            "get /healthz open",
            "get /metrics read",
            "get /openapi.json open",
            "get /panic read",
            "get /readyz open",
            "get /stream read",
            "get /teapot read",
            "get /things read",
            "post /node node",
            "put /things write",
        ]
    );
    assert_eq!(document["paths"]["/things"]["get"]["tags"][0], "things");
    assert!(document["components"]["schemas"]["FieldError"].is_object(), "schemas come with the routes");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn the_figures_are_valid_and_say_what_happened() {
    let service = Running::start();
    service.get("/things").await;
    service.get("/things/?name=x").await;
    service.get("/things?wrong").await;
    service.get("/nowhere").await;
    let Reply { status, body, .. } = service.get("/metrics").await;
    assert_eq!(status, 200);
    check_exposition(&body);
    for line in [
        "estimand_http_requests_total{service=\"test\",method=\"GET\",path=\"/things\",status=\"2xx\"} 2",
        "estimand_http_requests_total{service=\"test\",method=\"GET\",path=\"/things\",status=\"4xx\"} 1",
        "estimand_http_requests_total{service=\"test\",method=\"any\",path=\"(unknown)\",status=\"4xx\"} 1",
        "estimand_http_request_duration_seconds_count{service=\"test\",method=\"GET\",path=\"/things\"} 3",
        "estimand_http_requests_in_flight{service=\"test\",method=\"GET\",path=\"/metrics\"} 0",
    ] {
        assert!(body.lines().any(|found| found == line), "missing {line}\n{body}");
    }
    assert!(body.contains("process_resident_memory_bytes "), "{body}");
    service.stop().await.unwrap();
}

/// Every sample belongs to the family announced last, no family comes twice, labels are closed, values are
/// numbers.
fn check_exposition(text: &str) {
    let mut families = std::collections::BTreeSet::new();
    let mut family = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(announced) = line.strip_prefix("# HELP ") {
            family = announced.split(' ').next().unwrap().to_owned();
            assert!(families.insert(family.clone()), "{family} comes twice");
        } else if let Some(announced) = line.strip_prefix("# TYPE ") {
            let (name, kind) = announced.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap_or_else(|_| panic!("not a number: {line}"));
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let suffix = name.strip_prefix(&*family).unwrap_or_else(|| panic!("{line} is not of {family}"));
            assert!(["", "_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("open labels: {line}"));
            assert_eq!(labels.matches('"').count() % 2, 0, "{line}");
        }
    }
}

#[tokio::test]
async fn what_is_not_http_does_not_reach_the_service() {
    let service = Running::start();
    assert_eq!(service.raw(b"\x16\x03\x01 nonsense\r\n\r\n").await.status, 400);
    assert_eq!(service.get("/things").await.status, 200);
    service.stop().await.unwrap();
}

/// The headers of two answers to the same question, without those of the moment.
fn lasting(reply: &support::Reply) -> Vec<(&String, &String)> {
    reply.headers.iter().filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str())).collect()
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let service = Running::start();
    for (path, status) in
        [("/things?name=a%20b", 200), ("/openapi.json", 200), ("/teapot", 418), ("/panic", 500)]
    {
        let get = service.send("GET", path, "If-None-Match: \"\"\r\nX-Request-Id: a\r\n", b"").await;
        let head = service.send("HEAD", path, "X-Request-Id: a\r\n", b"").await;
        assert_eq!((head.status, head.body.as_str()), (status, ""), "{path}");
        assert_eq!(lasting(&head), lasting(&get), "{path}");
        assert_eq!(head.header("content-length"), Some(&*get.body.len().to_string()), "{path}");
    }
    let nowhere = service.send("HEAD", "/nowhere", "", b"").await;
    assert_eq!((nowhere.status, nowhere.body.as_str()), (404, ""));
    let no_get = service.send("HEAD", "/node", "", b"").await;
    assert_eq!((no_get.status, no_get.header("allow")), (405, Some("POST")));
    service.stop().await.unwrap();
}

/// Nor does its connection take up the bytes of another answer.
#[tokio::test]
async fn head_of_a_stream_ends_at_once() {
    use tokio::io::AsyncWriteExt;
    let service = Running::start();
    let mut connection = service.connect().await;
    for path in ["/endless", "/stream", "/things"] {
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: t\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let head = support::read_until(&mut connection, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    }
    connection.write_all(b"GET /things HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").await.unwrap();
    let all = support::read_to_end(&mut connection).await;
    assert!(all.starts_with("HTTP/1.1 200 ") && all.ends_with("all"), "{all}");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_the_caller_has_is_304_without_a_body() {
    let service = Running::start();
    let asked = |tag: &str| format!("If-None-Match: {tag}\r\n");
    assert_eq!(service.get("/things?name=a").await.header("etag"), None, "nobody asked for it");
    let first = service.send("GET", "/things?name=a", &asked("\"\""), b"").await;
    let tag = first.header("etag").unwrap();
    assert_eq!((first.status, first.body.as_str()), (200, "a"));
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    for method in ["GET", "HEAD"] {
        let again = service.send(method, "/things?name=a", &asked(tag), b"").await;
        assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag)));
        assert_eq!(again.header("content-type"), None);
    }
    let other = service.send("GET", "/things?name=b", &asked(tag), b"").await;
    assert_eq!((other.status, other.body.as_str()), (200, "b"));
    let failed = service.send("GET", "/things?nmae=b", &asked("*"), b"").await;
    assert_eq!(failed.problem().status, 400);
    assert_eq!(service.send("PUT", "/things", &asked("*"), b"x").await.status, 200);
    service.stop().await.unwrap();
}
