//! Pages of other origins in a browser, and what such a page is told.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Reply, Running};

const PAGE: &str = "https://pages.example";

fn of(origin: &str) -> String {
    format!("Origin: {origin}\r\n")
}

/// A browser's question whether a page may send a request.
async fn preflight(service: &Running, path: &str, origin: &str) -> Reply {
    let headers = of(origin)
        + "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: authorization,content-type\r\n";
    service.send("OPTIONS", path, &headers, b"").await
}

fn cors_headers(reply: &Reply) -> Vec<&String> {
    reply.headers.keys().filter(|name| name.starts_with("access-control-")).collect()
}

#[tokio::test]
async fn an_allowed_page_reads_and_writes_and_is_shown_errors() {
    let service = Running::allowing(&["http://localhost:3000", PAGE]);
    for (method, path, status) in
        [("GET", "/things", 200), ("PUT", "/things", 200), ("GET", "/nowhere", 404), ("POST", "/things", 405)]
    {
        let reply = service.send(method, path, &of(PAGE), b"x").await;
        assert_eq!(reply.status, status, "{method} {path}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(PAGE));
        assert!(reply.header("access-control-expose-headers").unwrap().contains("ETag"), "{reply:?}");
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert_eq!(reply.header("vary"), Some("Origin"));
    }
    let panicked = service.send("GET", "/panic", &of(PAGE), b"").await;
    assert_eq!((panicked.status, panicked.header("access-control-allow-origin")), (500, Some(PAGE)));
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_browser_that_asks_for_an_allowed_page_is_answered() {
    let service = Running::allowing(&[PAGE]);
    // A page whose request leads nowhere is to see that it does.
    for path in ["/things", "/nowhere"] {
        let reply = preflight(&service, path, PAGE).await;
        assert_eq!((reply.status, reply.body.as_str()), (204, ""));
        assert_eq!(reply.header("access-control-allow-origin"), Some(PAGE));
        assert!(reply.header("access-control-allow-methods").unwrap().contains("PUT"));
        let headers = reply.header("access-control-allow-headers").unwrap();
        for name in ["Authorization", "Content-Type", "If-None-Match"] {
            assert!(headers.contains(name), "{headers}");
        }
    }
    let plain = service.send("OPTIONS", "/things", &of(PAGE), b"").await;
    assert_eq!(plain.status, 405, "no browser asks so");
    service.stop().await.unwrap();
}

#[tokio::test]
async fn other_pages_are_told_nothing_and_change_nothing() {
    let service = Running::allowing(&[PAGE]);
    for origin in ["https://evil.example", "http://pages.example", "https://pages.example.evil", "null"] {
        let read = service.send("GET", "/things", &of(origin), b"").await;
        assert_eq!((read.status, read.header("vary")), (200, Some("Origin")));
        let written = service.send("PUT", "/things", &of(origin), b"x").await;
        assert_eq!(written.problem().status, 403, "{origin}");
        let asked = preflight(&service, "/things", origin).await;
        assert_eq!(asked.problem().status, 405, "{origin}");
        for reply in [read, written, asked] {
            assert_eq!(cors_headers(&reply), Vec::<&String>::new(), "{origin}");
        }
    }
    let twice = service.send("PUT", "/things", &(of(PAGE) + &of(PAGE)), b"x").await;
    assert_eq!((twice.status, cors_headers(&twice)), (403, Vec::new()));
    let none = service.send("PUT", "/things", "", b"x").await;
    assert_eq!((none.status, cors_headers(&none)), (200, Vec::new()));
    service.stop().await.unwrap();
}

#[tokio::test]
async fn no_page_is_allowed_unless_that_is_said() {
    let service = Running::start();
    let read = service.send("GET", "/things", &of(PAGE), b"").await;
    assert_eq!((read.status, read.header("vary"), cors_headers(&read)), (200, None, Vec::new()));
    assert_eq!(preflight(&service, "/things", PAGE).await.problem().status, 405);
    assert_eq!(service.send("PUT", "/things", &of(PAGE), b"x").await.problem().status, 403);
    service.stop().await.unwrap();
}
