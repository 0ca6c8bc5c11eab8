//! A job survives a restart of the services and a node that is cut off.

use std::cell::Cell;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use estimand_scheduler_demo::dispatch::AgentDispatcher;
use estimand_scheduler_demo::job_plan::PolicyKind;
use estimand_scheduler_demo::run::{Options, Run, RunEventKind, RunProgress, WorkerState, run};
use estimand_testkit::proxy::Proxy;
use serde_json::json;

use crate::cluster::Cluster;
use crate::{check, images, job_plan, options, runtime};

fn happened(run: &Run, node: &str, what: RunEventKind) -> bool {
    run.events.iter().any(|event| event.node == node && event.kind == what)
}

#[test]
fn a_restart_of_the_services_costs_no_image_and_no_node() {
    let mut cluster = Cluster::start(&["n1", "n2", "n3"]);
    let runtime = runtime();
    let images = images(240);
    cluster.distribute(&images);
    for node in ["n1", "n2", "n3"] {
        cluster.write("node_capability", node, &json!(20));
    }
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Dynamic);
    let job = cluster.job("outage", &json!({ "n1": 20, "n2": 20, "n3": 20 }));
    let mut agents = AgentDispatcher::new(cluster.client(), "outage-1".to_owned());
    let (options, services) = (options("outage"), &mut cluster.services);
    let (tell, told) = channel::<()>();
    let (tell, is_up, goes_on) = (Cell::new(Some(tell)), AtomicBool::new(false), Cell::new(false));
    // Registry, manager and data service at once, while the scheduler goes on: it is not this thread that restarts them.
    let done = thread::scope(|threads| {
        let is_up = &is_up;
        threads.spawn(move || {
            // Its end is the word, which comes also if the run breaks off.
            let _ = told.recv();
            services.restart_on_same_port();
            is_up.store(true, Ordering::Release);
        });
        let look = |now: &RunProgress| {
            if now.done > 60 {
                tell.take();
            }
            goes_on.set(goes_on.get() || (is_up.load(Ordering::Acquire) && now.done < now.of));
        };
        let done = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), look));
        tell.take();
        done.unwrap()
    });
    check(&cluster, &done, &images);
    assert!(!done.events.iter().any(|event| event.kind == RunEventKind::Lost), "{:?}", done.events);
    assert!(
        goes_on.get(),
        "workers have half of all in hand at most, so the rest was given to them afterwards"
    );
    assert_eq!(done.duplicates, 0);
}

#[test]
fn a_node_that_is_cut_off_loses_its_part_and_comes_back_for_another() {
    let mut cluster = Cluster::start(&["n1", "n2"]);
    let address = cluster.services.base_url().trim_start_matches("http://").parse().unwrap();
    let way = Proxy::to(address);
    cluster.join("n3", &way.url());
    let runtime = runtime();
    // Enough for the others to be busy until it is back, also on a slow machine.
    let images = images(720);
    cluster.distribute(&images);
    for node in ["n1", "n2", "n3"] {
        cluster.write("node_capability", node, &json!(20));
    }
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Dynamic);
    let job = cluster.job("cut", &json!({ "n1": 20, "n2": 20, "n3": 20 }));
    let mut agents = AgentDispatcher::new(cluster.client(), "cut-1".to_owned());
    let (was_cut, was_lost) = (Cell::new(false), Cell::new(false));
    let look = |now: &RunProgress| {
        if !was_cut.get() && now.done > 60 {
            was_cut.set(true);
            way.refuse();
        }
        let is_lost = now.nodes.iter().any(|node| node.name == "n3" && node.state == WorkerState::Lost);
        if is_lost && !was_lost.get() {
            was_lost.set(true);
            way.accept();
        }
    };
    let options = Options { silence: 3.0, ..options("cut") };
    let done = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), look)).unwrap();
    assert!(was_lost.get(), "{:?}", done.events);
    check(&cluster, &done, &images);
    assert!(
        happened(&done, "n3", RunEventKind::Lost) && happened(&done, "n3", RunEventKind::Back),
        "{:?}",
        done.events
    );
    // It could not know that its part was not its own any more, and went on.
    let own = done.nodes.iter().find(|node| node.name == "n3").unwrap();
    assert!(own.images.len() > 20, "what it did counts, cut off or not, where it was the first: {own:?}");
}
