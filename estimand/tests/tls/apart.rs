//! Services in processes of their own know each other by certificates, without any token.

use std::path::Path;

use estimand_client::{CertificateFiles, Client, Credentials, Options, Trust};
use estimand_testkit::databases;
use estimand_testkit::process::{self, Builder, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{authority, estimand, succeeds};

fn service(pki: &Path, store: &str, args: &[&str]) -> Builder {
    let args = args.iter().map(|&arg| arg.to_owned()).chain(["--tls".to_owned(), pki.display().to_string()]);
    process::estimand().args(args).store(store).without_token()
}

#[test]
fn services_that_run_apart_need_no_token() {
    let folder = authority();
    let pki = folder.path().join("pki");
    let dir = pki.display().to_string();
    succeeds(estimand(&["pki", "issue", "plane", "--service", "--dir", &dir]));
    let shown: Value = serde_json::from_str(&succeeds(estimand(&[
        "pki",
        "issue",
        "me",
        "--operator",
        "--dir",
        &dir,
        "--json",
    ])))
    .unwrap();
    let store = databases::postgres().fresh_url();
    let ports = [free_port(), free_port()];
    let [manager_at, registry_at] = ports.map(|port| format!("https://127.0.0.1:{port}"));
    let data = service(&pki, &store, &["data"]).start();
    let _registry =
        service(&pki, &store, &["registry", "--data-service", data.base_url(), "--manager", &manager_at])
            .port(ports[1])
            .start();
    let args = ["manager", "--registry", &registry_at, "--data-service", data.base_url()];
    let _manager = service(&pki, &store, &args).port(ports[0]).start();

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let credentials = Credentials {
        token: None,
        trust: Some(Trust::Authority(pki.join("authority.pem"))),
        identity: Some(CertificateFiles::beside(shown["certificate"].as_str().unwrap().into())),
    };
    let client = |address: &str| {
        let options = Options { credentials: credentials.clone(), ..Options::default() };
        Client::with_options(address, options).unwrap()
    };
    let registry = client(&registry_at);
    // The command line finds the key beside the certificate.
    let mut command = std::process::Command::new(process::binary());
    command.args(["token", "--server", &registry_at, "--authority"]).arg(pki.join("authority.pem"));
    command.args(["--certificate", shown["certificate"].as_str().unwrap()]);
    command.args(["create", "n1", "--role", "join"]);
    let token = succeeds(command.env_remove("ESTIMAND_TOKEN").output().unwrap());
    let agent = process::estimand()
        .args(["agent", "--server", &manager_at, "--node", "n1"])
        .env("ESTIMAND_JOIN", token.trim())
        .without_http()
        .without_token();
    let _agent = agent.start();
    let asked =
        json!({ "dataName": "load", "mode": "builtin", "cmd": "load", "max-Time": 0.2, "history": "1h" });
    runtime.block_on(registry.register_map(asked.as_object().unwrap().clone())).unwrap();
    let data = client(data.base_url());
    wait::until_ok(PATIENCE, "a value", || {
        let found = runtime.block_on(data.value(&"load".parse().unwrap(), &"n1".parse().unwrap()));
        match found.map_err(|error| error.to_string())? {
            Some(_) => Ok(()),
            None => Err("there is none".to_owned()),
        }
    });
}
