//! The words about a certificate that is not believed: what is wrong with it, and what would be right.

use std::net::Ipv4Addr;
use std::path::Path;

use chrono::{TimeDelta, Utc};
use estimand_api::identity::Identity;
use estimand_client::CertificateFiles;
use estimand_pki::Authority;
use estimand_testkit::process::{self, Estimand};

use crate::plane::authority;

/// A service that shows this certificate, at an address that certificates of services do not have by themselves.
fn service(shown: &CertificateFiles) -> Estimand {
    let [certificate, key] = [&shown.certificate, &shown.key].map(|file| file.display().to_string());
    let args = ["up", "--no-agent", "--tls-certificate", &certificate, "--tls-key", &key];
    process::estimand().args(args).listen_host(Ipv4Addr::new(127, 0, 0, 2)).start()
}

/// The error of the command line, with or without the file of an authority.
fn said(service: &Estimand, authority: Option<&Path>) -> String {
    let mut command = process::command(process::binary());
    command.arg("nodes").env("ESTIMAND_SERVER", service.base_url()).env_remove("ESTIMAND_AUTHORITY");
    if let Some(file) = authority {
        command.arg("--authority").arg(file);
    }
    let done = command.output().unwrap();
    assert!(!done.status.success(), "{done:?}");
    String::from_utf8(done.stderr).unwrap()
}

fn has(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{said}\nlacks {part}");
    }
}

#[test]
fn a_certificate_that_has_signed_itself_is_explained() {
    let folder = authority();
    let pki = folder.path().join("pki");
    let own = CertificateFiles::beside(pki.join("authority.pem"));
    let service = service(&own);
    let parts = ["has signed itself", "estimand pki issue NAME --service", "CA:FALSE", "--authority"];
    has(&said(&service, None), &parts);
    has(&said(&service, Some(&own.certificate)), &parts);
}

#[test]
fn a_certificate_of_another_name_or_time_is_explained() {
    let folder = authority();
    let pki = folder.path().join("pki");
    let (ours, trusted) = (Authority::open(&pki).unwrap(), pki.join("authority.pem"));
    let who = Identity::parse("estimand:service:plane").unwrap();
    let issued = |name: &str, address: &str, began: TimeDelta| {
        let day = TimeDelta::days(1).to_std().unwrap();
        let issued = ours.issue(&who, &[address.to_owned()], day, Utc::now() + began).unwrap();
        let files = CertificateFiles::beside(folder.path().join(format!("{name}.pem")));
        std::fs::write(&files.certificate, &issued.signed.chain).unwrap();
        std::fs::write(&files.key, &issued.key).unwrap();
        files
    };
    let elsewhere = service(&issued("elsewhere", "10.1.2.3", TimeDelta::zero()));
    has(
        &said(&elsewhere, Some(&trusted)),
        &["10.1.2.3", ", and not 127.0.0.2", "pki issue NAME --service --address 127.0.0.2"],
    );
    has(&said(&elsewhere, None), &["not signed by an authority that is known here", "--authority"]);
    let expired = service(&issued("expired", "127.0.0.2", TimeDelta::days(-2)));
    has(&said(&expired, Some(&trusted)), &["expired at", "the clock here says", "`estimand pki issue`"]);
}
