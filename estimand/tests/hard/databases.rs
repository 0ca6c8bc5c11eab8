//! Databases that hang without closing a connection, and one that is slower than the writes.

use std::time::{Duration, Instant};

use estimand_testkit::databases::{self, Server};
use estimand_testkit::load::Load;
use estimand_testkit::process::{Estimand, estimand, free_port};
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::{expect_refused, is_long, long_or, put, side_by_side, until_taken};

/// A service whose connections to the database go through a proxy.
fn behind_proxy(server: &Server) -> (Proxy, Estimand) {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let direct = format!(":{}/", server.port());
    let store = server.fresh_url().replace(&direct, &format!(":{}/", proxy.address().port()));
    let up = estimand().args(["up", "--no-agent"]).port(free_port()).store(store).start();
    (proxy, up)
}

/// It gets nothing and says nothing, or it gets everything and says nothing.
fn hangs(server: &Server, first: usize) {
    let (proxy, mut up) = behind_proxy(server);
    let load = Load::new(up.base_url());
    let reads = load.run_during(true, || {
        for round in first..first + long_or(20, 1) {
            load.wait_for_progress(100);
            match round % 2 {
                0 => proxy.pause(),
                _ => proxy.pause_only(Way::ToClient),
            }
            let began = Instant::now();
            // Neither waits for ever, and both say what became of it.
            let registration = json!({"dataName": format!("r{round}"), "cmd": "true", "max-Time": 5});
            std::thread::scope(|scope| {
                scope.spawn(|| expect_refused(&put(&up.http(), "during", round)));
                scope.spawn(|| expect_refused(&up.http().send_json("POST", "/api/registry", &registration)));
            });
            println!("{:?}: refused after {:?}", server.kind(), began.elapsed());
            load.check(&up.http());
            proxy.resume();
            load.wait_for_everyone();
            until_taken(&up.http(), "afterwards");
        }
    });
    println!("{reads} reads were answered throughout, {} writes were refused", load.refused());
    assert!(reads > 0 && load.refused() > 0);
    load.check(&up.http());
    assert!(up.exited().is_none(), "{}", up.stderr_tail());
    if !is_long() {
        return;
    }
    // A hanging database does not hold up an orderly stop either, for long.
    proxy.pause();
    let began = Instant::now();
    up.terminate();
    println!("ended after {:?} with a database that hangs", began.elapsed());
    proxy.resume();
    up.restart_on_same_port();
    load.check(&up.http());
}

#[test]
fn databases_that_hang_or_are_slow_harm_no_reader_and_lose_nothing() {
    side_by_side(&[
        (
            "a_postgres_that_hangs_harms_no_reader_and_loses_nothing",
            a_postgres_that_hangs_harms_no_reader_and_loses_nothing as fn(),
        ),
        (
            "a_mariadb_that_hangs_harms_no_reader_and_loses_nothing",
            a_mariadb_that_hangs_harms_no_reader_and_loses_nothing as fn(),
        ),
        ("a_slow_database_is_shared_by_those_who_wait", a_slow_database_is_shared_by_those_who_wait as fn()),
    ]);
}

fn a_postgres_that_hangs_harms_no_reader_and_loses_nothing() {
    hangs(databases::postgres(), 0);
}

fn a_mariadb_that_hangs_harms_no_reader_and_loses_nothing() {
    hangs(databases::mariadb(), 1);
}

/// Each commit takes long; what waits meanwhile shares the next one.
fn a_slow_database_is_shared_by_those_who_wait() {
    let (proxy, up) = behind_proxy(databases::postgres());
    let load = Load::new(up.base_url());
    let reads = load.run_during(true, || {
        load.wait_for_everyone();
        proxy.set_latency(Duration::from_millis(100));
        for _ in 0..long_or(50, 3) {
            load.wait_for_everyone();
        }
    });
    println!("{reads} reads were answered with a slow database");
    load.check(&up.http());
    proxy.set_latency(Duration::ZERO);
    wait::until(PATIENCE, "the delay to be over", || {
        let began = Instant::now();
        put(&up.http(), "quick", 1);
        (began.elapsed() < Duration::from_millis(300)).then_some(())
    });
}
