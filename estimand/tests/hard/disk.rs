//! Disks that are full, and one that fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::disk::{Disk, Refusing};
use estimand_testkit::http::{Http, Response};
use estimand_testkit::load::Load;
use estimand_testkit::place::Place;
use estimand_testkit::plane::Apart;
use estimand_testkit::process::{Estimand, estimand, free_port};
use estimand_testkit::proxy::Proxy;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::{expect_refused, long_or, pass, put, side_by_side, until_taken};

/// By when a commit meets what is refused, if any does.
const REFUSED_AT_ONCE: Duration = Duration::from_secs(5);
const BROKEN_COMMITS: &str = "estimand_commits_broken_total ";
/// A value that needs room of its own.
const LARGE: usize = 16 << 10;

/// Its files are beside the disk: a folder that is made after data is where data is refused, and the file system itself
/// would fail.
fn service(disk: &Disk) -> Estimand {
    let files = disk.path().with_file_name("files");
    let up = estimand().args(["up", "--no-agent", "--files"]).args([files]);
    up.port(free_port()).data_dir(disk.path().join("data")).start()
}

/// Writes new values, each of which needs room, until one is refused; gives how many were acknowledged.
fn write_until_refused(http: &Http, prefix: &str) -> usize {
    add_until_refused(|number| put(http, &format!("{prefix}{number}"), "x".repeat(LARGE)))
}

/// Adds more and more: a log that was brought into its database has room again, also on a full disk.
#[track_caller]
fn add_until_refused(add: impl Fn(usize) -> Response) -> usize {
    let mut acknowledged = 0;
    wait::until_ok(PATIENCE, "an addition to be refused", || {
        let answer = add(acknowledged);
        if answer.status < 300 {
            acknowledged += 1;
            return Err(format!("{acknowledged} were taken"));
        }
        expect_refused(&answer);
        Ok(())
    });
    acknowledged
}

fn check_there(http: &Http, prefix: &str, acknowledged: usize) {
    for number in 0..acknowledged {
        let value = http.get(&format!("/api/data/{prefix}{number}/n")).expect_status(200).json();
        assert_eq!(value["dataValue"].as_str().map(str::len), Some(LARGE), "{prefix}{number}");
    }
}

fn registration(name: &str) -> Value {
    json!({"dataName": name, "cmd": ["true", "x".repeat(4_000)], "max-Time": 5})
}

#[test]
fn disks_that_are_full_or_fail_lose_nothing() {
    side_by_side(&[
        ("a_full_disk_refuses_writes_and_nothing_else", a_full_disk_refuses_writes_and_nothing_else as fn()),
        ("removals_work_on_a_full_disk", removals_work_on_a_full_disk as fn()),
        (
            "a_disk_that_fails_under_the_store_loses_nothing",
            a_disk_that_fails_under_the_store_loses_nothing as fn(),
        ),
        (
            "a_disk_that_stumbles_loses_nothing_to_a_power_cut",
            a_disk_that_stumbles_loses_nothing_to_a_power_cut as fn(),
        ),
        (
            "a_power_cut_in_a_copy_of_the_log_loses_nothing",
            a_power_cut_in_a_copy_of_the_log_loses_nothing as fn(),
        ),
        (
            "a_full_disk_under_the_spool_holds_up_nothing",
            a_full_disk_under_the_spool_holds_up_nothing as fn(),
        ),
    ]);
}

fn a_full_disk_refuses_writes_and_nothing_else() {
    let disk = Disk::in_memory("64m");
    let mut up = service(&disk);
    let http = up.http();
    let load = Load::new(up.base_url());
    let mut kept = Vec::new();
    let reads = load.run_during(true, || {
        for round in 0..long_or(20, 3) {
            load.wait_for_progress(200);
            let full = disk.fill();
            let prefix = format!("r{round}_");
            let acknowledged = write_until_refused(&http, &prefix);
            // A rolled back transaction may leave some room.
            full.grow();
            let answer = wait::until_ok(PATIENCE, "a registration to be refused", || {
                let name = format!("reg_{}", fastrand::u32(..));
                match http.send_json("POST", "/api/registry", &registration(&name)) {
                    answer if answer.status == 201 => Err("it was taken"),
                    answer => Ok(answer),
                }
            });
            expect_refused(&answer);
            load.check(&http);
            check_there(&http, &prefix, acknowledged);
            drop(full);
            load.wait_for_everyone();
            until_taken(&http, "afterwards");
            http.send_json("POST", "/api/registry", &registration(&format!("free_{round}")))
                .expect_status(201);
            kept.push((prefix, acknowledged));
        }
    });
    assert!(up.exited().is_none(), "{}", up.stderr_tail());
    println!("{reads} reads were answered throughout; {} writes were refused", load.refused());

    // Killed while it is full, and started while it is full: it comes up by then at the latest when there is room.
    let full = disk.fill();
    kept.push(("last_".to_owned(), write_until_refused(&http, "last_")));
    full.grow();
    up.kill9();
    std::thread::scope(|scope| {
        let base = up.base_url().to_owned();
        let starting = scope.spawn(|| up.restart_on_same_port());
        let look = Http::new(&base).with_deadline(Duration::from_secs(2));
        wait::until(PATIENCE, "the service to come up on a full disk", || {
            (starting.is_finished() || look.try_request("GET", "/healthz", &[], b"").is_ok()).then_some(())
        });
        drop(full);
        starting.join().unwrap();
    });
    let http = up.http();
    load.check(&http);
    kept.iter().for_each(|(prefix, acknowledged)| check_there(&http, prefix, *acknowledged));
    until_taken(&http, "afterwards");
}

/// A slot fills the disk that everything is on, and is unregistered all the same.
fn removals_work_on_a_full_disk() {
    let disk = Disk::in_memory("192m");
    let node = ["up", "--node", "n", "--allow", "/bin"];
    let up = estimand().args(node).port(free_port()).data_dir(disk.path().join("data")).start();
    let http = up.http();
    let delete = |path: &str| {
        let answer = http.request("DELETE", path, &[], b"");
        assert!(answer.status < 300, "{path}: {answer}; {}", up.stderr_tail());
        assert_eq!(answer.header("estimand-hint"), None, "{path}: {answer}");
    };
    let bind = |name: &str| http.send_json("PUT", &format!("/api/bindings/{name}"), &json!({"to": "kept"}));
    let names: Vec<String> = (0..long_or(400, 40)).map(|number| format!("gone_{number}")).collect();
    for name in &names {
        let idle = json!({"dataName": name, "cmd": ["/bin/true"], "max-Time": 3600, "history": {"max": 5}});
        http.send_json("POST", "/api/registry", &idle).expect_status(201);
        assert!(put(&http, &format!("value_{name}"), "x".repeat(LARGE)).status < 300);
        assert!(bind(&format!("bound_{name}")).status < 300);
    }
    let token = json!({"name": "somebody", "role": "operate"});
    let token = http.send_json("POST", "/api/tokens", &token).expect_status(201).json();
    let shown = Http::new(up.base_url()).showing(token["token"].as_str());
    shown.get("/api/audit").expect_status(200);
    let greedy = json!(["/bin/sh", "-c", "cat /dev/zero > all; exec sleep 600"]);
    let greedy = json!({"dataName": "greedy", "cmd": greedy, "max-Time": 3600, "timeout": 600});
    http.send_json("POST", "/api/registry", &greedy).expect_status(201);
    write_until_refused(&http, "more_");
    // Longer than a leader leads that cannot say so.
    pass(Duration::from_secs(long_or(60, 5)));

    write_until_refused(&http, "again_");
    add_until_refused(|number| {
        http.send_json("POST", "/api/registry", &registration(&format!("more_{number}")))
    });
    add_until_refused(|number| bind(&format!("bound_more_{number}")));
    let full = disk.fill();
    // Writes that are refused are no reason to refuse a removal that came with them.
    let load = Load::new(up.base_url());
    load.run_during(false, || {
        for name in &names {
            full.grow();
            delete(&format!("/api/bindings/bound_{name}"));
            delete(&format!("/api/data?dataName=value_{name}"));
            delete(&format!("/api/registry/{name}"));
        }
    });
    delete("/api/tokens/somebody");
    shown.get("/api/audit").expect_status(401);
    delete("/api/registry/greedy");
    assert_eq!(http.get("/api/mng/instances?dataName=greedy").expect_status(200).json(), json!([]));

    drop(full);
    std::fs::remove_file(disk.path().join("data/agent/slots/greedy/all")).unwrap();
    until_taken(&http, "afterwards");
    http.send_json("POST", "/api/registry", &registration("new")).expect_status(201);
}

/// Has the disk refuse data until it has failed a commit, whose outcome nobody knows then. The disk takes some data before
/// each refusal: where it takes none for long, the kernel waits for a page for ever.
fn break_a_commit<'d>(disk: &'d Disk, up: &Estimand, load: &Load) -> Refusing<'d> {
    wait::until_ok(PATIENCE * 2, "a commit to break off", || {
        load.wait_for_progress(50);
        let refusing = disk.refuse_data(up.data_dir());
        // Blocks before the first refused one are written; then others are refused.
        wait::poll(REFUSED_AT_ONCE, || has_broken_commits(up).then_some(()).ok_or(()))
            .map(|()| refusing)
            .map_err(|()| format!("{}; {}", disk.mounted(), up.stderr_tail()))
    })
}

fn has_broken_commits(up: &Estimand) -> bool {
    let metrics = up.http().get("/metrics");
    let mut lines = metrics.text().lines();
    lines
        .find_map(|line| line.strip_prefix(BROKEN_COMMITS)?.trim().parse().ok())
        .is_some_and(|count: u64| count > 0)
}

/// Writes acknowledged before `trouble`, in which the service ends, is there when it is started again.
fn nothing_is_lost_in(load: &Load, up: &mut Estimand, trouble: impl FnOnce(&mut Estimand)) {
    let down = load.hold();
    let acknowledged = load.acknowledged();
    trouble(up);
    up.restart_on_same_port();
    load.check_since(&up.http(), &acknowledged);
    drop(down);
    load.wait_for_everyone();
}

/// It refuses data in the middle of commits, and then the file system gives up.
fn a_disk_that_fails_under_the_store_loses_nothing() {
    let disk = Disk::in_file(64);
    let mut up = service(&disk);
    let load = Load::new(up.base_url());
    load.run_during(false, || {
        for round in 0..long_or(20, 2) {
            load.wait_for_progress(150);
            let _refusing = break_a_commit(&disk, &up, &load);
            disk.fail();
            if round == 0 {
                expect_refused(&up.http().send_json("POST", "/api/registry", &registration("new")));
            }
            load.check(&up.http());
            nothing_is_lost_in(&load, &mut up, |up| {
                up.kill9();
                disk.repair();
            });
        }
    });
    load.check(&up.http());
}

/// A refused write is in the kernel's memory still, where a store that is opened again finds it; but not on disk.
fn a_disk_that_stumbles_loses_nothing_to_a_power_cut() {
    let disk = Disk::in_file(64);
    let mut up = service(&disk);
    let load = Load::new(up.base_url());
    load.run_during(false, || {
        for round in 0..long_or(20, 2) {
            load.wait_for_progress(150);
            let refusing = break_a_commit(&disk, &up, &load);
            let goes_on = round % 2 == 1;
            if !goes_on {
                up.kill9();
            }
            drop(refusing);
            if !goes_on {
                up.restart_on_same_port();
            }
            load.wait_for_everyone();
            load.wait_for_progress(50);
            nothing_is_lost_in(&load, &mut up, |up| {
                up.pause();
                disk.note();
                up.kill9();
                disk.cut_power();
            });
        }
    });
    load.check(&up.http());
}

/// Writes a value that needs much of the log, again and again, until it is not answered any more. Each has a number, of
/// which `acknowledged` is the last.
fn fill_log(base: &str, name: &str, acknowledged: &AtomicU64) {
    let http = Http::new(base).with_deadline(PATIENCE);
    let filler = "x".repeat(LARGE);
    for number in 1_u64.. {
        let value =
            json!({"dataName": name, "nodeName": "n", "dataValue": {"number": number, "filler": filler}});
        match http.try_request("POST", "/api/data", &[], value.to_string().as_bytes()) {
            Ok(answer) if answer.status < 300 => acknowledged.store(number, Ordering::Release),
            Ok(answer) => expect_refused(&answer),
            Err(_) => return,
        }
    }
}

/// The log is being copied into the database when the service stops: the database is changed by nothing else.
fn a_power_cut_in_a_copy_of_the_log_loses_nothing() {
    let disk = Disk::in_file(256);
    let mut up = service(&disk);
    let database = up.data_dir().join("estimand.db");
    let changed_at = || std::fs::metadata(&database).unwrap().modified().unwrap();
    for round in 0..long_or(20, 3) {
        let values: Vec<_> = (0..4).map(|one| (format!("log_{round}_{one}"), AtomicU64::new(0))).collect();
        std::thread::scope(|scope| {
            for (name, acknowledged) in &values {
                let base = up.base_url().to_owned();
                scope.spawn(move || fill_log(&base, name, acknowledged));
            }
            wait::until(PATIENCE, "many values to be written", || {
                values.iter().all(|(_, last)| last.load(Ordering::Acquire) > 200).then_some(())
            });
            let before = changed_at();
            let deadline = Instant::now() + PATIENCE;
            while changed_at() == before {
                assert!(Instant::now() < deadline, "the log was not copied");
            }
            up.pause();
            disk.note();
            up.kill9();
        });
        disk.cut_power();
        up.restart_on_same_port();
        for (name, last) in &values {
            let value = up.http().get(&format!("/api/data/{name}/n")).expect_status(200).json();
            let (stored, last) = (value["dataValue"]["number"].as_u64(), last.load(Ordering::Acquire));
            assert!(stored >= Some(last), "{name}: {last} was acknowledged, and {stored:?} is there");
        }
    }
}

/// Nobody takes what the agent has, and its disk is full: it goes on, within bounds, and what it holds comes in order.
fn a_full_disk_under_the_spool_holds_up_nothing() {
    let place = Place::new("spool");
    let port = free_port();
    let proxy = Proxy::to(([127, 0, 0, 1], port).into());
    let services = Apart::start_behind(&place, port, &proxy.url());
    let disk = Disk::in_memory("16m");
    let mut agent = place.builder("n1", &[services.manager.base_url()]).data_dir(disk.path()).start();
    let plane = &services.plane;
    let mut fast = place.streaming("fast");
    fast["cmd"] = place.command("fast", &["stream:5ms"]);
    fast["history"] = json!({"max": 100_000});
    plane.register(&fast);
    plane.register(&place.streaming("flow"));
    plane.wait_fresh("fast", &["n1"]);
    plane.wait_fresh("flow", &["n1"]);
    let before = agent.rss_bytes();

    proxy.refuse();
    let full = disk.fill();
    pass(Duration::from_secs(long_or(60, 6)));
    // Writes that were begun before are done now.
    assert!(agent.exited().is_none(), "{}", agent.stderr_tail());
    let grown = agent.rss_bytes().saturating_sub(before);
    let last = plane.last_number("flow", "n1");
    proxy.accept();
    wait::until_ok(PATIENCE, "what waited to be delivered, on a disk that is still full", || {
        match plane.last_number("flow", "n1") {
            now if now > last + 10 => Ok(()),
            now => Err(format!("{last} became {now}; {}", agent.stderr_tail())),
        }
    });
    drop(full);
    let last = plane.last_number("flow", "n1");
    plane.check_history("flow", "n1", last + 10);
    let last = plane.last_number("fast", "n1");
    plane.check_history("fast", "n1", last + 100);
    println!("the agent grew by {} KiB while nobody took anything", grown >> 10);
    assert!(grown < 64 << 20, "{grown} bytes");
}
