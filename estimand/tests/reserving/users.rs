//! Users with tokens of their own, many at once, over HTTP and over TCP: nobody books what another one has, and credits add up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::lines::Connection;
use crate::plane::{Plane, credits, seconds};

const USERS: usize = 64;
/// How often each asks.
const ROUNDS: usize = 4;

/// One of them: every other one asks over TCP.
fn ask(plane: &Plane, number: usize, token: &str, asked: &Value, begin: &Barrier) -> Vec<(u64, Value)> {
    if number.is_multiple_of(2) {
        let mut connection = Connection::showing(plane, token);
        begin.wait();
        (0..ROUNDS).for_each(|round| connection.say(&json!({ "id": round, "reserve": asked })));
        let mut answer = || {
            let answer = connection.hear();
            (answer["status"].as_u64().unwrap(), answer["body"].clone())
        };
        return (0..ROUNDS).map(|_| answer()).collect();
    }
    let http = plane.client(token);
    begin.wait();
    (0..ROUNDS)
        .map(|_| {
            let answer = http.send_json("POST", "/api/reservations", asked);
            (u64::from(answer.status), answer.json())
        })
        .collect()
}

#[test]
fn sixty_four_users_at_once_never_book_twice_and_their_credits_add_up() {
    let plane = Plane::start();
    let cpu = plane.processors();
    // There is room for half of what they ask for: each takes the whole node for a slot, in a window of so many slots.
    let room = (USERS * ROUNDS / 2) as u64;
    let from = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 1_200;
    let instant = |at: u64| chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339();
    let asked = json!({ "resources": { "cpu": cpu }, "duration": 1, "from": instant(from), "by": instant(from + room),
        "value": 1000 });
    let name = |number: usize| format!("user{number}");
    let tokens: Vec<String> = (0..USERS)
        .map(|number| {
            plane.grant(&name(number), "10");
            plane.token(&json!({ "name": name(number), "role": "user" }))
        })
        .collect();
    let begin = Barrier::new(USERS);
    let answers: Vec<Vec<(u64, Value)>> = thread::scope(|scope| {
        let (plane, asked, begin) = (&plane, &asked, &begin);
        let clients = tokens.iter().enumerate();
        let clients: Vec<_> = clients
            .map(|(number, token)| scope.spawn(move || ask(plane, number, token, asked, begin)))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (mut starts, mut paid) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    for (number, (status, answer)) in
        answers.iter().enumerate().flat_map(|(number, all)| all.iter().map(move |answer| (number, answer)))
    {
        match status {
            201 => {
                assert!(starts.insert(seconds(&answer["start"])), "a start was given twice: {answer}");
                assert_eq!(answer["user"], name(number).as_str(), "it is whose token asked: {answer}");
                *paid.entry(name(number)).or_default() += credits(&answer["price"]);
            }
            409 => assert_eq!(answer["type"], "infeasible", "{answer}"),
            _ => panic!("{status}: {answer}"),
        }
    }
    assert_eq!(starts, (from..from + room).collect(), "each slot is given once");
    let promises =
        plane.http.get("/api/capacity/promises?state=PROMISED&limit=1000").expect_status(200).json();
    assert_eq!(promises["promises"].as_array().unwrap().len(), starts.len());
    for number in 0..USERS {
        let paid = paid.get(&name(number)).copied().unwrap_or_default();
        assert_eq!(plane.balance(&name(number)), 10_000_000 - paid, "{}", name(number));
    }
    plane.check_money();
}

#[test]
fn users_share_lists_changes_and_elastic_work_and_nothing_is_booked_twice() {
    let plane = Plane::start();
    let cpu = plane.processors();
    let from = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 1_200;
    let instant = |at: u64| chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339();
    let (begins, ends) = (instant(from), instant(from + 120));
    let users: Vec<_> = (0..16)
        .map(|number| {
            let name = format!("user{number}");
            plane.grant(&name, "1000");
            plane.user(&name)
        })
        .collect();
    let begin = Barrier::new(users.len());
    thread::scope(|scope| {
        for (number, http) in users.iter().enumerate() {
            let (begin, begins, ends) = (&begin, &begins, &ends);
            scope.spawn(move || {
                begin.wait();
                let window = |more: Value| {
                    let mut asked = json!({ "resources": { "cpu": cpu / 4.0 }, "from": begins, "by": ends });
                    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                    asked
                };
                for round in 0..4 {
                    let answer = match (number + round) % 3 {
                        0 => {
                            let list = [
                                window(json!({ "duration": 3 })),
                                window(json!({ "duration": 2, "width": 2 })),
                            ];
                            let list = json!({ "allOrNone": list, "value": 100 });
                            http.send_json("POST", "/api/reservations/lists", &list)
                        }
                        1 => {
                            let work = window(json!({ "work": 8, "width": "1..4", "value": 100 }));
                            http.send_json("POST", "/api/reservations", &work)
                        }
                        _ => {
                            let one = window(json!({ "duration": 4, "value": 100 }));
                            let made = http.send_json("POST", "/api/reservations", &one);
                            if made.status != 201 {
                                assert_eq!(made.status, 409, "{made}");
                                continue;
                            }
                            let id = made.json()["id"].as_str().unwrap().to_owned();
                            let change = json!({ "width": 2, "duration": 2 + round });
                            http.send_json("POST", &format!("/api/reservations/{id}/change"), &change)
                        }
                    };
                    assert!([200, 201, 409].contains(&answer.status), "{answer}");
                }
            });
        }
    });
    let promised = plane.all("PROMISED");
    assert!(promised.len() > 16 && plane.all("PENDING").is_empty());
    // At each second no more than there is; and the ledger has the same.
    for second in from..from + 120 {
        let used: u64 = promised
            .iter()
            .filter(|one| (seconds(&one["start"])..seconds(&one["end"])).contains(&second))
            .map(|one| one["width"].as_u64().unwrap())
            .sum();
        assert!(used <= 4, "{used} quarters of the node at {second}");
    }
    for one in &promised {
        let promise = plane.promise(one);
        let window = (promise["from"].as_u64().unwrap(), promise["until"].as_u64().unwrap());
        assert_eq!(window, (seconds(&one["start"]), seconds(&one["end"])), "{one}");
        assert_eq!(promise["units"].as_array().unwrap().len() as u64, one["width"].as_u64().unwrap());
    }
    let live = plane.http.get("/api/capacity/promises?state=PROMISED&limit=1000").expect_status(200).json();
    assert_eq!(live["promises"].as_array().unwrap().len(), promised.len());
    plane.check_money();
}
