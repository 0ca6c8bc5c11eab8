//! Certificates of services that have expired, are not valid yet, or name other addresses: each has a remedy of its own.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use estimand_api::identity::Identity;
use estimand_pki::Authority;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::proxy::Proxy;
use estimand_testkit::wait::{self, PATIENCE};
use tempfile::TempDir;

use super::Diagnosis;

const VALID_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

struct Secured {
    folder: TempDir,
    services: Estimand,
}

impl Secured {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Authority::init(&folder.path().join("pki"), Utc::now()).unwrap();
        issue(&folder, TimeDelta::zero());
        let pki = folder.path().join("pki").display().to_string();
        let services = process::estimand().args(["up", "--no-agent", "--tls", &pki]).start();
        Secured { folder, services }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("pki").join("authority.pem")
    }

    fn diagnose(&self, server: &str) -> Diagnosis {
        let mut command = process::command(process::binary());
        command.args(["doctor", "--json"]).env("ESTIMAND_SERVER", server);
        Diagnosis::of(&command.env("ESTIMAND_AUTHORITY", self.authority()).output().unwrap())
    }

    /// The diagnosis once the service shows the certificate of which that is true.
    #[track_caller]
    fn once(&self, what: &str, part: &str) -> Diagnosis {
        wait::until(PATIENCE, what, || {
            Some(self.diagnose(self.services.base_url())).filter(|found| found.find("tls", part).is_some())
        })
    }
}

/// A certificate of the service as it is issued that much later than now, in the place of the one that is there.
fn issue(folder: &TempDir, later: TimeDelta) {
    let pki = folder.path().join("pki");
    let plane = Identity::parse("estimand:service:plane").unwrap();
    let issued = Authority::open(&pki).unwrap().issue(&plane, &[], VALID_FOR, Utc::now() + later).unwrap();
    // The certificate is the one that the service looks for last.
    std::fs::write(pki.join("service.key"), &issued.key).unwrap();
    std::fs::write(pki.join("service.pem"), &issued.signed.chain).unwrap();
}

#[test]
fn a_certificate_that_is_not_valid_now_is_told_with_its_time() {
    let secured = Secured::start();
    let found = secured.once("the certificate to be valid", "valid until");
    assert_eq!(found.code, 0, "{found:?}");
    found.has("ok", "tls", "valid until");

    issue(&secured.folder, TimeDelta::days(-31));
    let found = secured.once("the certificate to have expired", "its certificate expired at");
    assert_eq!(found.code, 6, "{found:?}");
    let remedy = found.has("failure", "tls", "the clock here says");
    assert!(remedy.starts_with("estimand pki issue") && !remedy.contains("--authority"), "{remedy}");

    issue(&secured.folder, TimeDelta::days(1));
    let found = secured.once("the certificate to be early", "its certificate is valid from");
    assert!(found.has("failure", "tls", "valid from").contains("timedatectl"), "{found:?}");

    // The remedy helps, and nothing is started again.
    issue(&secured.folder, TimeDelta::zero());
    assert_eq!(secured.once("the certificate to be valid again", "valid until").code, 0);

    // One that is soon to expire still works.
    issue(&secured.folder, TimeDelta::days(-29));
    let soon =
        |found: &Diagnosis| found.find("tls", "valid until").is_some_and(|one| one["level"] == "warning");
    let found = wait::until(PATIENCE, "the certificate to expire soon", || {
        Some(secured.diagnose(secured.services.base_url())).filter(soon)
    });
    assert_eq!(found.code, 0, "{found:?}");
    assert!(found.has("warning", "tls", "valid until").contains("estimand pki issue"), "{found:?}");
}

#[test]
fn an_address_that_the_certificate_does_not_name_is_told() {
    let secured = Secured::start();
    let port = secured.services.base_url().rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let proxy = Proxy::on([127, 0, 0, 2].into(), ([127, 0, 0, 1], port).into());
    let found = secured.diagnose(&format!("https://{}", proxy.address()));
    assert_eq!(found.code, 6, "{found:?}");
    let remedy = found.has("failure", "tls", "127.0.0.2");
    assert!(remedy.contains("--address") && remedy.contains("estimand pki issue"), "{remedy}");
    // The addresses that it does name are told.
    found.has("failure", "tls", "127.0.0.1");

    // An authority that is not known here is another matter.
    let mut command = process::command(process::binary());
    command.args(["doctor", "--json"]).env("ESTIMAND_SERVER", secured.services.base_url());
    let found = Diagnosis::of(&command.output().unwrap());
    assert!(
        found.has("failure", "tls", "not signed by an authority that is known here").contains("--authority"),
        "{found:?}"
    );
    assert_eq!(found.code, 6, "{found:?}");
}
