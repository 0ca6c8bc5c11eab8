//! Tasks on behalf of a user: an operator or a scheduler submits them, and they are as if the user had.

use estimand_testkit::http::{Http, Response};
use serde_json::{Value, json};

use crate::answers::{problem, wrong_field, wrong_input};
use crate::limits::Submitter;
use crate::target::Target;

on_every_target!(a_task_on_behalf_of_a_user_is_as_if_they_had_sent_it, a_user_submits_on_behalf_of_nobody);

fn submit(http: &Http, behalf: &str, key: Option<&str>, more: &Value) -> Response {
    let mut document = json!({ "command": ["/bin/true"], "nodes": "node=nowhere" });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let keyed = key.map(|key| ("Idempotency-Key", key));
    let headers: Vec<_> = [("Content-Type", "application/json")].into_iter().chain(keyed).collect();
    let path = format!("/api/tasks?behalf={behalf}");
    http.request("POST", &path, &headers, document.to_string().as_bytes())
}

fn id(response: &Response) -> String {
    response.json()["id"].as_str().unwrap().to_owned()
}

fn a_task_on_behalf_of_a_user_is_as_if_they_had_sent_it(target: &Target) {
    let (alice, bob) = (Submitter::new(target), Submitter::new(target));
    let (operator, hers, nothing) = (&target.tasks, alice.user.as_str(), json!({}));
    alice.limit("tasks", 3);
    let made = submit(operator, hers, None, &nothing).expect_status(201);
    assert_eq!(made.json()["document"]["user"], hers, "{made}");
    submit(operator, hers, None, &json!({ "user": hers })).expect_status(201);
    let path = format!("/api/tasks/{}", id(&made));
    alice.http.get(&path).expect_status(200);
    problem(&bob.http.get(&path), 404);

    // Her share is what it takes from, and her priority the highest.
    wrong_input(&submit(operator, hers, None, &json!({ "priority": 1 })), "priority", "1", "at most 0");
    alice.limit("priority", 4);
    submit(operator, hers, None, &json!({ "priority": 4 })).expect_status(201);
    let full = problem(&submit(operator, hers, None, &nothing), 409);
    assert_eq!((&full["type"], &alice.share("tasks")["used"]), (&json!("share-full"), &json!(3)), "{full}");
    problem(&alice.submit(&nothing), 409);
    submit(operator, &bob.user, None, &nothing).expect_status(201);

    // Tasks of hers come after none of another's, and a key is one of hers.
    alice.limit("tasks", 9);
    let of_bob = id(&bob.submit(&nothing).expect_status(201));
    problem(&submit(operator, hers, None, &json!({ "after": [of_bob] })), 409);
    submit(operator, hers, None, &json!({ "after": [id(&made)] })).expect_status(201);
    let key = target.name("key");
    let first = id(&submit(operator, hers, Some(&key), &nothing).expect_status(201));
    assert_eq!(id(&submit(operator, hers, Some(&key), &nothing).expect_status(200)), first);
    assert_ne!(id(&submit(operator, &bob.user, Some(&key), &nothing).expect_status(201)), first);
    let headers = [("Idempotency-Key", key.as_str()), ("Content-Type", "application/json")];
    let body = json!({ "command": ["/bin/true"], "nodes": "node=nowhere" }).to_string();
    let again = alice.http.request("POST", "/api/tasks", &headers, body.as_bytes());
    assert_eq!(id(&again.expect_status(200)), first, "she may send it herself");

    wrong_input(&submit(operator, hers, None, &json!({ "user": bob.user })), "user", &bob.user, hers);
    let wrong = wrong_field(&submit(operator, "..%2Fx", None, &nothing), "behalf");
    assert!(wrong.to_string().contains("`../x` is not a user's name"), "{wrong}");
}

fn a_user_submits_on_behalf_of_nobody(target: &Target) {
    let (alice, bob) = (Submitter::new(target), Submitter::new(target));
    for user in [&bob.user, &alice.user] {
        let refused = problem(&submit(&alice.http, user, None, &json!({})), 403);
        assert_eq!(refused["errors"][0]["field"], "behalf", "{refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("operators and schedulers") && detail.contains(&alice.user), "{detail}");
    }
    assert_eq!((&alice.share("tasks")["used"], &bob.share("tasks")["used"]), (&json!(0), &json!(0)));
}
