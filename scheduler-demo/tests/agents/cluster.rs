//! Services and agents as real processes, and the requests of a test.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use estimand_api::access::Token;
use estimand_api::command::Command as Words;
use estimand_client::Client;
use estimand_scheduler_demo::job::{Job, JobNames};
use estimand_testkit::http::Http;
use estimand_testkit::process::Estimand;
use estimand_testkit::{processes, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far longer than anything here takes on a machine that also compiles.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Cluster {
    pub agents: Vec<(String, Estimand)>,
    pub http: Http,
    pub folder: TempDir,
    pub worker: PathBuf,
    pub services: Estimand,
}

impl Cluster {
    /// Nodes that may run the fake worker.
    pub fn start(nodes: &[&str]) -> Cluster {
        let folder = folder();
        let worker = folder.path().join("fake-worker");
        std::fs::write(&worker, format!("#!{}\n{}", python(), include_str!("fake_worker.py"))).unwrap();
        std::fs::set_permissions(&worker, std::fs::Permissions::from_mode(0o755)).unwrap();
        Cluster::of_worker(nodes, folder, worker)
    }

    /// Nodes that may run what is in a folder, of which one program is the worker.
    pub fn of_worker(nodes: &[&str], folder: TempDir, worker: PathBuf) -> Cluster {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let services = Estimand::builder(binary()).args(["up", "--no-agent"]).start();
        let http = services.http();
        let mut cluster = Cluster { agents: Vec::new(), http, folder, worker, services };
        let server = cluster.services.base_url().to_owned();
        nodes.iter().for_each(|node| cluster.join(node, &server));
        cluster
    }

    /// One more node, whose agent and workers reach the services under this address.
    pub fn join(&mut self, node: &str, server: &str) {
        let (allowed, label) = (self.folder.path().display().to_string(), format!("who={node}"));
        let args = [
            &["agent", "--server", server, "--node", node, "--allow", &allowed, "--label", &label][..],
            &["--allow-read", &allowed, "--allow-net", "127.0.0.1"][..],
        ]
        .concat();
        let agent = Estimand::builder(binary()).args(args).without_http().start();
        self.agents.push((node.to_owned(), agent));
    }

    /// Parameters of a job of the fake worker; its images a second are by node.
    pub fn params(&self, rates: &Value) -> BTreeMap<String, Value> {
        let out = self.out().display().to_string();
        [("rates".to_owned(), rates.to_string().into()), ("out".to_owned(), out.into())].into()
    }

    pub fn client(&self) -> Client {
        let token = Token::parse(estimand_testkit::TOKEN).unwrap();
        Client::with_token(self.services.base_url(), Some(token)).unwrap()
    }

    /// A job of the fake worker.
    pub fn job(&self, name: &str, rates: &Value) -> Job {
        let command = Words::words(vec![self.worker.display().to_string()]).unwrap();
        let mut job = Job::new(JobNames::new(name).unwrap(), command);
        job.params = self.params(rates);
        job
    }

    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    #[track_caller]
    pub fn write(&self, name: &str, node: &str, value: &Value) {
        let body = json!({ "dataName": name, "nodeName": node, "dataValue": value });
        let answer = self.http.send_json("PUT", "/api/data", &body);
        assert!(matches!(answer.status, 200 | 201), "{answer}");
    }

    #[track_caller]
    pub fn bind(&self, name: &str, to: &str) {
        let answer = self.http.send_json("PUT", &format!("/api/bindings/{name}"), &json!({ "to": to }));
        assert!(matches!(answer.status, 200 | 201), "{answer}");
    }

    /// Distributes images in turn, the way of a file system that knows nothing of speeds.
    pub fn distribute(&self, images: &[String]) {
        for (i, (node, _)) in self.agents.iter().enumerate() {
            let own: Vec<&String> = images.iter().skip(i).step_by(self.agents.len()).collect();
            self.write("data_distribution", node, &json!({ "items": own }));
        }
    }

    /// The process of the node's worker, once it is there.
    #[track_caller]
    pub fn worker_of(&self, node: &str) -> u32 {
        let agent = self.agents.iter().find(|(name, _)| name == node).map(|(_, agent)| agent.pid()).unwrap();
        wait::until(SOON, &format!("the worker of {node}"), || {
            processes::descendants(agent)
                .into_iter()
                .find(|process| self.is_worker(process))
                .map(|found| found.pid)
        })
    }

    fn is_worker(&self, process: &processes::Process) -> bool {
        process.cmdline.iter().any(|word| Path::new(word) == self.worker)
    }

    /// Nothing of the job is there: no registration, no value, no process on the nodes that are.
    #[track_caller]
    pub fn nothing_is_left_of(&self, job: &str) {
        let registrations = self.http.get("/api/registry").expect_status(200).text().to_owned();
        assert!(!registrations.contains(job), "{registrations}");
        let values = self.http.get("/api/data?dataName=*").expect_status(200).text().to_owned();
        assert!(!values.contains(&format!("\"{job}.")), "{values}");
        processes::none_with(&self.worker.display().to_string(), Duration::ZERO);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (node, agent) in &mut self.agents {
                let log = agent.stderr_tail();
                let last: Vec<&str> = log.lines().rev().take(8).collect();
                eprintln!("{node}: {last:#?}");
                agent.kill9();
            }
            processes::kill9_all_with(&self.worker.display().to_string());
        }
    }
}

/// A place for all that a test writes.
pub fn folder() -> TempDir {
    tempfile::Builder::new().prefix("scheduler-").tempdir().unwrap()
}

/// The program of a name that is built from `examples/`.
pub fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/examples").join(name);
    assert!(path.exists(), "{} is not there: `cargo build --examples`", path.display());
    path
}

/// The binary under test, which another package builds: in its usual place, or in that of the environment.
pub fn binary() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/estimand");
    let path = std::env::var_os("ESTIMAND_BIN").map_or(usual, PathBuf::from);
    assert!(
        path.exists(),
        "{} is not there: `cargo build -p estimand`, or say where it is in ESTIMAND_BIN",
        path.display()
    );
    path
}

fn python() -> String {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let output = asked.expect("python3 runs the fake worker; it is not there");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
