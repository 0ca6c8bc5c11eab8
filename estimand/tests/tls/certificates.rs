//! Certificates that are not good enough, on either side.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use estimand_api::identity::Identity;
use estimand_client::{CertificateFiles, Credentials, Error, Trust};
use estimand_pki::Authority;
use reqwest::{Method, StatusCode};

use crate::plane::{Plane, refused, succeeds};

const HOUR: Duration = Duration::from_secs(3600);

/// Writes what that authority issues at that time for an hour.
pub fn issue(
    plane: &Plane,
    authority: &Authority,
    who: &str,
    name: &str,
    now: DateTime<Utc>,
) -> CertificateFiles {
    let issued = authority.issue(&Identity::parse(who).unwrap(), &[], HOUR, now).unwrap();
    let files = CertificateFiles::beside(plane.folder.path().join(format!("{name}.pem")));
    std::fs::write(&files.certificate, &issued.signed.chain).unwrap();
    std::fs::write(&files.key, &issued.key).unwrap();
    files
}

#[test]
fn only_what_is_valid_now_and_of_our_authority_is_let_in() {
    let plane = Plane::start(&[]);
    let ours = Authority::open(&plane.pki()).unwrap();
    let theirs = Authority::init(&plane.folder.path().join("theirs"), Utc::now()).unwrap();
    let now = Utc::now();
    let good = issue(&plane, &ours, "estimand:operator:alice", "good", now);
    let answer = plane.http(Some(&good)).send(Method::GET, "/api/tokens", None);
    assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
    let service = issue(&plane, &ours, "estimand:service:other", "service", now);
    assert_eq!(plane.http(Some(&service)).send(Method::GET, "/api/tokens", None).0, StatusCode::OK);
    // A certificate issued without the service is revoked there all the same.
    let mut command = plane.command(&["token", "revoke", "--of-certificate"]);
    succeeds(command.arg(&good.certificate).output().unwrap());
    let answer = plane.http(Some(&good)).send(Method::GET, "/healthz", None);
    assert_eq!(answer.0, StatusCode::UNAUTHORIZED, "{}", answer.1);
    for (name, authority, at) in [
        ("expired", &ours, now - TimeDelta::hours(2)),
        ("early", &ours, now + TimeDelta::hours(2)),
        ("theirs", &theirs, now),
    ] {
        let wrong = issue(&plane, authority, "estimand:operator:alice", name, at);
        // A certificate must be valid, also where none is needed.
        let answer = plane.http(Some(&wrong)).try_send(Method::GET, "/healthz", None, None);
        assert!(answer.is_err(), "{name}: {answer:?}");
    }
}

#[test]
fn a_service_that_cannot_show_who_it_is_gets_nothing() {
    let plane = Plane::start(&[]);
    let theirs = plane.folder.path().join("theirs");
    Authority::init(&theirs, Utc::now()).unwrap();
    let file = theirs.join("authority.pem");
    let trusting = |trust| plane.client(Credentials { trust, ..Credentials::default() });
    let unknown = |trust| match refused(plane.wait(trusting(trust).nodes())) {
        Error::Untrusted { cause, .. } => cause,
        other => panic!("{other}"),
    };
    let says = unknown(Some(Trust::Authority(file)));
    assert!(says.contains("--authority") && says.contains("ESTIMAND_AUTHORITY"), "{says}");
    assert!(unknown(None).contains("--authority"), "the system does not know it either");
    assert!(unknown(Some(Trust::Pin([7; 32]))).contains("the authority that the join token names"));
    // By an address that its certificate does not name.
    let elsewhere = plane.url().replace("127.0.0.1", "127.0.0.2");
    let options = estimand_client::Options {
        credentials: Credentials { trust: plane.trust(), ..Credentials::default() },
        attempts: 1,
        ..estimand_client::Options::default()
    };
    let client = estimand_client::Client::with_options(&elsewhere, options).unwrap();
    refused(plane.wait(client.nodes()));
    plane.wait(plane.operator().nodes()).unwrap();
}
