//! Users who reserve: each sees and changes reservations and credits of their own, and operators those of all. A request for
//! another user's is answered as if that were not there.

use std::collections::BTreeSet;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::problem;
use crate::fake::Fake;
use crate::target::Target;
use crate::users::{Caller, as_if_not_there};

on_every_target!(each_request_gives_reservers_what_is_theirs, a_user_keeps_no_node_from_others_for_nothing);

type Check = fn(&Reservers<'_>);

/// Every request of the reservation service.
const REQUESTS: [(&str, &str, Check); 11] = [
    ("post", "/api/reservations", a_new_reservation_is_its_makers),
    ("post", "/api/reservations/lists", a_new_list_is_its_makers),
    ("get", "/api/reservations", a_list_of_reservations_has_their_own),
    ("get", "/api/reservations/prices", |all| {
        // Prices are nobody's own.
        let path = format!("/api/reservations/prices?resources=cpu=1&duration=60&class={}", all.node.node);
        all.until(200, &|| all.alice.reservations.get(&path));
    }),
    ("get", "/api/reservations/{id}", |all| all.of_one("GET", "", &json!({}))),
    ("post", "/api/reservations/{id}/change", |all| {
        all.of_one("POST", "/change", &json!({ "by": "9h", "dryRun": true }));
        all.of_one("POST", "/change", &json!({ "duration": 120 }));
    }),
    ("post", "/api/reservations/{id}/bid", |all| all.of_one("POST", "/bid", &json!({ "value": 40 }))),
    ("post", "/api/reservations/{id}/cancel", |all| all.of_one("POST", "/cancel", &Value::Null)),
    ("get", "/api/credits", balances_are_their_own),
    ("get", "/api/credits/journal", a_journal_has_what_they_paid_or_got),
    ("post", "/api/credits/grants", |all| {
        let grant = json!({ "user": all.alice.name, "amount": 5 });
        problem(&all.alice.reservations.send_json("POST", "/api/credits/grants", &grant), 403);
    }),
];

fn each_request_gives_reservers_what_is_theirs(target: &Target) {
    let document = target.reservations.get("/openapi.json").expect_status(200).json();
    let paths = document["paths"].as_object().unwrap().iter();
    let is_ours = |path: &str| path.starts_with("/api/reservations") || path.starts_with("/api/credits");
    let described: BTreeSet<(&str, &str)> = paths
        .filter(|(path, _)| is_ours(path))
        .flat_map(|(path, all)| {
            all.as_object().unwrap().keys().map(move |method| (method.as_str(), path.as_str()))
        })
        .collect();
    let checked = REQUESTS.map(|(method, path, _)| (method, path)).into_iter().collect();
    assert_eq!(described, checked, "each request needs a check");
    let all = Reservers::of(target);
    REQUESTS.iter().for_each(|(_, _, check)| check(&all));
}

/// Places are not theirs to ask for, and a unit that asks for next to nothing costs its place's part of the node.
fn a_user_keeps_no_node_from_others_for_nothing(target: &Target) {
    let all = Reservers::of(target);
    let send = |http: &Http, path: &str, body: &Value| http.send_json("POST", path, body);
    let asks = |resources: Value| all.document(&json!({ "resources": resources, "dryRun": true }));
    let item = |resources: Value| json!({ "resources": resources, "duration": 60, "class": all.node.node });
    let alice = &all.alice;
    let places = json!({ "tasks": 255 });
    let list = json!({ "allOrNone": [item(json!({ "cpu": 1 })), item(places.clone())], "value": 30 });
    for (http, path, body, field) in [
        (&alice.reservations, "/api/reservations", asks(places.clone()), "resources.tasks"),
        (&alice.reservations, "/api/reservations/lists", list, "allOrNone[1].resources.tasks"),
        (&alice.tasks, "/api/tasks", json!({ "command": "x", "resources": places }), "resources.tasks"),
    ] {
        let answer = problem(&send(http, path, &body), 400);
        assert_eq!(answer["errors"][0]["field"], field, "{answer}");
        assert!(answer["errors"][0]["expected"].as_str().unwrap().contains("without asking"), "{answer}");
    }
    let price = |body: &Value| {
        let quote = all.until(200, &|| send(&target.reservations, "/api/reservations", body)).json();
        quote["price"].as_str().unwrap().parse::<f64>().unwrap()
    };
    // An operator may ask for places, and pays for them as for the rest of the node.
    let small = json!({ "resources": { "cpu": 0.001 }, "width": 255, "dryRun": true });
    let many_places = price(&asks(places));
    let many_units = price(&all.document(&small));
    // The node has four processors.
    let most = price(&asks(json!({ "cpu": 3.9 })));
    assert!(many_places > most && many_units > most, "{many_places} and {many_units} beside {most}");
}

/// Two users with credits, and a node that has capacity for them.
struct Reservers<'t> {
    target: &'t Target,
    node: Fake<'t>,
    alice: Caller,
    bob: Caller,
}

impl<'t> Reservers<'t> {
    fn of(target: &'t Target) -> Self {
        let node = Fake::new(target);
        node.set_labels(json!({ "fake": node.node, "class": node.node }));
        let [alice, bob] = ["alice", "bob"].map(|name| Caller::of(target, &target.name(name)));
        for user in [&alice, &bob] {
            let grant = json!({ "user": user.name, "amount": 100 });
            target.reservations.send_json("POST", "/api/credits/grants", &grant).expect_status(201);
        }
        Reservers { target, node, alice, bob }
    }

    /// Asks until the answer has this status: the node's heartbeats may be late.
    fn until(&self, status: u16, ask: &dyn Fn() -> Response) -> Response {
        wait::until_ok(PATIENCE, "the answer", || {
            self.node.beat();
            let answer = ask();
            if answer.status == status { Ok(answer) } else { Err(answer) }
        })
    }

    fn document(&self, more: &Value) -> Value {
        let mut document = json!({ "resources": { "cpu": 0.01 }, "duration": 60, "from": "2h", "value": 30,
            "class": self.node.node });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    }

    fn make(&self, http: &Http, more: &Value) -> Value {
        self.until(201, &|| http.send_json("POST", "/api/reservations", &self.document(more))).json()
    }

    /// A request about a reservation: its user and operators have it answered, and to others it is not there.
    fn of_one(&self, method: &str, suffix: &str, body: &Value) {
        let Reservers { target, alice, bob, .. } = self;
        let ask = |http: &Http, id: &str| {
            let path = format!("/api/reservations/{id}{suffix}");
            match body {
                Value::Null => http.request(method, &path, &[], b""),
                body => http.send_json(method, &path, body),
            }
        };
        for http in [&alice.reservations, &target.reservations] {
            let made = self.make(&alice.reservations, &json!({}));
            assert_eq!(made["user"], alice.name.as_str(), "{made}");
            let id = made["id"].as_str().unwrap();
            as_if_not_there(&ask(&bob.reservations, id), id, |missing| ask(&bob.reservations, missing));
            self.until(200, &|| ask(http, id));
        }
        let others = self.make(&target.reservations, &json!({ "user": bob.name }));
        problem(&ask(&alice.reservations, others["id"].as_str().unwrap()), 404);
    }
}

/// Requests that name something not theirs, with the field that the answer names.
fn forged(bob: &str) -> [(Value, &'static str); 4] {
    [
        (json!({ "user": bob }), "user"),
        (json!({ "task": { "command": "x", "user": bob } }), "task.user"),
        (json!({ "task": { "command": "x", "after": ["t1"] } }), "task.after"),
        (json!({ "celery": { "task": "app.train" } }), "celery"),
    ]
}

fn a_new_reservation_is_its_makers(all: &Reservers<'_>) {
    let Reservers { target, alice, bob, .. } = all;
    let path = "/api/reservations";
    let send = |http: &Http, more: &Value| http.send_json("POST", path, &all.document(more));
    for (more, field) in forged(&bob.name) {
        let answer = problem(&send(&alice.reservations, &more), 403);
        assert_eq!(answer["errors"][0]["field"], field, "{answer}");
    }
    let quote = all.until(200, &|| send(&alice.reservations, &json!({ "dryRun": true }))).json();
    assert_eq!(quote["covered"], true, "{quote}");
    let made = all.make(&alice.reservations, &json!({ "user": alice.name, "task": { "command": "x" } }));
    assert_eq!((&made["user"], &made["document"]["user"]), (&json!(alice.name), &json!(alice.name)));
    // The task is submitted for her.
    let task = wait::until(PATIENCE, "the task", || {
        let made = alice.reservations.get(&format!("{path}/{}", made["id"].as_str().unwrap()));
        made.expect_status(200).json()["task"].as_str().map(str::to_owned)
    });
    let task = format!("/api/tasks/{task}");
    assert_eq!(alice.tasks.get(&task).expect_status(200).json()["document"]["user"], alice.name.as_str());
    problem(&bob.tasks.get(&task), 404);
    // Promises stay the operators'.
    let promise = format!("/api/capacity/promises/{}", made["promise"].as_str().unwrap());
    problem(&alice.tasks.get(&promise), 403);
    assert_eq!(target.tasks.get(&promise).expect_status(200).json()["user"], alice.name.as_str());

    // The keys of two users have nothing to do with each other.
    let key = target.name("key");
    let keyed = |http: &Http, key: &str| {
        let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
        http.request("POST", path, &headers, all.document(&json!({})).to_string().as_bytes())
    };
    let ids = [&alice.reservations, &bob.reservations].map(|http| {
        let id = all.until(201, &|| keyed(http, &key)).json()["id"].clone();
        assert_eq!(keyed(http, &key).expect_status(200).json()["id"], id);
        id.to_string()
    });
    assert_ne!(ids[0], ids[1]);
    problem(&keyed(&alice.reservations, &"x".repeat(200)), 400);
}

fn a_new_list_is_its_makers(all: &Reservers<'_>) {
    let Reservers { alice, bob, .. } = all;
    let send = |http: &Http, item: &Value, more: &Value| {
        let mut item = all.document(item);
        item.as_object_mut().unwrap().remove("value");
        let mut list = json!({ "allOrNone": [item, item], "value": 30 });
        list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        http.send_json("POST", "/api/reservations/lists", &list)
    };
    let [(of_all, _), others @ ..] = forged(&bob.name);
    let answer = problem(&send(&alice.reservations, &json!({}), &of_all), 403);
    assert_eq!(answer["errors"][0]["field"], "user");
    for (item, field) in others {
        let answer = problem(&send(&alice.reservations, &item, &json!({})), 403);
        assert_eq!(answer["errors"][0]["field"], format!("allOrNone[0].{field}"), "{answer}");
    }
    let made = all.until(201, &|| send(&alice.reservations, &json!({}), &json!({}))).json();
    for one in made["reservations"].as_array().unwrap() {
        let path = format!("/api/reservations/{}", one["id"].as_str().unwrap());
        assert_eq!(alice.reservations.get(&path).expect_status(200).json()["user"], alice.name.as_str());
        problem(&bob.reservations.get(&path), 404);
    }
}

fn ids(page: &Value) -> Vec<&str> {
    page["reservations"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn a_list_of_reservations_has_their_own(all: &Reservers<'_>) {
    let Reservers { target, alice, bob, .. } = all;
    let [first, theirs, last] = [alice, bob, alice]
        .map(|user| all.make(&user.reservations, &json!({}))["id"].as_str().unwrap().to_owned());
    let list = |http: &Http, query: &str| {
        http.get(&format!("/api/reservations?limit=2{query}")).expect_status(200).json()
    };
    assert_eq!(ids(&list(&alice.reservations, "")), [last.as_str(), &first]);
    assert_eq!(ids(&list(&bob.reservations, ""))[0], theirs);
    assert!(ids(&list(&bob.reservations, &format!("&user={}", alice.name))).is_empty());
    assert_eq!(ids(&list(&target.reservations, &format!("&user={}", bob.name)))[0], theirs);
    let ask = |id: &str| bob.reservations.get(&format!("/api/reservations?before={id}"));
    as_if_not_there(&ask(&last), &last, ask);
}

fn balances_are_their_own(all: &Reservers<'_>) {
    let Reservers { target, alice, bob, .. } = all;
    all.make(&alice.reservations, &json!({}));
    let own = alice.reservations.get("/api/credits").expect_status(200).json();
    let of_operators = target.reservations.get(&format!("/api/credits?user={}", alice.name)).json();
    assert_eq!(own["accounts"], of_operators["accounts"]);
    assert_eq!((&own["granted"], &own["income"]), (&Value::Null, &Value::Null), "what all have is nobody's");
    assert_ne!(own["held"], "0");
    for name in [bob.name.as_str(), "never-was", "(held)"] {
        let answer = alice.reservations.get(&format!("/api/credits?user={name}")).expect_status(200).json();
        assert_eq!(answer["accounts"], json!([]), "{name}");
    }
}

fn a_journal_has_what_they_paid_or_got(all: &Reservers<'_>) {
    let Reservers { alice, bob, .. } = all;
    let entries = |query: &str| {
        let page = alice.reservations.get(&format!("/api/credits/journal?limit=1000{query}"));
        page.expect_status(200).json()["entries"].as_array().unwrap().clone()
    };
    let own = entries("");
    assert!(!own.is_empty());
    for entry in &own {
        assert!(entry["from"] == alice.name.as_str() || entry["to"] == alice.name.as_str(), "{entry}");
    }
    assert_eq!(entries(&format!("&user={}", alice.name)), own);
    for name in [bob.name.as_str(), "(held)", "(income)"] {
        assert!(entries(&format!("&user={name}")).is_empty(), "{name}");
    }
}
