//! The certificate of a service, and the authority of all, are replaced while everything is at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use estimand_api::identity::Identity;
use estimand_client::CertificateFiles;
use estimand_pki::Authority;
use estimand_testkit::wait::{self, PATIENCE};
use reqwest::Method;

use crate::plane::{Plane, estimand, read, succeeds};

const METRIC: &str = "estimand_tls_certificate_expires_timestamp_seconds ";

#[test]
fn a_certificate_is_replaced_under_load_and_no_request_fails() {
    let plane = Plane::start(&[]);
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let url = format!("{}/healthz", plane.url());
    // One keeps its connection; the others make one for each request.
    let load: Vec<_> = [true, false, false]
        .into_iter()
        .map(|keeps| {
            let (stop, answered, url) = (Arc::clone(&stop), Arc::clone(&answered), url.clone());
            let (kept, authority) =
                (plane.http(None).client, std::fs::read(plane.pki().join("authority.pem")).unwrap());
            plane.runtime().spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let client = match keeps {
                        true => kept.clone(),
                        false => {
                            let roots = reqwest::Certificate::from_pem_bundle(&authority).unwrap();
                            reqwest::Client::builder().no_proxy().tls_certs_only(roots).build().unwrap()
                        }
                    };
                    let answer = client.get(&url).send().await.map_err(|error| format!("{error:?}"));
                    assert_eq!(answer.unwrap().status(), 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let pki = plane.pki().display().to_string();
    for days in ["100d", "200d", "300d"] {
        let before = expires(&plane);
        let args = ["pki", "issue", "plane", "--service", "--dir", &pki, "--valid-for", days];
        succeeds(estimand(&args));
        wait::until(PATIENCE, "the new certificate to be read", || (expires(&plane) > before).then_some(()));
        let so_far = answered.load(Ordering::Relaxed);
        wait::until(PATIENCE, "requests", || (answered.load(Ordering::Relaxed) > so_far + 20).then_some(()));
    }
    // A key and a certificate that do not match change nothing.
    let before = expires(&plane);
    std::fs::write(plane.pki().join("service.key"), estimand_pki::new_key().unwrap()).unwrap();
    wait::until(PATIENCE, "a word about it", || {
        plane.services.stderr_tail().contains("the new certificates cannot be used").then_some(())
    });
    let so_far = answered.load(Ordering::Relaxed);
    wait::until(PATIENCE, "requests", || (answered.load(Ordering::Relaxed) > so_far + 20).then_some(()));
    assert_eq!(expires(&plane).to_bits(), before.to_bits());
    stop.store(true, Ordering::Relaxed);
    for task in load {
        plane.wait(task).unwrap();
    }
}

#[test]
fn an_authority_is_replaced_and_nothing_is_started_again() {
    let plane = Plane::start(&["--node-certificates-for", "6s"]);
    plane.register_load();
    let _agent = plane.agent("n1", Some(&plane.join_token("n1", &[]))).start();
    let seen = plane.wait_value("n1", None);
    let of_old = Authority::open(&plane.pki()).unwrap();
    let now = chrono::Utc::now();
    let alice = Identity::parse("estimand:operator:alice").unwrap();
    let issued = of_old.issue(&alice, &[], Duration::from_secs(3600), now).unwrap();
    let shown = CertificateFiles::beside(plane.folder.path().join("alice.pem"));
    std::fs::write(&shown.certificate, &issued.signed.chain).unwrap();
    std::fs::write(&shown.key, &issued.key).unwrap();
    assert_eq!(plane.http(Some(&shown)).send(Method::GET, "/api/tokens", None).0, 200);

    // Both are believed, by the services at once, and by the nodes when they have renewed.
    let new = plane.folder.path().join("new");
    Authority::init(&new, now).unwrap();
    let [before, after] = [&plane.pki(), &new].map(|folder| read(&folder.join("authority.pem")));
    let believes = |expected: &str| {
        wait::until(PATIENCE, "the node to believe that", || {
            (read(&plane.agent_folder("n1").join("authority.pem")) == expected).then_some(())
        });
    };
    let both = format!("{before}{after}");
    std::fs::write(plane.pki().join("authority.pem"), &both).unwrap();
    believes(&both);

    // The new one signs, services and nodes.
    let both = format!("{after}{before}");
    std::fs::copy(new.join("authority.key"), plane.pki().join("authority.key")).unwrap();
    std::fs::write(plane.pki().join("authority.pem"), &both).unwrap();
    let pki = plane.pki().display().to_string();
    succeeds(estimand(&["pki", "issue", "plane", "--service", "--dir", &pki]));
    believes(&both);
    let seen = plane.wait_value("n1", Some(&seen));

    // The old one is forgotten.
    std::fs::write(plane.pki().join("authority.pem"), &after).unwrap();
    believes(&after);
    wait::until(PATIENCE, "what the old authority signed to be refused", || {
        plane.http(Some(&shown)).try_send(Method::GET, "/healthz", None, None).is_err().then_some(())
    });
    let seen = plane.wait_value("n1", Some(&seen));
    plane.wait_value("n1", Some(&seen));
    // Nodes join with it.
    let _other = plane.agent("n2", Some(&plane.join_token("n2", &[]))).start();
    plane.wait_value("n2", None);
}

/// When the certificate that is shown expires, as the service says.
#[track_caller]
fn expires(plane: &Plane) -> f64 {
    let (_, text) = plane.http(None).operator(Method::GET, "/metrics", None);
    let line = text.lines().find_map(|line| line.strip_prefix(METRIC));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}
