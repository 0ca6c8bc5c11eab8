//! An authority, services with its certificate, and clients that show this or that.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use estimand_api::access::Token;
use estimand_client::{CertificateFiles, Client, Credentials, Error, Options, Trust};
use estimand_testkit::TOKEN;
use estimand_testkit::process::{self, Builder, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Plane {
    pub folder: TempDir,
    pub services: Estimand,
    runtime: tokio::runtime::Runtime,
}

impl Plane {
    /// Services on this machine; `more` are further options of theirs.
    pub fn start(more: &[&str]) -> Plane {
        Plane::start_at(Ipv4Addr::LOCALHOST.into(), more)
    }

    pub fn start_at(address: IpAddr, more: &[&str]) -> Plane {
        let folder = authority();
        let pki = folder.path().join("pki").display().to_string();
        let at = address.to_string();
        succeeds(estimand(&["pki", "issue", "plane", "--service", "--dir", &pki, "--address", &at]));
        let args = [&["up", "--no-agent", "--tls", &pki], more].concat();
        let services = process::estimand().args(args).listen_host(address).start();
        Plane::of(folder, services)
    }

    /// The plane whose registry and data service are asked there.
    pub fn of(folder: TempDir, services: Estimand) -> Plane {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Plane { folder, services, runtime }
    }

    pub fn pki(&self) -> PathBuf {
        self.folder.path().join("pki")
    }

    pub fn url(&self) -> &str {
        self.services.base_url()
    }

    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }

    pub fn trust(&self) -> Option<Trust> {
        Some(Trust::Authority(self.pki().join("authority.pem")))
    }

    /// A client with the operator token of all tests.
    pub fn operator(&self) -> Client {
        let token = Some(Token::parse(TOKEN).unwrap());
        self.client(Credentials { token, trust: self.trust(), identity: None })
    }

    pub fn client(&self, credentials: Credentials) -> Client {
        let options = Options { attempts: 1, credentials, ..Options::default() };
        Client::with_options(self.url(), options).unwrap()
    }

    /// Any request, with the certificate in these files if one is given.
    pub fn http(&self, shown: Option<&CertificateFiles>) -> Http<'_> {
        let authority = std::fs::read(self.pki().join("authority.pem")).unwrap();
        let roots = reqwest::Certificate::from_pem_bundle(&authority).unwrap();
        let mut builder = reqwest::Client::builder().no_proxy().tls_certs_only(roots).timeout(PATIENCE);
        if let Some(shown) = shown {
            let pem =
                [std::fs::read(&shown.key).unwrap(), std::fs::read(&shown.certificate).unwrap()].concat();
            builder = builder.identity(reqwest::Identity::from_pem(&pem).unwrap());
        }
        Http { plane: self, client: builder.build().unwrap() }
    }

    /// A token with which one node can join.
    #[track_caller]
    pub fn join_token(&self, name: &str, more: &[&str]) -> String {
        let args = [&["token", "create", name, "--role", "join"], more].concat();
        let printed = succeeds(self.command(&args).output().unwrap());
        printed.trim().to_owned()
    }

    /// The command line as the operator uses it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", self.url());
        command.env("ESTIMAND_AUTHORITY", self.pki().join("authority.pem"));
        command
    }

    /// An agent with a folder that stays, which shows no token of its own.
    pub fn agent(&self, node: &str, join: Option<&str>) -> Builder {
        let args = ["agent", "--server", self.url(), "--node", node];
        let builder = process::estimand().args(args).without_http().without_token();
        let builder = builder.env("ESTIMAND_JOIN", join.unwrap_or_default());
        builder.data_dir(self.agent_folder(node))
    }

    pub fn agent_folder(&self, node: &str) -> PathBuf {
        self.folder.path().join(format!("agent-{node}"))
    }

    /// The certificate of an agent that has joined.
    pub fn shown_by(&self, node: &str) -> CertificateFiles {
        CertificateFiles::beside(self.agent_folder(node).join("node.pem"))
    }

    #[track_caller]
    pub fn register(&self, registration: &Value) {
        let answer = self.http(None).operator(Method::POST, "/api/registry", Some(registration));
        assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1);
    }

    /// A built-in collector for every node, five times a second.
    #[track_caller]
    pub fn register_load(&self) {
        self.register(&json!({ "dataName": "load", "mode": "builtin", "cmd": "load", "max-Time": 0.2 }));
    }

    /// Waits until a value of that node is another than before, and returns when it was received.
    #[track_caller]
    pub fn wait_value(&self, node: &str, before: Option<&str>) -> String {
        wait::until_ok(PATIENCE, &format!("a new value of {node}"), || {
            let path = format!("/api/data/load/{node}");
            let (status, text) = self.http(None).operator(Method::GET, &path, None);
            let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            match value["receivedAt"].as_str() {
                Some(at) if status == StatusCode::OK && before != Some(at) && value["state"] == "fresh" => {
                    Ok(at.to_owned())
                }
                _ => Err(text),
            }
        })
    }
}

pub struct Http<'a> {
    plane: &'a Plane,
    pub client: reqwest::Client,
}

impl Http<'_> {
    /// Status and body, if there is an answer at all.
    pub fn try_send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<(StatusCode, String), reqwest::Error> {
        let mut request = self.client.request(method, format!("{}{path}", self.plane.url()));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.plane.wait(async {
            let answer = request.send().await?;
            Ok((answer.status(), answer.text().await?))
        })
    }

    #[track_caller]
    pub fn send(&self, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, String) {
        self.try_send(method, path, None, body).unwrap()
    }

    #[track_caller]
    pub fn operator(&self, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, String) {
        self.try_send(method, path, Some(TOKEN), body).unwrap()
    }
}

/// A folder with an authority in it.
pub fn authority() -> TempDir {
    // The client is built without a provider; this fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::Builder::new().prefix("tls-").tempdir().unwrap();
    succeeds(estimand(&["pki", "init", "--dir", &folder.path().join("pki").display().to_string()]));
    folder
}

pub fn estimand(args: &[&str]) -> Output {
    Command::new(process::binary()).args(args).output().unwrap()
}

/// The standard output of a program that succeeded.
#[track_caller]
pub fn succeeds(done: Output) -> String {
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{} {stderr}", done.status);
    String::from_utf8(done.stdout).unwrap()
}

/// The error of a request that must not be answered.
#[track_caller]
pub fn refused<T>(answer: Result<T, Error>) -> Error {
    match answer {
        Ok(_) => panic!("was answered"),
        Err(error) => error,
    }
}

pub fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}
