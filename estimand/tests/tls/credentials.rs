//! Credentials that are not good enough, on every route and in every spelling: revoked and expired certificates, and
//! tokens that are good for something else than a certificate.

use estimand_client::CertificateFiles;
use estimand_pki::Certificate;
use estimand_testkit::wait::{self, PATIENCE};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::plane::{Plane, read, succeeds};

/// Each operation of the services, about the node `n1` where it is about one.
fn operations(plane: &Plane) -> Vec<(Method, String)> {
    let described = plane.http(None).operator(Method::GET, "/openapi.json", None).1;
    let described: Value = serde_json::from_str(&described).unwrap();
    let mut all = Vec::new();
    for (path, item) in described["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().iter().filter(|(_, it)| it["x-role"].is_string());
        for (method, _) in methods {
            let parts = path.split('/').map(|part| if part.starts_with('{') { "n1" } else { part });
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            all.push((method, parts.collect::<Vec<_>>().join("/")));
        }
    }
    assert!(all.len() > 50, "{all:?}");
    all
}

/// A certificate has to be good also where none is needed, or a proxy could be made to think that it is.
#[test]
fn a_certificate_that_is_over_is_refused_on_every_route() {
    let plane = Plane::start(&["--node-certificates-for", "4s"]);
    let joined = |node: &str| {
        let mut agent = plane.agent(node, Some(&plane.join_token(node, &[]))).start();
        agent.kill9();
        plane.shown_by(node)
    };
    let connected = |files: &CertificateFiles| {
        let http = plane.http(Some(files));
        assert_eq!(http.send(Method::GET, "/api/registry", None).0, StatusCode::OK);
        http
    };
    let (revoked, expired) = (joined("n1"), joined("n2"));
    let first = connected(&revoked);
    // Its connection outlives the certificate.
    let second = connected(&expired);
    let mut command = plane.command(&["token", "revoke", "--of-certificate"]);
    succeeds(command.arg(&revoked.certificate).output().unwrap());
    for (method, path) in operations(&plane) {
        let (status, text) = first.send(method.clone(), &path, Some(&json!({})));
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}: {text}");
        assert!(text.contains("was revoked"), "{method} {path}: {text}");
    }
    let end = Certificate::first_in(&read(&expired.certificate)).unwrap().not_after;
    wait::until(PATIENCE, "a certificate to expire", || (chrono::Utc::now() > end).then_some(()));
    for path in ["/healthz", "/api/registry", "/api/data?dataName=*", "/api/nodes/n2/slots?agent=a&boot=1"] {
        let (status, text) = second.send(Method::GET, path, None);
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}: {text}");
        assert!(text.contains("expired at"), "{path}: {text}");
    }
    // A new one is not even made, but in the second in which it expired.
    let again = plane.http(Some(&expired)).try_send(Method::GET, "/healthz", None, None);
    assert!(again.as_ref().map_or(true, |(status, _)| *status == StatusCode::UNAUTHORIZED), "{again:?}");
}

#[test]
fn a_certificate_is_given_for_what_is_good_for_that_node_alone() {
    let plane = Plane::start(&[]);
    let create = |name: &str, more: &[&str]| {
        let args = [&["token", "create", name], more].concat();
        let token = succeeds(plane.command(&args).output().unwrap()).trim().to_owned();
        // A join token names the authority behind a dot.
        token.split('.').next().unwrap().to_owned()
    };
    let (read, write) = (create("read", &["--role", "read"]), create("write", &["--role", "write"]));
    let node = create("node", &["--role", "node", "--node", "n9"]);
    let bound = create("bound", &["--role", "join", "--node", "n9"]);
    let open = create("open", &["--role", "join"]);
    let gone = create("gone", &["--role", "join"]);
    succeeds(plane.command(&["token", "revoke", "gone"]).output().unwrap());
    let brief = create("brief", &["--role", "join", "--valid-for", "1s"]);
    let http = plane.http(None);
    let ask = |token: Option<&str>, path: &str, body: &Value| {
        http.try_send(Method::POST, path, token, Some(body)).unwrap()
    };
    let of_new_key =
        || json!({ "request": estimand_pki::request(&estimand_pki::new_key().unwrap()).unwrap() });
    wait::until(PATIENCE, "a join token to expire", || {
        let (status, text) = ask(Some(&brief), "/api/nodes/n7/certificate", &json!({}));
        (status == StatusCode::UNAUTHORIZED && text.contains("expired at")).then_some(())
    });

    let of_n8 = "/api/nodes/n8/certificate";
    let spellings =
        ["/api/nodes/n9/certificate", "/api/nodes/%6e9/certificate", "/api/nodes/n8/../n9/certificate"];
    for (token, status, says) in [
        (None, 401, "a token"),
        (Some("estimand_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), 401, "not known here"),
        (Some(gone.as_str()), 401, "not known here"),
        (Some(brief.as_str()), 401, "expired at"),
        (Some(read.as_str()), 403, "this needs join"),
        (Some(write.as_str()), 403, "this needs join"),
        (Some(node.as_str()), 403, "a certificate takes the role join"),
    ] {
        for path in spellings {
            let (found, text) = ask(token, path, &of_new_key());
            assert_eq!(
                (found.as_u16(), text.contains(says)),
                (status, true),
                "{path} with {token:?}: {text}"
            );
        }
    }
    for token in [&node, &bound] {
        let (status, text) = ask(Some(token), of_n8, &of_new_key());
        assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
        assert!(text.contains("is for the node n9, not for n8"), "{text}");
    }
    // In the same spellings with what is good it is not given to another name either.
    for path in ["/api/nodes/N9/certificate", "/api/nodes/n9%2f/certificate", "/api/nodes/n9%00/certificate"]
    {
        let (status, text) = ask(Some(&bound), path, &of_new_key());
        assert!(status.is_client_error() && !text.contains("BEGIN"), "{path}: {status} {text}");
    }

    // A request that is sent once is good once, for one key; and for the same key only for the same node.
    let first = of_new_key();
    assert_eq!(ask(Some(&open), of_n8, &first).0, StatusCode::CREATED);
    assert_eq!(ask(Some(&open), of_n8, &first).0, StatusCode::CREATED, "its answer may have been lost");
    for (path, body, status) in [
        (of_n8, of_new_key(), 401),
        ("/api/nodes/n7/certificate", of_new_key(), 401),
        ("/api/nodes/n7/certificate", first.clone(), 409),
    ] {
        let (found, text) = ask(Some(&open), path, &body);
        assert_eq!(found.as_u16(), status, "{path}: {text}");
    }
    // A key that is a node's gets no other name by another token.
    assert_eq!(ask(Some(&bound), spellings[0], &first).0, StatusCode::CONFLICT);
    for (body, says) in [
        (json!({}), "request"),
        (
            json!({ "request": "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n" }),
            "request",
        ),
        (json!({ "request": 1 }), "request"),
        (json!({ "request": first["request"], "node": "n8" }), "node"),
    ] {
        let (status, text) = ask(Some(&bound), spellings[0], &body);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(ask(Some(&bound), spellings[0], &of_new_key()).0, StatusCode::CREATED);
}
