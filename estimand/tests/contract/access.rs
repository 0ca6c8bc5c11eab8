//! Access: roles on every route, tokens from their making to their end, nodes that speak for themselves, and the
//! trail of it all.

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::problem;
use crate::fake::Fake;
use crate::target::Target;

const WATCH: &str = "/api/data/watch";

fn create(target: &Target, body: &Value) -> Response {
    target.registry.send_json("POST", "/api/tokens", body)
}

/// A token that every service of the target knows.
fn token(target: &Target, role: &str, node: Option<&str>) -> String {
    named_token(target, &target.name("token"), role, node)
}

fn named_token(target: &Target, name: &str, role: &str, node: Option<&str>) -> String {
    let mut body = json!({ "name": name, "role": role });
    if let Some(node) = node {
        body["node"] = node.into();
    }
    made(target, &body)
}

/// A token of a new name with these fields.
pub fn token_with(target: &Target, fields: &Value) -> String {
    let mut body = fields.clone();
    body["name"] = json!(target.name("token"));
    made(target, &body)
}

fn made(target: &Target, body: &Value) -> String {
    let issued = create(target, body).expect_status(201).json();
    let token = issued["token"].as_str().unwrap().to_owned();
    for http in target.services() {
        wait::until_ok(PATIENCE, "a service to know the token", || {
            match ask(http, "GET", "/metrics", Some(&token)).status {
                200 => Ok(()),
                status => Err(status),
            }
        });
    }
    token
}

fn revoke(target: &Target, name: &str) {
    target.registry.request("DELETE", &format!("/api/tokens/{name}"), &[], b"").expect_status(200);
}

/// Shows that token and no other, or none.
fn ask(http: &Http, method: &str, path: &str, token: Option<&str>) -> Response {
    send(http, method, path, token, b"")
}

fn send(http: &Http, method: &str, path: &str, token: Option<&str>, body: &[u8]) -> Response {
    let shown = token.map(|token| format!("Bearer {token}"));
    match &shown {
        Some(shown) => http.request(method, path, &[("Authorization", shown)], body),
        None => {
            Http::new(&format!("http://{}", http.authority())).showing(None).request(method, path, &[], body)
        }
    }
}

/// A route checks the role before it looks at anything else, so that empty requests will do.
fn every_route_is_guarded_as_it_says(target: &Target) {
    let tokens = ["read", "write", "user", "node", "operate"].map(|role| {
        let node = (role == "node").then_some("n");
        (role, token(target, role, node))
    });
    let mut checked = 0;
    for http in target.services() {
        let openapi = http.get("/openapi.json").expect_status(200).json();
        for (path, item) in openapi["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let Some(role) = operation["x-role"].as_str() else { continue };
                let method = method.to_uppercase();
                let path = ["dataName", "nodeName", "node", "id", "token"]
                    .iter()
                    .fold(path.clone(), |path, name| path.replace(&format!("{{{name}}}"), "1"));
                let what = format!("{method} {path} ({role})");
                if !matches!(role, "open" | "read" | "write") {
                    problem(&ask(http, &method, &path, None), 401);
                    checked += 1;
                }
                for (grant, token) in &tokens {
                    // Values may be written by anybody who can connect here, whatever they show.
                    let good_for: &[&str] = match *grant {
                        "read" | "write" => &["open", "read", "write"],
                        "user" => &["open", "read", "write", "user"],
                        "node" => &["open", "read", "write", "node"],
                        _ => continue,
                    };
                    if !good_for.contains(&role) && role != "join" {
                        let answer = ask(http, &method, &path, Some(token));
                        assert_eq!(answer.status, 403, "{what} with {grant}: {answer}");
                        checked += 1;
                    } else if method == "GET" && role == "read" && !path.ends_with("/watch") {
                        let status = ask(http, &method, &path, Some(token)).status;
                        assert!(!matches!(status, 401 | 403), "{what} with {grant}: {status}");
                    }
                }
            }
        }
    }
    assert!(checked > 40, "{checked}");
}

fn a_token_lives_until_it_is_revoked(target: &Target) {
    let name = target.name("laptop");
    let issued = create(target, &json!({ "name": name, "role": "operate" })).expect_status(201);
    assert_eq!(issued.header("cache-control"), Some("no-store"));
    let secret = issued.json()["token"].as_str().unwrap().to_owned();
    problem(&create(target, &json!({ "name": name, "role": "read" })), 409);
    ask(&target.registry, "GET", "/api/tokens", Some(&secret)).expect_status(200);

    let listed = target.registry.get("/api/tokens").expect_status(200).text().to_owned();
    let all: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let row = all.iter().find(|row| row["name"] == name.as_str()).unwrap();
    assert_eq!((&row["state"], &row["role"]), (&json!("live"), &json!("operate")), "{row}");
    assert!(!listed.contains(&secret[9..]) && !listed.contains("hash"), "{listed}");

    // Nobody shuts themselves out.
    problem(&ask(&target.registry, "DELETE", &format!("/api/tokens/{name}"), Some(&secret)), 409);
    let path = format!("/api/tokens/{}", row["id"].as_str().unwrap());
    target.registry.request("DELETE", &path, &[], b"").expect_status(200);
    problem(&ask(&target.registry, "GET", "/api/tokens", Some(&secret)), 401);
    problem(&target.registry.request("DELETE", &path, &[], b""), 404);
    for http in target.services() {
        wait::until(PATIENCE, "a service to know that the token is revoked", || {
            (ask(http, "GET", "/metrics", Some(&secret)).status == 401).then_some(())
        });
    }
    // The name is free again.
    create(target, &json!({ "name": name, "role": "read" })).expect_status(201);
}

fn a_token_expires(target: &Target) {
    let body = json!({ "name": target.name("short"), "role": "operate", "validFor": "300ms" });
    let secret = create(target, &body).expect_status(201).json()["token"].as_str().unwrap().to_owned();
    wait::until(PATIENCE, "the token to expire", || {
        let answer = ask(&target.registry, "GET", "/api/tokens", Some(&secret));
        (answer.status == 401 && answer.text().contains("expired at")).then_some(())
    });
}

fn a_watch_ends_with_the_token_that_opened_it(target: &Target) {
    let (name, reader) = (target.name("watched"), target.name("reader"));
    let secret = named_token(target, &reader, "read", None);
    let path = format!("{WATCH}?dataName={name}");
    let shown = format!("Bearer {secret}");
    let mut events = target.data.sse(&path, &[("Authorization", &shown)]);
    events.next_news(PATIENCE);
    let mut others = target.data.sse(&path, &[]);
    others.next_news(PATIENCE);
    let nobody = Http::new(&format!("http://{}", target.data_address)).showing(None);
    let mut open = nobody.sse(&path, &[]);
    open.next_news(PATIENCE);

    revoke(target, &reader);
    assert_eq!(events.try_next(PATIENCE).unwrap(), None, "it ends in good order");
    problem(&ask(&target.data, "GET", &path, Some(&secret)), 401);
    // Those of others go on.
    target.write(&name, "n", 1);
    for events in [&mut others, &mut open] {
        assert_eq!(events.next_news(PATIENCE).event, "change");
    }
}

fn a_watch_ends_when_its_token_expires(target: &Target) {
    let body = json!({ "name": target.name("brief"), "role": "read", "validFor": "6s" });
    let secret = create(target, &body).expect_status(201).json()["token"].as_str().unwrap().to_owned();
    let shown = format!("Bearer {secret}");
    let path = format!("{WATCH}?dataName={}", target.name("watched"));
    let mut events = wait::until_ok(PATIENCE, "the data service to know the token", || {
        target.data.try_sse(&path, &[("Authorization", &shown)])
    });
    events.next_news(PATIENCE);
    assert_eq!(events.try_next(PATIENCE).unwrap(), None);
    let answer = ask(&target.data, "GET", &path, Some(&secret));
    assert!(problem(&answer, 401)["detail"].as_str().unwrap().contains("expired at"), "{answer}");
}

fn a_question_that_waits_ends_with_its_token(target: &Target) {
    let (fake, name) = (Fake::known(target), target.name("agent"));
    let secret = named_token(target, &name, "node", Some(&fake.node));
    let path = fake.path(&format!("/slots?agent={}&boot={}&waitMs=60000", fake.agent, fake.boot));
    let question =
        |revision: u64| ask(&target.manager, "GET", &format!("{path}&revision={revision}"), Some(&secret));
    std::thread::scope(|scope| {
        let (tell, asked) = std::sync::mpsc::channel();
        let asking = scope.spawn(move || {
            // Others register meanwhile, so that now and then there is something new; and a manager whose database was
            // away for too long leads anew.
            let mut revision = 0;
            loop {
                let answer = question(revision);
                revision = match answer.status {
                    200 => answer.json()["revision"].as_u64().unwrap(),
                    503 if answer.json()["type"] == "standing-by" => 0,
                    _ => return answer,
                };
                let _ = tell.send(());
            }
        });
        asked.recv().unwrap();
        revoke(target, &name);
        problem(&asking.join().unwrap(), 401);
    });
    fake.leave().expect_status(200);
}

fn a_malformed_token_is_refused_also_where_none_is_needed(target: &Target) {
    for (shown, says) in [
        ("Bearer estimand_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "not known here"),
        ("Basic dTpw", "expected `Authorization: Bearer TOKEN`"),
        ("Bearer", "expected `Authorization: Bearer TOKEN`"),
    ] {
        for http in target.services() {
            let answer = http.request("GET", "/metrics", &[("Authorization", shown)], b"");
            problem(&answer, 401);
            assert!(answer.text().contains(says), "{answer}");
        }
    }
    // A proxy between may have looked at the other one.
    let own = format!("Authorization: Bearer {}", estimand_testkit::TOKEN);
    for other in [own.as_str(), "Authorization: Bearer estimand_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let twice = format!("GET /api/tokens HTTP/1.1\r\nHost: localhost\r\n{own}\r\n{other}\r\n\r\n");
        problem(&target.registry.raw(twice.as_bytes()), 401);
    }
    for (body, field) in [
        (json!({ "name": "a b", "role": "read" }), "name"),
        (json!({ "name": "a", "role": "root" }), "role"),
        (json!({ "name": "a", "role": "node" }), "node"),
        (json!({ "name": "a", "role": "read", "until": 1 }), "until"),
    ] {
        let answer = create(target, &body);
        assert_eq!(problem(&answer, 400)["errors"][0]["field"], field, "{answer}");
    }
}

fn a_node_speaks_for_itself(target: &Target) {
    let (own, other) = (target.name("own"), target.name("other"));
    let secret = token(target, "node", Some(&own));
    let name = target.name("said");
    let write = |node: &str| json!({ "dataName": name, "nodeName": node, "dataValue": 1 });
    let put =
        |body: &Value| send(&target.data, "PUT", "/api/data", Some(&secret), body.to_string().as_bytes());
    put(&write(&own)).expect_status(201);
    let refused = put(&write(&other));
    assert_eq!(problem(&refused, 403)["errors"][0]["field"], "nodeName", "{refused}");
    let batch = json!([write(&own), write(&other)]).to_string();
    let refused = send(&target.data, "POST", "/api/data/batch", Some(&secret), batch.as_bytes());
    assert_eq!(problem(&refused, 403)["errors"][0]["field"], "[1].nodeName", "{refused}");
    assert_eq!(target.query(&format!("dataName={name}")).len(), 1);

    let delete = |query: &str| {
        ask(&target.data, "DELETE", &format!("/api/data?dataName={name}{query}"), Some(&secret))
    };
    problem(&delete(""), 403);
    problem(&delete(&format!("&dataNode={other}")), 403);
    delete(&format!("&dataNode={own}")).expect_status(200);

    for path in [format!("/api/nodes/{other}/heartbeat"), format!("/api/nodes/{other}/runs/1")] {
        problem(&send(&target.manager, "POST", &path, Some(&secret), b"{}"), 403);
    }
    let slots = format!("/api/nodes/{other}/slots?agent=a&boot=1");
    problem(&ask(&target.manager, "GET", &slots, Some(&secret)), 403);
}

fn every_change_is_audited(target: &Target) {
    let (name, bound, holder) = (target.name("audited"), target.name("bound"), target.name("holder"));
    target.register(&json!({ "dataName": name, "cmd": "true", "max-Time": 3600 }));
    target.data.send_json("PUT", &format!("/api/bindings/{bound}"), &json!({ "to": name }));
    let secret = create(target, &json!({ "name": holder, "role": "operate" })).expect_status(201).json();
    let secret = secret["token"].as_str().unwrap();
    // A binding serves it, which alone would keep it.
    let path = format!("/api/registry/{name}?force=true");
    ask(&target.registry, "DELETE", &path, Some(secret)).expect_status(204);

    let trail: Vec<Value> =
        serde_json::from_str(target.registry.get("/api/audit?limit=1000").expect_status(200).text()).unwrap();
    assert!(trail.is_sorted_by(|later, earlier| later["at"].as_str() >= earlier["at"].as_str()));
    let said = |kind: &str, subject: &str| -> Vec<(String, String, String)> {
        let ours = trail.iter().filter(|entry| entry["kind"] == kind && entry["subject"] == subject);
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        ours.map(|entry| (text(entry, "by"), text(entry, "from"), text(entry, "action"))).collect()
    };
    let of = |by: &str, action: &str| (by.to_owned(), "127.0.0.1".to_owned(), action.to_owned());
    assert_eq!(said("registration", &name), [of(&holder, "deleted"), of("ESTIMAND_TOKEN", "created")]);
    assert_eq!(said("binding", &bound), [of("ESTIMAND_TOKEN", "bound")]);
    assert_eq!(said("token", &holder), [of("ESTIMAND_TOKEN", "created")]);
    assert!(!trail.iter().any(|entry| entry.to_string().contains(secret)));

    let before = trail[0]["at"].as_str().unwrap();
    let page = format!("/api/audit?limit=1&before={before}");
    let page: Vec<Value> =
        serde_json::from_str(target.registry.get(&page).expect_status(200).text()).unwrap();
    assert!(page.len() == 1 && page[0]["at"].as_str() < Some(before), "{page:?}");
    problem(&target.registry.get("/api/audit?limit=0"), 400);
    problem(&target.registry.get("/api/audit?before=yesterday"), 400);
}

fn pages_of_other_sites_get_nothing(target: &Target) {
    let name = target.name("page");
    let body = json!({ "dataName": name, "nodeName": "n", "dataValue": 1 }).to_string();
    let put = |origin: &str| target.data.request("PUT", "/api/data", &[("Origin", origin)], body.as_bytes());
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        problem(&put(origin), 403);
    }
    assert_eq!(target.query(&format!("dataName={name}")).len(), 0);
    put(&format!("http://{}", target.data_address)).expect_status(201);
    // A name that leads here by its owner's DNS.
    let rebound = "GET /api/data?dataName=* HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    problem(&target.data.raw(rebound.as_bytes()), 403);
    let proxied =
        rebound.replace("/api", "http://evil.example/api").replace("Host: evil.example", "Host: localhost");
    problem(&target.data.raw(proxied.as_bytes()), 403);
    let answer = target.data.get("/api/data?dataName=*").expect_status(200);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(
        answer
            .header("content-security-policy")
            .is_some_and(|policy| policy.starts_with("default-src 'none'"))
    );
}

on_every_target!(
    every_route_is_guarded_as_it_says,
    a_token_lives_until_it_is_revoked,
    a_token_expires,
    a_watch_ends_with_the_token_that_opened_it,
    a_watch_ends_when_its_token_expires,
    a_question_that_waits_ends_with_its_token,
    a_malformed_token_is_refused_also_where_none_is_needed,
    a_node_speaks_for_itself,
    every_change_is_audited,
    pages_of_other_sites_get_nothing,
);
