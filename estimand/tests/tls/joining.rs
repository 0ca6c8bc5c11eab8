//! Nodes join, renew, and are shut out.

use estimand_api::access::Token;
use estimand_client::{Client, Credentials, Options};
use estimand_pki::Certificate;
use estimand_testkit::netns::Network;
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::wait::{self, PATIENCE};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::plane::{Plane, read, refused, succeeds};

#[test]
fn a_node_joins_from_another_machine_and_what_it_measures_is_read_over_tls() {
    let network = Network::new();
    let host = network.host("far");
    let plane = Plane::start_at(network.address().into(), &[]);
    plane.register_load();
    let token = plane.join_token("far", &[]);
    let mut agent = plane.agent("far", Some(&token)).inside(&host).start();
    let first = plane.wait_value("far", None);

    // As anybody reads it from there who was given the authority's certificate.
    let (authority, url) = (plane.pki().join("authority.pem"), format!("{}/api/data/load/far", plane.url()));
    let header = format!("Authorization: Bearer {}", estimand_testkit::TOKEN);
    let mut curl = host.command("curl");
    curl.args(["--silent", "--show-error", "--fail", "--header", &header, "--cacert"])
        .arg(authority)
        .arg(&url);
    let value: Value = serde_json::from_str(&succeeds(curl.output().unwrap())).unwrap();
    assert_eq!(value["nodeName"], "far");
    let mut strange = host.command("curl");
    strange.args(["--silent", "--show-error", "--header", &header]).arg(&url);
    assert!(!strange.output().unwrap().status.success(), "nobody else trusts that authority");
    // Nothing is open there, but whether the service is well.
    assert_eq!(
        plane.http(None).send(Method::GET, "/api/data?dataName=load", None).0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(plane.http(None).send(Method::GET, "/healthz", None).0, StatusCode::OK);

    // From now on it needs no token.
    agent.terminate();
    let _again = plane.agent("far", None).inside(&host).start();
    plane.wait_value("far", Some(&first));
}

#[test]
fn a_join_token_is_good_for_one_node_once() {
    let plane = Plane::start(&[]);
    let token = plane.join_token("once", &[]);
    // Nothing else can be done with it.
    let bare = token.rsplit_once('.').unwrap().0;
    let http = plane.http(None);
    for (method, path, expected) in [
        (Method::GET, "/api/tokens", StatusCode::FORBIDDEN),
        (Method::POST, "/api/registry", StatusCode::FORBIDDEN),
        (Method::GET, "/api/nodes/n1/slots", StatusCode::FORBIDDEN),
        (Method::GET, "/healthz", StatusCode::OK),
    ] {
        assert_eq!(http.try_send(method, path, Some(bare), None).unwrap().0, expected, "{path}");
    }
    let fails = |node: &str, join: &str, says: &str| {
        let failure = plane.agent(node, Some(join)).try_start().err().unwrap();
        assert!(failure.contains(says), "{failure}");
        assert!(!failure.contains(bare), "it shows the token");
    };
    // The service's authority is another one: the token is not even sent.
    let digit = if token.ends_with('0') { '1' } else { '0' };
    let wrong_pin = format!("{}{digit}", &token[..token.len() - 1]);
    fails("n1", &wrong_pin, "it does not show the authority that the join token names");
    fails("n1", "estimand_nonsense", "expected what `estimand token create NAME --role join` printed");
    let _first = plane.agent("n1", Some(&token)).start();
    fails("n2", &token, "this token is not known here, or it was revoked");
}

#[test]
fn a_name_that_anything_is_known_of_is_not_given_to_an_open_token() {
    let plane = Plane::start(&[]);
    let fails = |node: &str, join: &str, says: &str| {
        let failure = plane.agent(node, Some(join)).try_start().err().unwrap();
        assert!(failure.contains(says), "{failure}");
    };
    let _first = plane.agent("n1", Some(&plane.join_token("once", &[]))).start();

    // Names that are taken are not given away, unless that is what the token is for.
    let other = plane.join_token("other", &[]);
    let folder = plane.folder.path().join("thief");
    let failure = plane.agent("n1", Some(&other)).data_dir(&folder).try_start().err().unwrap();
    assert!(failure.contains("speaks for the node n1, or did: join with a token"), "{failure}");
    // Nor are those under which something is known, such as the name of a node whose certificate `pki issue` made.
    let value = json!({ "dataName": "load", "nodeName": "valued", "dataValue": 1 });
    assert!(plane.http(None).operator(Method::PUT, "/api/data", Some(&value)).0.is_success());
    fails("valued", &other, "the node valued has values: join with a token that was made for this node");
    // The token is still good; it is read from a file, which is in no list of processes.
    let file = plane.folder.path().join("join");
    std::fs::write(&file, format!("{other}\n")).unwrap();
    let filed = || plane.agent("filed", None).args(["--join-file".as_ref(), file.as_os_str()]);
    drop(filed().start());
    // It is needed once; without it, a node that has not joined says so.
    std::fs::remove_file(&file).unwrap();
    drop(filed().start());
    let failure = filed().data_dir(plane.folder.path().join("elsewhere")).try_start().err().unwrap();
    assert!(failure.contains("this node has not joined yet, and --join-file"), "{failure}");
    let bound = plane.join_token("bound", &["--node", "n1"]);
    fails("n3", &bound, "is for the node n1, not for n3");
    let before = Certificate::first_in(&read(&plane.shown_by("n1").certificate)).unwrap();
    let old = plane.http(Some(&plane.shown_by("n1")));
    assert_eq!(old.send(Method::GET, "/api/registry", None).0, StatusCode::OK);
    let _replaced = plane.agent("n1", Some(&bound)).data_dir(&folder).start();
    let now = Certificate::first_in(&read(&folder.join("node.pem"))).unwrap();
    assert_ne!(before.key, now.key);
    let (status, text) = old.send(Method::GET, "/api/registry", None);
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{text}");
}

#[test]
fn a_node_that_did_not_hear_the_answer_joins_all_the_same() {
    let plane = Plane::start(&[]);
    let token = plane.join_token("unheard", &[]);
    let bare = Token::parse(token.rsplit_once('.').unwrap().0).unwrap();
    let address = plane.url().strip_prefix("https://").unwrap().parse().unwrap();
    let proxy = Proxy::to(address);
    let credentials = Credentials { token: Some(bare), trust: plane.trust(), identity: None };
    let options = Options { attempts: 1, credentials, ..Options::default() };
    let client = Client::with_options(&format!("https://{}", proxy.address()), options).unwrap();
    let key = estimand_pki::new_key().unwrap();
    let (node, request) = ("n1".parse().unwrap(), estimand_pki::request(&key).unwrap());
    // The connection is made before its answers are held.
    assert_eq!(refused(plane.wait(client.tokens())).status(), Some(403));
    proxy.pause_only(Way::ToClient);
    let (asker, asked) = (client.clone(), request.clone());
    let asking = plane.runtime().spawn(async move { asker.sign_certificate(&node, &asked).await });
    wait::until(PATIENCE, "the token to be used", || {
        let trail = plane.http(None).operator(Method::GET, "/api/audit", None).1;
        trail.contains(r#""action":"used""#).then_some(())
    });
    proxy.cut();
    refused(plane.wait(asking).unwrap());
    proxy.resume();

    // Another key is too late, and what is used up is good for nothing else.
    let node = "n1".parse().unwrap();
    let other = estimand_pki::request(&estimand_pki::new_key().unwrap()).unwrap();
    assert_eq!(refused(plane.wait(client.sign_certificate(&node, &other))).status(), Some(401));
    assert_eq!(refused(plane.wait(client.tokens())).status(), Some(401));
    let elsewhere = "n2".parse().unwrap();
    assert_eq!(refused(plane.wait(client.sign_certificate(&elsewhere, &request))).status(), Some(409));
    plane.wait(client.sign_certificate(&node, &request)).unwrap();

    // An agent that was started again asks with the key that it had.
    std::fs::create_dir_all(plane.agent_folder("n1")).unwrap();
    std::fs::write(plane.agent_folder("n1").join("joining.key"), &key).unwrap();
    let _agent = plane.agent("n1", Some(&token)).start();
    assert_eq!(read(&plane.shown_by("n1").key), key);
    assert!(!plane.agent_folder("n1").join("joining.key").exists());
    // Not when that key has been shut out.
    let tokens = plane.http(None).operator(Method::GET, "/api/tokens", None).1;
    succeeds(plane.command(&["token", "revoke", &certificate_of(&tokens, "n1")]).output().unwrap());
    assert_eq!(refused(plane.wait(client.sign_certificate(&node, &request))).status(), Some(409));
}

#[test]
fn a_node_speaks_only_for_itself() {
    let plane = Plane::start(&[]);
    let _agent = plane.agent("n1", Some(&plane.join_token("n1", &[]))).start();
    let node = plane.http(Some(&plane.shown_by("n1")));
    let value = |node: &str| json!({ "dataName": "fact", "nodeName": node, "dataValue": 1 });
    assert_eq!(node.send(Method::POST, "/api/data", Some(&value("n1"))).0, StatusCode::CREATED);
    let request = estimand_pki::request(&estimand_pki::new_key().unwrap()).unwrap();
    let asked = json!({ "request": request });
    let registration = json!({ "dataName": "evil", "cmd": "/bin/true", "max-Time": "1s" });
    for (method, path, body) in [
        (Method::POST, "/api/data", Some(&value("n2"))),
        (Method::GET, "/api/nodes/n2/slots?agent=a&boot=1&revision=0&waitMs=0", None),
        (Method::POST, "/api/nodes/n2/certificate", Some(&asked)),
        // Its own, but of another key.
        (Method::POST, "/api/nodes/n1/certificate", Some(&asked)),
        (Method::POST, "/api/registry", Some(&registration)),
        (Method::GET, "/api/tokens", None),
    ] {
        let (status, text) = node.send(method, path, body);
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {text}");
    }
    // Both are looked at, and the token says more.
    let both = node.operator(Method::GET, "/api/tokens", None);
    assert_eq!(both.0, StatusCode::OK);
    // A token that ends some day does not become a certificate, which is renewed for ever.
    let made = plane.command(&["token", "create", "n3", "--role", "node", "--node", "n3"]).output().unwrap();
    let http = plane.http(None);
    let path = "/api/nodes/n3/certificate";
    let answer = http.try_send(Method::POST, path, Some(succeeds(made).trim()), Some(&asked)).unwrap();
    assert_eq!(answer.0, StatusCode::FORBIDDEN, "{}", answer.1);
    let name = certificate_of(&both.1, "n1");
    let trail = plane.http(None).operator(Method::GET, "/api/audit", None).1;
    assert!(trail.contains(r#""action":"joined""#) && trail.contains(&name), "{trail}");
}

#[test]
fn a_revoked_certificate_ends_at_once() {
    let plane = Plane::start(&[]);
    let _agent = plane.agent("n1", Some(&plane.join_token("n1", &[]))).start();
    let node = plane.http(Some(&plane.shown_by("n1")));
    assert_eq!(node.send(Method::GET, "/api/registry", None).0, StatusCode::OK);
    let tokens = plane.http(None).operator(Method::GET, "/api/tokens", None).1;
    let name = certificate_of(&tokens, "n1");
    let mut watch = plane.wait(async {
        let url = format!("{}/api/data/watch?dataName=*", plane.url());
        let mut open = node.client.get(url).send().await.unwrap();
        assert!(open.chunk().await.unwrap().is_some());
        open
    });
    succeeds(plane.command(&["token", "revoke", &name]).output().unwrap());
    // Public routes.
    plane.wait(async { while watch.chunk().await.unwrap().is_some() {} });
    // On the connection that is there, on others, and with a token beside it.
    for http in [&node, &plane.http(Some(&plane.shown_by("n1")))] {
        let (status, text) = http.send(Method::GET, "/api/registry", None);
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{text}");
        assert!(text.contains("the certificate of node n1 was revoked"), "{text}");
        assert_eq!(http.operator(Method::GET, "/api/registry", None).0, StatusCode::UNAUTHORIZED);
    }
    let request = estimand_pki::request(&read(&plane.shown_by("n1").key)).unwrap();
    let renewing = node.send(Method::POST, "/api/nodes/n1/certificate", Some(&json!({ "request": request })));
    assert_eq!(renewing.0, StatusCode::UNAUTHORIZED);
}

#[test]
fn a_certificate_is_renewed_while_its_node_is_at_work() {
    let plane = Plane::start(&["--node-certificates-for", "6s"]);
    plane.register_load();
    let agent = plane.agent("n1", Some(&plane.join_token("n1", &[]))).start();
    let mut seen = plane.wait_value("n1", None);
    let certificate = || Certificate::first_in(&read(&plane.shown_by("n1").certificate)).unwrap();
    let first = certificate();
    let over = first.not_after + chrono::TimeDelta::seconds(6);
    wait::until_ok(PATIENCE * 2, "two lives of a certificate to pass", || {
        seen = plane.wait_value("n1", Some(&seen));
        match chrono::Utc::now() > over {
            true => Ok(()),
            false => Err("not yet"),
        }
    });
    let last = certificate();
    assert_eq!(first.key, last.key);
    assert!(last.not_after > over, "{last:?}");
    // Nothing was refused in between.
    let log = agent.stderr_tail();
    for trouble in ["WARN", "ERROR"] {
        assert!(!log.contains(trouble), "{log}");
    }
    let tokens: Value =
        serde_json::from_str(&plane.http(None).operator(Method::GET, "/api/tokens", None).1).unwrap();
    let certificates = tokens.as_array().unwrap().iter().filter(|token| token["node"] == "n1");
    assert_eq!(certificates.count(), 1, "one row a key: {tokens}");
}

#[test]
fn an_agent_with_an_expired_certificate_says_what_to_do() {
    let plane = Plane::start(&["--node-certificates-for", "2s"]);
    let mut agent = plane.agent("n1", Some(&plane.join_token("n1", &[]))).start();
    agent.kill9();
    let end = Certificate::first_in(&read(&plane.shown_by("n1").certificate)).unwrap().not_after;
    wait::until(PATIENCE, "its certificate to expire", || (chrono::Utc::now() > end).then_some(()));
    let failure = plane.agent("n1", None).try_start().err().unwrap();
    assert!(failure.contains("expired at") && failure.contains("estimand agent --join TOKEN"), "{failure}");
    let other = plane.agent("n2", None).data_dir(plane.agent_folder("n1")).try_start().err().unwrap();
    assert!(other.contains("the one of the node n1, and this is the node n2"), "{other}");
    // The name stays its own: that takes a token that was made for it.
    let open = plane.agent("n1", Some(&plane.join_token("open", &[]))).try_start().err().unwrap();
    assert!(open.contains("speaks for the node n1, or did"), "{open}");
    let _again = plane.agent("n1", Some(&plane.join_token("again", &["--node", "n1"]))).start();
}

/// The name under which the certificate of a node is listed.
#[track_caller]
fn certificate_of(tokens: &str, node: &str) -> String {
    let tokens: Value = serde_json::from_str(tokens).unwrap();
    let found =
        tokens.as_array().unwrap().iter().find(|token| token["node"] == node && token["state"] == "live");
    found.unwrap_or_else(|| panic!("{tokens}"))["name"].as_str().unwrap().to_owned()
}
