//! Reservations whose start goes to real workers of Celery, over a real RabbitMQ and a real Redis: they run what was promised,
//! once, in its time and not before, whoever is killed.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use estimand_testkit::celery::CeleryWorker;
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::rabbitmq::RabbitMq;
use estimand_testkit::redis::Redis;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Plane, credits, seconds};

const QUEUE: &str = "promised";
/// A start that nothing kept waiting is published and begun so soon, on a machine that also does other things.
const SOON: f64 = 2.0;

fn plane(broker: &str) -> Plane {
    let plane = Plane::selling(&["--celery-broker", broker]);
    plane.processors();
    plane.grant("ada", "1000");
    plane
}

fn asked(name: &str, from: &str, duration: u64, kwargs: &Value) -> Value {
    let celery = json!({ "task": "app.run", "args": [name], "kwargs": kwargs, "queue": QUEUE });
    json!({ "resources": { "cpu": 0.1 }, "duration": duration, "from": from, "value": 100, "user": "ada", "celery": celery })
}

/// Reserves, as soon as a service that was started a moment ago can.
fn reserve(plane: &Plane, document: &Value) -> Value {
    wait::until_ok(PATIENCE, "it to be reserved", || {
        let answer = plane.reserve(document);
        if answer.status == 503 { Err(answer) } else { Ok(answer.expect_status(201).json()) }
    })
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Waits until so much before or after the start of a reservation.
fn pass_until(reservation: &Value, after: f64) {
    let at = seconds(&reservation["start"]) as f64 + after;
    wait::pass(Duration::from_secs_f64((at - now()).max(0.0)));
}

/// The one note that a run began.
#[track_caller]
fn begun(worker: &CeleryWorker, name: &str) -> Value {
    let noted = all_begun(worker, name);
    assert_eq!(noted.len(), 1, "{noted:?}");
    noted[0].clone()
}

/// The notes that runs began, of which there is one at least.
fn all_begun(worker: &CeleryWorker, name: &str) -> Vec<Value> {
    wait::until_ok(PATIENCE, &format!("{name} to begin"), || {
        let noted = worker.noted(name, "begins");
        if noted.is_empty() { Err(worker.log()) } else { Ok(noted) }
    })
}

fn at(note: &Value) -> f64 {
    note["at"].as_f64().unwrap()
}

/// A worker runs reservations in their time and within their limits.
fn runs_what_was_promised(broker: &str) {
    let worker = CeleryWorker::start(broker, QUEUE, 3);
    let plane = plane(broker);
    let quick = reserve(&plane, &asked("quick", "4s", 10, &json!({})));
    let gentle = reserve(&plane, &asked("gentle", "4s", 5, &json!({ "seconds": 30 })));
    let stubborn = reserve(&plane, &asked("stubborn", "4s", 5, &json!({ "seconds": 30, "stubborn": true })));
    let due = plane.reservation(quick["id"].as_str().unwrap());
    assert_eq!((&due["celery"]["state"], &due["celery"]["publishedAt"]), (&json!("DUE"), &Value::Null));

    let note = begun(&worker, "quick");
    let start = seconds(&quick["start"]) as f64;
    assert!((start..start + SOON).contains(&at(&note)), "{note} {quick}");
    let (hard, soft) = (note["timelimit"][0].as_f64().unwrap(), note["timelimit"][1].as_f64().unwrap());
    assert!(hard <= 10.0 && hard > 10.0 - SOON && (hard * 0.9 - soft).abs() < 0.01, "{note}");
    assert_eq!((&note["id"], &note["eta"]), (&due["celery"]["id"], &Value::Null));
    assert_eq!(note["args"], json!(["quick"]));
    let promised = &note["estimand"];
    assert_eq!((&promised["reservation"], &promised["promise"]), (&quick["id"], &quick["promise"]));
    assert_eq!(promised["nodes"], json!(["n1"]));

    let end = seconds(&gentle["end"]) as f64;
    let soft = wait::until(PATIENCE, "the soft limit", || worker.noted("gentle", "soft").pop());
    assert!(at(&soft) <= end && at(&soft) > end - 1.0, "{soft} {gentle}");
    wait::until(PATIENCE, "the other soft limit", || worker.noted("stubborn", "soft").pop());
    let over = plane.wait_state(stubborn["id"].as_str().unwrap(), "OVER");
    wait::until(PATIENCE, "the hard limit", || worker.log().contains("Hard time limit").then_some(()));
    let lived = at(&worker.noted("stubborn", "lives").pop().unwrap());
    // Its limits count from when it began.
    assert!(lived > at(&soft) && lived < end + SOON, "{lived} {over}");
    wait::pass(Duration::from_secs(1));
    assert_eq!(at(&worker.noted("stubborn", "lives").pop().unwrap()), lived, "nothing of it is left");
    assert_eq!(
        (&over["celery"]["state"], &over["guarantee"]["kept"]),
        (&json!("PUBLISHED"), &json!(true)),
        "{over}"
    );
    assert!(over["celery"]["lateMilliseconds"].as_u64().unwrap() < 1_000, "{over}");
    for name in ["quick", "gentle", "stubborn"] {
        assert_eq!(worker.noted(name, "begins").len(), 1);
    }
    plane.check_money();
}

#[test]
fn a_worker_runs_what_was_promised_over_rabbitmq() {
    let mq = RabbitMq::start();
    runs_what_was_promised(&mq.url());
}

#[test]
fn a_worker_runs_what_was_promised_over_redis() {
    let redis = Redis::start();
    runs_what_was_promised(&redis.url());
}

/// The service is killed around the start, at another moment each time.
fn runs_once_whenever_the_service_is_killed(broker: &str) {
    let worker = CeleryWorker::start(broker, QUEUE, 2);
    let mut plane = plane(broker);
    for (round, after) in [-0.3, -0.01, 0.0, 0.003, 0.01, 0.03, 0.1, 0.4].into_iter().enumerate() {
        let name = format!("round{round}");
        let made = reserve(&plane, &asked(&name, "4s", 30, &json!({})));
        pass_until(&made, after);
        plane.services.kill9();
        plane.services.restart_on_same_port();
        let note = begun(&worker, &name);
        assert!(at(&note) >= seconds(&made["start"]) as f64, "{note} {made}");
        let id = made["id"].as_str().unwrap();
        wait::until_ok(PATIENCE, "it to be told", || {
            let reservation = plane.reservation(id);
            if reservation["celery"]["state"] == "PUBLISHED" { Ok(()) } else { Err(reservation) }
        });
    }
    wait::pass(Duration::from_secs(1));
    for round in 0..8 {
        begun(&worker, &format!("round{round}"));
    }
}

#[test]
fn it_runs_once_whenever_the_service_is_killed_over_rabbitmq() {
    let mq = RabbitMq::start();
    runs_once_whenever_the_service_is_killed(&mq.url());
}

#[test]
fn it_runs_once_whenever_the_service_is_killed_over_redis() {
    let redis = Redis::start();
    runs_once_whenever_the_service_is_killed(&redis.url());
}

/// The broker gets the message, and its answer is lost.
fn runs_once_when_the_confirmation_is_lost(port: u16, url: impl Fn(u16) -> String) {
    let worker = CeleryWorker::start(&url(port), QUEUE, 2);
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], port)));
    let plane = plane(&url(proxy.address().port()));
    let made = reserve(&plane, &asked("lost", "5s", 60, &json!({})));
    pass_until(&made, -0.5);
    proxy.pause_only(Way::ToClient);
    let note = begun(&worker, "lost");
    let id = made["id"].as_str().unwrap();
    assert_eq!(plane.reservation(id)["celery"]["state"], "DUE", "nobody has told it");
    proxy.cut();
    proxy.resume();
    let told = wait::until_ok(PATIENCE, "it to be told", || {
        let reservation = plane.reservation(id);
        if reservation["celery"]["state"] == "PUBLISHED" { Ok(reservation) } else { Err(reservation) }
    });
    // The mark says when it was published, however long that was not known.
    let late = told["celery"]["lateMilliseconds"].as_u64().unwrap() as f64 / 1_000.0;
    assert!(seconds(&made["start"]) as f64 + late <= at(&note), "{told} {note}");
    wait::pass(Duration::from_secs(2));
    begun(&worker, "lost");
}

#[test]
fn it_runs_once_when_the_confirmation_is_lost_over_rabbitmq() {
    let mq = RabbitMq::start();
    runs_once_when_the_confirmation_is_lost(mq.port(), |port| {
        format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
    });
}

#[test]
fn it_runs_once_when_the_confirmation_is_lost_over_redis() {
    let redis = Redis::start();
    runs_once_when_the_confirmation_is_lost(redis.port(), |port| format!("redis://127.0.0.1:{port}/0"));
}

#[test]
fn it_runs_when_rabbitmq_is_restarted_at_its_time() {
    let mq = RabbitMq::start();
    let worker = CeleryWorker::start(&mq.url(), QUEUE, 2);
    let plane = plane(&mq.url());
    for (round, after) in [-1.5, 0.0, 3.0].into_iter().enumerate() {
        let name = format!("round{round}");
        // Longer than RabbitMQ takes to start on a busy machine.
        let made = reserve(&plane, &asked(&name, "5s", 600, &json!({})));
        pass_until(&made, after);
        mq.kill9();
        mq.start_again();
        let id = made["id"].as_str().unwrap();
        let told = wait::until_ok(PATIENCE, "it to be told", || {
            let reservation = plane.reservation(id);
            if reservation["celery"]["state"] == "PUBLISHED" { Ok(reservation) } else { Err(reservation) }
        });
        if after == 0.0 {
            continue;
        }
        let note = all_begun(&worker, &name).remove(0);
        assert!(at(&note) >= seconds(&made["start"]) as f64, "{note} {made}");
        if after < 0.0 {
            let celery = &told["celery"];
            assert!(celery["waitedFor"].as_str().unwrap().contains("RabbitMQ"), "{told}");
            assert!(celery["lateMilliseconds"].as_u64().unwrap() > 500, "{told}");
            let hard = note["timelimit"][0].as_f64().unwrap();
            assert!(hard < 599.5, "the time that was lost is not made up for: {note}");
        }
    }
    wait::pass(Duration::from_secs(2));
    begun(&worker, "round0");
    begun(&worker, "round2");
    // Killed in the very moment of the publication, RabbitMQ may have given a worker what it has not stored, may give it
    // again by itself what it has, and may have stored the mark alone: decision 93.
    let noted = worker.noted("round1", "begins");
    let published = noted.iter().filter(|note| note["redelivered"] == json!(false)).count();
    assert!(published <= 2 && noted.len() <= published + 1, "{noted:?}");
    assert!(noted.iter().all(|note| note["id"] == noted[0]["id"]), "{noted:?}");
}

#[test]
fn a_start_that_no_broker_took_in_time_is_told_and_costs_nothing() {
    let redis = Redis::start();
    let plane = plane(&redis.url());
    let missed = reserve(&plane, &asked("missed", "4s", 3, &json!({})));
    redis.kill9();
    let id = missed["id"].as_str().unwrap();
    wait::until_ok(PATIENCE, "the cause to be told", || {
        let reservation = plane.reservation(id);
        let waits = reservation["celery"]["waitedFor"].as_str().unwrap_or_default().contains("Redis");
        if waits { Ok(()) } else { Err(reservation) }
    });
    pass_until(&missed, 4.0);
    redis.start_again();
    let broken = plane.wait_state(id, "BROKEN");
    assert_eq!(
        (&broken["celery"]["state"], &broken["refund"]),
        (&json!("MISSED"), &missed["price"]),
        "{broken}"
    );
    assert_eq!((&broken["guarantee"]["kept"], plane.balance("ada")), (&json!(false), 1_000_000_000));
    let worker = CeleryWorker::start(&redis.url(), QUEUE, 1);
    let after = reserve(&plane, &asked("after", "4s", 3, &json!({})));
    begun(&worker, "after");
    assert!(worker.noted("missed", "begins").is_empty());
    plane.wait_state(after["id"].as_str().unwrap(), "OVER");
    plane.check_money();
}

#[test]
fn a_late_start_that_no_worker_takes_costs_nothing_and_one_that_is_taken_costs_less() {
    for is_taken in [true, false] {
        let redis = Redis::start();
        let plane = plane(&redis.url());
        let worker = is_taken.then(|| CeleryWorker::start(&redis.url(), QUEUE, 1));
        let made = reserve(&plane, &asked("late", "4s", 30, &json!({})));
        redis.kill9();
        pass_until(&made, 2.0);
        redis.start_again();
        let id = made["id"].as_str().unwrap();
        if let Some(worker) = &worker {
            begun(worker, "late");
        }
        let price = credits(&made["price"]);
        if is_taken {
            let over = plane.wait_state(id, "OVER");
            let late = over["celery"]["lateMilliseconds"].as_u64().unwrap() / 1_000;
            assert!(late >= 2, "{over}");
            assert_eq!(
                (&over["guarantee"]["kept"], &over["guarantee"]["missedSeconds"]),
                (&json!(false), &json!(late))
            );
            assert_eq!(credits(&over["refund"]), price - price * (30 - late) / 30, "{over}");
        } else {
            let broken = plane.wait_state(id, "BROKEN");
            assert_eq!(
                (&broken["celery"]["state"], &broken["refund"]),
                (&json!("MISSED"), &made["price"]),
                "{broken}"
            );
        }
        plane.check_money();
    }
}

#[test]
fn what_is_given_up_before_its_start_is_not_published_and_after_it_stays_promised() {
    let redis = Redis::start();
    let worker = CeleryWorker::start(&redis.url(), QUEUE, 1);
    let plane = plane(&redis.url());
    let cancel = |made: &Value| {
        let path = format!("/api/reservations/{}/cancel", made["id"].as_str().unwrap());
        plane.http.request("POST", &path, &[], b"").expect_status(200).json()
    };
    let before = reserve(&plane, &asked("before", "5s", 20, &json!({})));
    assert_eq!(cancel(&before)["state"], "CANCELLED");
    plane.wait_promise(&before, "RELEASED");
    let after = reserve(&plane, &asked("after", "3s", 6, &json!({})));
    begun(&worker, "after");
    assert_eq!(cancel(&after)["state"], "CANCELLED");
    plane.wait_promise(&after, "ACTIVE");
    plane.wait_promise(&after, "OVER");
    assert!(worker.noted("before", "begins").is_empty());
}

#[test]
fn it_waits_for_room_that_others_have_not_left_yet() {
    let redis = Redis::start();
    let worker = CeleryWorker::start(&redis.url(), QUEUE, 1);
    let plane = plane(&redis.url());
    let cpu = plane.processors();
    // It saves its work for a while before it goes.
    let script = "trap 'sleep 4; exit 0' USR1; while true; do sleep 0.1; done";
    let task = json!({ "id": "lent", "command": ["/bin/sh", "-c", script], "resources": { "cpu": cpu } });
    plane.http.send_json("POST", "/api/tasks", &task).expect_status(201);
    wait::until_ok(PATIENCE, "the task to run", || {
        let task = plane.http.get("/api/tasks/lent").expect_status(200).json();
        if task["state"] == "RUNNING" { Ok(()) } else { Err(task) }
    });
    let mut document = asked("room", "2s", 60, &json!({}));
    document["resources"]["cpu"] = json!(cpu);
    let made = reserve(&plane, &document);
    let note = begun(&worker, "room");
    assert!(at(&note) >= seconds(&made["start"]) as f64 + 1.0, "{note} {made}");
    let told = plane.reservation(made["id"].as_str().unwrap());
    assert!(told["celery"]["waitedFor"].as_str().unwrap().contains("room on n1"), "{told}");
}

#[test]
fn a_service_without_a_broker_says_so() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "10");
    let refused = plane.reserve(&asked("none", "4s", 3, &json!({}))).expect_problem(400);
    let error = &refused["errors"][0];
    assert_eq!(error["field"], "celery");
    assert!(error["expected"].as_str().unwrap().contains("--celery-broker"), "{refused}");
}
