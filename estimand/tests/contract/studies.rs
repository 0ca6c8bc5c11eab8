//! Studies: what is wrong with a request, what is the same when it is sent again, and whose they are.

use std::collections::BTreeSet;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::{problem, unknown_input, wrong_field, wrong_input};
use crate::target::Target;
use crate::users::{Caller, as_if_not_there};

on_every_target!(
    each_request_gives_tuners_what_is_theirs,
    wrong_input_of_a_study_is_named_by_its_field,
    a_study_and_a_question_are_the_same_when_they_are_sent_again,
    a_trial_reports_and_has_one_result,
    a_user_has_a_share_of_studies_and_reports,
);

fn document(id: &str, more: &Value) -> Value {
    let mut document = json!({ "id": id, "direction": "minimize", "seed": 3, "sampler": "random",
        "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }] });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

fn post(http: &Http, path: &str, body: &Value) -> Response {
    http.send_json("POST", path, body)
}

/// A study that is there now.
fn make(http: &Http, id: &str, more: &Value) -> Value {
    post(http, "/api/studies", &document(id, more)).expect_status(201).json()
}

/// The numbers of the trials that a question is given.
fn ask(http: &Http, id: &str, count: u64, key: &str) -> Vec<u64> {
    let body = json!({ "count": count }).to_string();
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    let asked = http.request("POST", &format!("/api/studies/{id}/ask"), &headers, body.as_bytes());
    let asked = asked.expect_status(200).json();
    asked["trials"].as_array().unwrap().iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
}

type Check = fn(&Tuners<'_>);

/// Every request of the tuning service.
const REQUESTS: [(&str, &str, Check); 14] = [
    ("post", "/api/studies", a_new_study_is_its_makers),
    ("get", "/api/studies", a_list_of_studies_has_their_own),
    ("get", "/api/studies/{id}", |all| all.of_one("GET", "", &Value::Null, 200)),
    ("delete", "/api/studies/{id}", |all| all.of_one("DELETE", "", &Value::Null, 204)),
    ("post", "/api/studies/{id}/pause", |all| all.of_one("POST", "/pause", &Value::Null, 200)),
    ("post", "/api/studies/{id}/resume", |all| all.of_one("POST", "/resume", &Value::Null, 200)),
    ("post", "/api/studies/{id}/stop", |all| all.of_one("POST", "/stop", &Value::Null, 200)),
    ("post", "/api/studies/{id}/ask", |all| all.of_one("POST", "/ask", &json!({ "count": 2 }), 200)),
    ("get", "/api/studies/{id}/trials", |all| all.of_one("GET", "/trials?limit=1", &Value::Null, 200)),
    ("get", "/api/studies/{id}/trials/{number}", |all| all.of_one("GET", "/trials/0", &Value::Null, 200)),
    ("post", "/api/studies/{id}/trials/{number}/report", |all| {
        all.of_one("POST", "/trials/0/report", &json!({ "step": 1, "value": 0.5 }), 200);
    }),
    ("post", "/api/studies/{id}/trials/{number}/tell", |all| {
        all.of_one("POST", "/trials/0/tell", &json!({ "value": 0.5 }), 200);
    }),
    ("get", "/api/studies/{id}/best", |all| all.of_one("GET", "/best", &Value::Null, 200)),
    ("get", "/api/studies/{id}/importance", |all| all.of_one("GET", "/importance", &Value::Null, 200)),
];

fn each_request_gives_tuners_what_is_theirs(target: &Target) {
    let described = target.tuning.get("/openapi.json").expect_status(200).json();
    let paths = described["paths"].as_object().unwrap().iter();
    let described: BTreeSet<(&str, &str)> = paths
        .filter(|(path, _)| path.starts_with("/api/studies"))
        .flat_map(|(path, all)| {
            all.as_object().unwrap().keys().map(move |method| (method.as_str(), path.as_str()))
        })
        .collect();
    let checked = REQUESTS.map(|(method, path, _)| (method, path)).into_iter().collect();
    assert_eq!(described, checked, "each request needs a check");
    let [alice, bob] = ["alice", "bob"].map(|name| Caller::of(target, &target.name(name)));
    let all = Tuners { target, alice, bob };
    REQUESTS.iter().for_each(|(_, _, check)| check(&all));
}

struct Tuners<'t> {
    target: &'t Target,
    alice: Caller,
    bob: Caller,
}

impl Tuners<'_> {
    /// A request about a study: its user and operators have it answered, and to others it is not there.
    fn of_one(&self, method: &str, suffix: &str, body: &Value, status: u16) {
        let Tuners { target, alice, bob } = self;
        let send = |http: &Http, id: &str| {
            let path = format!("/api/studies/{id}{suffix}");
            match body {
                Value::Null => http.request(method, &path, &[], b""),
                body => http.send_json(method, &path, body),
            }
        };
        for http in [&alice.tuning, &target.tuning] {
            let id = target.name("theirs");
            make(&alice.tuning, &id, &json!({}));
            ask(&alice.tuning, &id, 2, "k");
            post(&alice.tuning, &format!("/api/studies/{id}/trials/1/tell"), &json!({ "value": 1 }))
                .expect_status(200);
            as_if_not_there(&send(&bob.tuning, &id), &id, |missing| send(&bob.tuning, missing));
            let trials = target.tuning.get(&format!("/api/studies/{id}/trials")).expect_status(200).json();
            assert_eq!(
                trials["trials"].as_array().unwrap().len(),
                2,
                "{method} {suffix} changes nothing of others"
            );
            send(http, &id).expect_status(status);
        }
        let id = target.name("nobodys");
        make(&target.tuning, &id, &json!({}));
        problem(&send(&alice.tuning, &id), 404);
    }
}

fn a_new_study_is_its_makers(Tuners { target, alice, bob }: &Tuners<'_>) {
    let id = target.name("made");
    let forged =
        problem(&post(&alice.tuning, "/api/studies", &document(&id, &json!({ "user": bob.name }))), 403);
    assert_eq!(forged["errors"][0]["field"], "user", "{forged}");
    assert_eq!(make(&alice.tuning, &id, &json!({}))["user"], alice.name.as_str());
    // The id is taken, and nothing is said of whose it is.
    let taken = problem(&post(&bob.tuning, "/api/studies", &document(&id, &json!({}))), 409);
    assert!(!taken["detail"].as_str().unwrap().contains(&alice.name), "{taken}");
    let given = make(&target.tuning, &target.name("given"), &json!({ "user": bob.name }));
    assert_eq!(given["user"], bob.name.as_str());
}

fn a_list_of_studies_has_their_own(Tuners { target, alice, bob }: &Tuners<'_>) {
    let ids = [alice, alice, bob].map(|user| {
        let id = target.name("listed");
        make(&user.tuning, &id, &json!({}));
        id
    });
    let list = |http: &Http, query: &str| {
        let page = http.get(&format!("/api/studies?limit=2{query}")).expect_status(200).json();
        let studies = page["studies"].as_array().unwrap().clone();
        studies.iter().map(|study| study["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(&alice.tuning, ""), [ids[1].as_str(), &ids[0]]);
    assert_eq!(list(&bob.tuning, "")[0], ids[2]);
    assert!(list(&bob.tuning, &format!("&user={}", alice.name)).is_empty());
    assert_eq!(list(&target.tuning, &format!("&user={}&before={}", alice.name, ids[1]))[0], ids[0]);
    problem(&bob.tuning.get(&format!("/api/studies?before={}", ids[0])), 404);
}

fn wrong_input_of_a_study_is_named_by_its_field(target: &Target) {
    let service = &target.tuning;
    let id = target.name("wrong");
    for (more, field, given, expected) in [
        (json!({ "id": "a b" }), "id", "a b", "1 to 64"),
        (json!({ "direction": "up" }), "direction", "up", "minimize or maximize"),
        (json!({ "sampler": "hyper" }), "sampler.name", "", "auto, random"),
        (json!({ "pruner": { "name": "halving", "rungs": [3, 2] } }), "pruner.rungs", "", "steps that grow"),
        (json!({ "seed": 1.5 }), "seed", "1.5", "a whole number"),
        (json!({ "stop": { "trials": 0 } }), "stop.trials", "0", "from 1 to 100000"),
        (json!({ "patience": "1h" }), "patience", "1h", "from 0 to 30 s"),
    ] {
        let answer = post(service, "/api/studies", &document(&id, &more));
        let error = wrong_field(&answer, field);
        if !given.is_empty() {
            wrong_input(&answer, field, given, expected);
        }
        assert!(error["expected"].as_str().unwrap().contains(expected), "{error}");
    }
    for (parameters, field) in [
        (json!([]), "parameters"),
        (json!([{ "name": "x", "type": "float", "low": 2, "high": 1 }]), "parameters"),
        (json!([{ "name": "x", "type": "float", "low": -1, "high": 1, "log": true }]), "parameters"),
        (json!([{ "name": "x", "type": "integer", "low": 0, "high": 5, "step": 2 }]), "parameters"),
        (json!([{ "name": "x", "type": "choice", "values": [1, 1.0] }]), "parameters"),
        (json!([{ "name": "x", "type": "float", "low": 0 }]), "parameters[0].high"),
    ] {
        wrong_field(
            &post(service, "/api/studies", &document(&id, &json!({ "parameters": parameters }))),
            field,
        );
    }
    unknown_input(
        &post(service, "/api/studies", &document(&id, &json!({ "samplr": 1 }))),
        "samplr",
        "sampler",
    );
    service.get(&format!("/api/studies/{id}")).expect_problem(404);

    make(service, &id, &json!({}));
    ask(service, &id, 1, "k");
    let path = |suffix: &str| format!("/api/studies/{id}{suffix}");
    for (suffix, body, field, expected) in [
        ("/ask", json!({ "count": 0 }), "count", "from 1 to 100"),
        ("/trials/0/report", json!({ "step": -1, "value": 1 }), "step", "whole number"),
        ("/trials/0/report", json!({ "step": 1, "value": "NaN" }), "value", "finite number"),
        ("/trials/0/tell", json!({ "value": "Infinity" }), "value", "told as failed"),
        ("/trials/0/tell", json!({}), "body", "exactly one"),
        ("/trials/0/tell", json!({ "value": 1, "failed": "x" }), "body", "exactly one"),
        ("/trials/0/tell", json!({ "pruned": false }), "pruned", "true"),
        ("/trials/0/tell", json!({ "failed": "" }), "failed", "reason"),
    ] {
        unknown_input(&post(service, &path(suffix), &body), field, expected);
    }
    let headers = [("Content-Type", "application/json")];
    for number in ["NaN", "1e999"] {
        let body = format!("{{\"value\": {number}}}");
        problem(&service.request("POST", &path("/trials/0/tell"), &headers, body.as_bytes()), 400);
    }
    wrong_field(&service.get(&path("/trials?state=LATE")), "state");
    wrong_field(&service.get(&path("/trials?after=x")), "after");
    wrong_field(&service.get(&path("/trials/x")), "number");
    wrong_field(&service.get("/api/studies?limit=many"), "limit");
    problem(&service.get(&path("/trials/7")), 404);
    let none = problem(&service.get(&path("/best")), 404);
    assert_eq!(none["type"], "not-as-asked", "{none}");
}

fn a_study_and_a_question_are_the_same_when_they_are_sent_again(target: &Target) {
    let service = &target.tuning;
    let id = target.name("again");
    let made =
        post(service, "/api/studies", &document(&id, &json!({ "stop": { "trials": 4 } }))).expect_status(201);
    assert_eq!(made.header("location"), Some(format!("/api/studies/{id}").as_str()));
    let again = post(service, "/api/studies", &document(&id, &json!({ "stop": { "trials": 4 } })));
    assert_eq!(again.expect_status(200).json(), made.json());
    problem(&post(service, "/api/studies", &document(&id, &json!({ "stop": { "trials": 5 } }))), 409);

    assert_eq!((ask(service, &id, 2, "one"), ask(service, &id, 2, "one")), (vec![0, 1], vec![0, 1]));
    assert_eq!(ask(service, &id, 9, "two"), [2, 3]);
    let path = |suffix: &str| format!("/api/studies/{id}{suffix}");
    let last = service.request("POST", &path("/ask"), &[], b"").expect_status(200).json();
    assert_eq!(last, json!({ "trials": [], "done": true, "state": "RUNNING" }));
    for step in ["pause", "pause", "resume", "stop", "stop"] {
        service.request("POST", &path(&format!("/{step}")), &[], b"").expect_status(200);
    }
    let over = service.get(&path("")).expect_status(200).json();
    assert_eq!((&over["state"], &over["reason"]), (&json!("OVER"), &json!("stopped")));
    problem(&service.request("POST", &path("/resume"), &[], b""), 409);
    service.request("DELETE", &path(""), &[], b"").expect_status(204);
    problem(&service.request("DELETE", &path(""), &[], b""), 404);
    make(service, &id, &json!({ "seed": 4 }));
}

fn a_trial_reports_and_has_one_result(target: &Target) {
    let service = &target.tuning;
    let id = target.name("trials");
    let pruner = json!({ "name": "plateau", "patience": 2 });
    make(service, &id, &json!({ "pruner": pruner, "stop": { "target": 0.1 } }));
    ask(service, &id, 3, "k");
    let path = |suffix: &str| format!("/api/studies/{id}/trials/{suffix}");
    let report =
        |step: u64, value: f64| post(service, &path("0/report"), &json!({ "step": step, "value": value }));
    for (step, value, stop) in
        [(1, 0.5, false), (2, 0.6, false), (3, 0.7, true), (3, 0.7, true), (4, 0.1, true)]
    {
        assert_eq!(report(step, value).expect_status(200).json(), json!({ "stop": stop }), "{step}");
    }
    problem(&report(4, 0.2), 409);
    problem(&report(3, 0.7), 409);
    let tell = |trial: u64, end: Value| post(service, &path(&format!("{trial}/tell")), &end);
    let pruned = tell(0, json!({ "pruned": true })).expect_status(200).json();
    assert_eq!(
        (&pruned["state"], &pruned["value"], &pruned["place"]),
        (&json!("PRUNED"), &json!(0.1), &json!(0))
    );
    assert_eq!(tell(0, json!({ "pruned": true })).expect_status(200).json(), pruned);
    problem(&tell(0, json!({ "value": 0.1 })), 409);
    problem(&report(9, 0.1), 409);
    tell(1, json!({ "failed": "out of memory" })).expect_status(200);
    let shown = service.get(&path("0")).expect_status(200).json();
    assert_eq!((shown["reports"].as_array().unwrap().len(), &shown["stop"]), (4, &json!(true)));
    tell(2, json!({ "value": 0.05 })).expect_status(200);
    let over = service.get(&format!("/api/studies/{id}")).expect_status(200).json();
    assert_eq!((&over["reason"], &over["best"]), (&json!("target"), &json!({ "number": 2, "value": 0.05 })));
    assert_eq!(over["trials"], json!({ "running": 0, "complete": 1, "pruned": 1, "failed": 1 }));
    let failed = service.get(&format!("/api/studies/{id}/trials?state=FAILED")).expect_status(200).json();
    assert_eq!(failed["trials"][0]["reason"], "out of memory");
}

fn a_user_has_a_share_of_studies_and_reports(target: &Target) {
    let eve = Caller::of(target, &target.name("eve"));
    let limit = json!({ "studyBytes": 12_000 });
    target.registry.send_json("PATCH", &format!("/api/users/{}", eve.name), &limit).expect_status(200);
    wait::until_ok(PATIENCE, "the limit to travel", || {
        let shares = eve.tuning.get("/api/shares").expect_status(200).json();
        if shares[0]["shares"]["studyBytes"]["limit"] == 12_000 { Ok(()) } else { Err(shares) }
    });
    let id = target.name("eves");
    make(&eve.tuning, &id, &json!({}));
    ask(&eve.tuning, &id, 1, "k");
    let path = format!("/api/studies/{id}/trials/0/report");
    let report = |step: u64| post(&eve.tuning, &path, &json!({ "step": step, "value": 0.5 }));
    let full = (0..200).map(report).find(|answer| answer.status != 200).unwrap();
    assert_eq!(problem(&full, 409)["type"], "share-full", "{full}");
    let second = post(&eve.tuning, "/api/studies", &document(&target.name("eves"), &json!({})));
    assert_eq!(problem(&second, 409)["type"], "share-full", "{second}");
    // Others have room.
    let bob = Caller::of(target, &target.name("bob"));
    make(&bob.tuning, &target.name("bobs"), &json!({}));
}
