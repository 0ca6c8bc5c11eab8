//! The registry's messages to managers, and the hints of a deletion about their slots.

#![allow(clippy::unwrap_used)]

mod support;

use std::thread;

use estimand_testkit::http::{Http, Response};
use serde_json::{Value, json};
use support::manager::{Conduct, Manager, client};
use support::{Running, refused, simple, sqlite, with};

fn hint(response: &Response) -> Option<&str> {
    response.header("estimand-hint")
}

/// True for a message about this version of a registration.
fn is(name: &'static str, version: u64) -> impl Fn(&Value) -> bool {
    move |told| told["dataName"] == name && told["version"] == version
}

#[test]
fn a_change_pokes_every_manager_with_what_is_registered() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let (leader, standby) = (Manager::start(Conduct::Leads(vec![])), Manager::start(Conduct::StandsBy));
    service.tells_managers(&[&leader, &standby]);
    service.post(&simple("a")).expect_status(201);
    leader.wait_for("the registration", is("a", 1));
    service.put(&with("a", &json!({ "timeout": 2 }))).expect_status(200);
    let told = leader.wait_for("the replacement", is("a", 2));
    assert_eq!(told, service.get("/api/registry/a").json());
    standby.wait_for("the replacement", is("a", 2));

    // A request that changes nothing sends no message.
    service.put(&with("a", &json!({ "timeout": 2 }))).expect_status(200);
    refused(service.post(&simple("a")), 409);
    service.post(&simple("b")).expect_status(201);
    leader.wait_for("the next registration", is("b", 1));
    assert_eq!(leader.told().iter().filter(|told| told["version"] == 2).count(), 1, "{:?}", leader.told());
    service.stop();
    leader.stop();
    standby.stop();
}

#[test]
fn a_manager_that_hangs_holds_up_neither_a_change_nor_another_manager() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let (hanging, leader) = (Manager::start(Conduct::Holds), Manager::start(Conduct::Leads(vec![])));
    service.tells_managers(&[&hanging, &leader]);
    service.post(&simple("a")).expect_status(201);
    hanging.wait_for("the first poke", is("a", 1));
    for timeout in 1..=5 {
        service.put(&with("a", &json!({ "timeout": timeout }))).expect_status(200);
        leader.wait_for("the replacement", is("a", timeout + 1));
    }
    assert_eq!(hanging.told().len(), 1);
    // Only the last version is left to send.
    hanging.let_go();
    hanging.wait_for("the last replacement", is("a", 6));
    assert_eq!(hanging.told().len(), 2, "{:?}", hanging.told());
    service.stop();
    hanging.stop();
    leader.stop();
}

#[test]
fn a_deletion_is_answered_when_the_manager_that_leads_has_ended_the_slots() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let (leader, standby) = (Manager::start(Conduct::Holds), Manager::start(Conduct::StandsBy));
    service.post(&simple("a")).expect_status(201);
    service.tells_managers(&[&standby, &leader]);

    let address = format!("http://{}", service.serving.address);
    let deletion = thread::spawn(move || Http::new(&address).request("DELETE", "/api/registry/a", &[], b""));
    leader.wait_for("the deletion", |told| *told == json!("a"));
    standby.wait_for("the deletion", |told| *told == json!("a"));
    // It is done, and yet not answered.
    refused(service.get("/api/registry/a"), 404);
    assert!(!deletion.is_finished());
    leader.let_go();
    let answer = deletion.join().unwrap().expect_status(204);
    assert_eq!(hint(&answer), None);
    service.stop();
    leader.stop();
    standby.stop();
}

#[test]
fn a_deletion_names_the_nodes_that_did_not_confirm_it() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let (leader, standby) =
        (Manager::start(Conduct::Leads(vec!["n-3", "n-4"])), Manager::start(Conduct::StandsBy));
    service.tells_managers(&[&leader, &standby]);
    service.post(&simple("a")).expect_status(201);
    leader.wait_for("the registration", is("a", 1));
    let answer = service.delete("a").expect_status(204);
    let said = hint(&answer).unwrap();
    assert!(said.starts_with("`a` may still run on n-3, n-4, from where"), "{said}");
    assert!(said.ends_with("each node ends it when it is heard of again"), "{said}");
    // No manager is told of a deletion that failed.
    let told = leader.told().len();
    assert_eq!(hint(&service.delete("a").expect_status(404)), None);
    assert_eq!(leader.told().len(), told);
    service.stop();
    leader.stop();
    standby.stop();
}

#[test]
fn a_deletion_says_when_no_manager_leads() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let standby = Manager::start(Conduct::StandsBy);
    let nobody = client(([127, 0, 0, 1], estimand_testkit::process::free_port()).into());
    service.registry.set_managers(vec![standby.client(), nobody]);
    service.post(&simple("a")).expect_status(201);
    let answer = service.delete("a").expect_status(204);
    let said = hint(&answer).unwrap();
    assert!(said.starts_with("no manager that leads has answered, so `a` may still run"), "{said}");
    service.stop();
    standby.stop();
}

#[test]
fn a_name_that_was_registered_anew_meanwhile_is_said_to_be() {
    let (_folder, store) = sqlite();
    let (service, leader) = (Running::start(&store), Manager::start(Conduct::Contradicts));
    service.tells_managers(&[&leader]);
    service.post(&simple("a")).expect_status(201);
    let answer = service.delete("a").expect_status(204);
    assert_eq!(hint(&answer), Some("`a` was registered anew before its slots had ended"));
    service.stop();
    leader.stop();
}

#[test]
fn without_managers_a_deletion_waits_for_nobody() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    service.post(&simple("a")).expect_status(201);
    assert_eq!(hint(&service.delete("a").expect_status(204)), None);
    service.stop();
}
