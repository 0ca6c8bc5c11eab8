//! How a service ends, and where it may not begin.

#![allow(clippy::unwrap_used)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use estimand_runtime::Metrics;
use estimand_runtime::Readiness;
use estimand_web::server::ServerError;
use estimand_web::{OpenAdmission, Routes, Server, ServerOptions, Site};
use support::{Running, read_to_end, read_until};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_stop_ends_streams_properly_and_then_the_tasks() {
    let service = Running::start();
    let ended = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&ended);
    service.tasks.spawn("marked", move |stop| {
        let mark = Arc::clone(&mark);
        async move {
            stop.requested().await;
            mark.store(true, Ordering::SeqCst);
        }
    });
    let mut streaming = service.connect().await;
    streaming.write_all(b"GET /stream HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    read_until(&mut streaming, "first;").await;

    let readiness = service.readiness.clone();
    service.trigger.request();
    let rest = read_to_end(&mut streaming).await;
    assert!(rest.contains("last;") && rest.ends_with("0\r\n\r\n"), "the stream was cut off: {rest:?}");
    service.stop().await.unwrap();
    assert!(ended.load(Ordering::SeqCst));
    assert!(readiness.check().unwrap_err()[0].why.contains("going down"));
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let service = Running::start();
    let mut idle = service.connect().await;
    idle.write_all(b"GET /things HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    read_until(&mut idle, "all").await;
    let address = service.address;
    service.stop().await.unwrap();
    assert_eq!(read_to_end(&mut idle).await, "");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the address is still listened on");
}

#[tokio::test]
async fn what_does_not_end_is_cut_off_at_the_deadline() {
    let service = Running::start();
    let mut endless = service.connect().await;
    endless.write_all(b"GET /endless HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    read_until(&mut endless, "first;").await;
    // From here on the deadline is all that anything waits for.
    tokio::time::pause();
    service.stop().await.unwrap();
    tokio::time::resume();
    let rest = read_to_end(&mut endless).await;
    assert!(!rest.ends_with("0\r\n\r\n"), "the stream looks whole: {rest:?}");
}

#[tokio::test]
async fn a_task_that_does_not_listen_is_named() {
    let service = Running::start();
    service.tasks.spawn("deaf", |_| std::future::pending());
    tokio::time::pause();
    let error = service.stop().await.unwrap_err();
    assert!(error.to_string().contains("deaf"), "{error}");
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_to_be_asked_for() {
    let site = || {
        let admission = Arc::new(OpenAdmission);
        Site::new(Routes::new("test"), admission, Metrics::new(), Readiness::new())
    };
    let mut options = ServerOptions::new(SocketAddr::from(([0, 0, 0, 0], 0)));
    let error = Server::bind(&options, site()).unwrap_err();
    assert!(matches!(error, ServerError::Exposed(_)));
    assert!(error.to_string().contains("--insecure"), "{error}");
    options.insecure = true;
    assert_ne!(Server::bind(&options, site()).unwrap().address().tcp().unwrap().port(), 0);
}
