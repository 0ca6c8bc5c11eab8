//! The thread behind a worker: it answers, refuses work when its queue is full, comes back, and stops.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::Place;
use estimand_store::{Connection, Error, Worker};
use estimand_testkit::databases::{Kind, Server};
use estimand_testkit::wait;

fn on_a_runtime<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn work_is_done_in_order_and_its_result_comes_back() {
    for place in [Place::sqlite(), Place::postgres(), Place::mariadb()] {
        on_a_runtime(async {
            let worker = Worker::start(place.url.clone(), "store");
            worker.run(Connection::migrate).await.unwrap();
            for epoch in 1..=3 {
                let claim = worker.run(|connection| connection.claim("data", 0)).await.unwrap();
                assert_eq!(claim.epoch, epoch);
            }
        });
    }
}

#[test]
fn too_much_is_refused_and_a_stop_tells_those_who_wait() {
    let place = Place::sqlite();
    on_a_runtime(async {
        let worker = Arc::new(Worker::start(place.url.clone(), "store"));
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let first = Arc::clone(&worker);
        let first = tokio::spawn(async move {
            let work = move |_: &mut Connection| {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(7)
            };
            first.run(work).await
        });
        has_begun.recv().unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            let mut next = Box::pin(worker.run(|connection| connection.ping()));
            match futures_now(next.as_mut()) {
                None => waiting.push(next),
                Some(result) => break result,
            }
        };
        assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
        assert!(waiting.len() >= 100);
        go_on.send(()).unwrap();
        assert_eq!(first.await.unwrap().unwrap(), 7);
        for waited in waiting {
            waited.await.unwrap();
        }
    });
}

/// The output of a future, if it is ready at one poll.
fn futures_now<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_panic_costs_only_the_work_that_panicked() {
    let place = Place::sqlite();
    on_a_runtime(async {
        let worker = Worker::start(place.url.clone(), "store");
        let panicked = worker.run::<()>(|_| panic!("a bug of the test")).await;
        assert!(matches!(panicked, Err(Error::Busy { .. })), "{panicked:?}");
        worker.run(Connection::migrate).await.unwrap();
    });
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let server = Server::start_own(Kind::Postgres);
    let url = estimand_store::StoreUrl::parse(&server.fresh_url()).unwrap();
    on_a_runtime(async {
        let worker = Worker::start(url, "store");
        worker.run(Connection::migrate).await.unwrap();
        server.kill9();
        for _ in 0..3 {
            let lost = worker.run(Connection::ping).await;
            assert!(matches!(lost, Err(Error::Connection { .. })), "{lost:?}");
        }
        server.start_again();
        wait::until(Duration::from_secs(20), "the worker to open the store again", || {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(worker.run(Connection::ping)).ok()
            })
        });
    });
}
