//! A certificate holds what the authority's caller gave, and of the request only its key.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::identity::Identity;
use estimand_pki::{Authority, Certificate, PkiError, new_key, request};
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, IsCa, KeyPair, SanType};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::parse_x509_certificate;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn authority() -> (tempfile::TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let made = Authority::init(&folder.path().join("pki"), now()).unwrap();
    (folder, made)
}

fn node(name: &str) -> Identity {
    Identity::parse(&format!("estimand:node:{name}")).unwrap()
}

#[test]
fn an_authority_is_made_once_and_its_key_is_its_owners() {
    let (folder, made) = authority();
    let folder = folder.path().join("pki");
    let mode = |file: &str| std::fs::metadata(folder.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("authority.key"), mode("authority.pem")), (0o600, 0o644));
    assert!(matches!(Authority::init(&folder, now()), Err(PkiError::Exists(_))));
    assert_eq!(Authority::open(&folder).unwrap().pin(), made.pin());
    std::fs::write(folder.join("authority.key"), new_key().unwrap()).unwrap();
    let error = Authority::open(&folder).unwrap_err().to_string();
    assert!(error.contains("it is not the key of the authority's certificate"), "{error}");
}

#[test]
fn only_the_key_of_a_request_is_taken() {
    let (_folder, authority) = authority();
    let key = KeyPair::generate().unwrap();
    let mut greedy = CertificateParams::new(vec!["evil.example".to_owned()]).unwrap();
    greedy.subject_alt_names.push(SanType::URI(Ia5String::try_from("estimand:operator:root").unwrap()));
    greedy.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let asked = greedy.serialize_request(&key).unwrap().pem().unwrap();
    let signed = authority.sign(&asked, &node("n1"), DAY, now()).unwrap();
    assert_eq!(signed.certificate.who, Some(node("n1")));
    assert_eq!(signed.certificate.not_after, now() + DAY);
    assert_eq!(signed.certificate, Certificate::first_in(&signed.chain).unwrap());
    let der = CertificateDer::from_pem_slice(signed.chain.as_bytes()).unwrap();
    let (_, found) = parse_x509_certificate(&der).unwrap();
    assert_eq!(found.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 1);
    assert!(!found.is_ca());
    assert_eq!(found.public_key().raw, rcgen::PublicKeyData::subject_public_key_info(&key));
    assert!(!found.subject().to_string().contains("evil"), "{}", found.subject());
}

#[test]
fn what_is_no_request_is_refused() {
    let (_folder, authority) = authority();
    let sign = |text: &str| authority.sign(text, &node("n1"), DAY, now());
    assert!(matches!(sign(""), Err(PkiError::Request(_))));
    assert!(matches!(sign(authority.pem()), Err(PkiError::Request(_))));
    // Signed with another key than the one it asks for.
    let mut asked = request(&new_key().unwrap()).unwrap().into_bytes();
    let place = asked.len() - 60;
    asked[place] = if asked[place] == b'A' { b'B' } else { b'A' };
    assert!(matches!(sign(&String::from_utf8(asked).unwrap()), Err(PkiError::Request(_))));
}

#[test]
fn a_service_is_known_by_its_names_and_a_node_is_no_service() {
    let (_folder, authority) = authority();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider.into())
        .build()
        .unwrap();
    let check = |chain: &str, name: &'static str| {
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        let name = ServerName::try_from(name).unwrap();
        rustls::client::danger::ServerCertVerifier::verify_server_cert(&*verifier, &der, &[], &name, &[], at)
    };
    let issue = |who: &str, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        authority.issue(&Identity::parse(who).unwrap(), &names, DAY, now())
    };
    let service = issue("estimand:service:up", &["10.1.2.3", "plane.example"]).unwrap().signed.chain;
    for name in ["10.1.2.3", "plane.example", "localhost", "127.0.0.1", "::1"] {
        check(&service, name).unwrap();
    }
    assert!(check(&service, "10.1.2.4").is_err());
    let node = issue("estimand:node:n1", &["10.1.2.3"]).unwrap().signed.chain;
    assert!(check(&node, "10.1.2.3").is_err(), "a node must not pass for a service");
    let Err(PkiError::Name(wrong)) = issue("estimand:service:up", &["http://x"]) else { panic!("was taken") };
    assert_eq!(wrong, "http://x");
}

#[test]
fn a_short_certificate_is_hardly_backdated() {
    let (_folder, authority) = authority();
    let asked = request(&new_key().unwrap()).unwrap();
    let of = |seconds| {
        authority.sign(&asked, &node("n1"), Duration::from_secs(seconds), now()).unwrap().certificate
    };
    assert_eq!((now() - of(10).not_before).num_seconds(), 1);
    assert_eq!((now() - of(86_400).not_before).num_seconds(), 300);
    assert_eq!(of(10).key, of(20).key);
    assert_ne!(of(10).digest, of(10).digest, "no two have the same serial number");
}
