//! An HDFS with pictures in it, and a plane whose nodes have the names of its DataNodes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use estimand_api::command::Command as Words;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job::{Job, JobNames};
use estimand_scheduler_demo::job_plan::{JobPlan, Options as PlanOptions, PolicyKind};
use estimand_scheduler_demo::plan::DynamicSettings;
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{Options, Run};
use estimand_testkit::hdfs::Hdfs;
use estimand_testkit::wait;
use serde_json::json;

use crate::cluster::{self, Cluster};

pub const NODES: [&str; 4] = ["node-1", "node-2", "node-3", "node-4"];
/// Far longer than anything here takes on a machine that also compiles.
const SOON: Duration = Duration::from_secs(60);

pub struct Place {
    pub hdfs: Hdfs,
    pub cluster: Cluster,
    pub images: Vec<String>,
    model: PathBuf,
}

impl Place {
    /// So many pictures, each on so many DataNodes; who has which, the collector `hdfs` has said once.
    pub fn start(count: usize, copies: usize) -> Place {
        let folder = cluster::folder();
        // Its own path distinguishes it from the workers of other tests.
        let worker = folder.path().join("estimand-worker");
        fs::hard_link(built(), &worker).or_else(|_| fs::copy(built(), &worker).map(drop)).unwrap();
        let model = folder.path().join("small.onnx");
        call(&worker, ["make-model".as_ref(), "--small".as_ref(), "--out".as_ref(), model.as_os_str()]);
        let hdfs = Hdfs::start(NODES.len());
        let images = format!("hdfs://{}/images", hdfs.rpc());
        let (number, copies_each) = (count.to_string(), copies.to_string());
        let words = ["make-images", "--out", &images, "--count", &number, "--copies", &copies_each];
        call(&worker, words.map(OsStr::new));
        let cluster = Cluster::of_worker(&NODES, folder, worker);
        let images = (0..count).map(|i| format!("img-{i:05}.jpg")).collect();
        let place = Place { hdfs, cluster, images, model };
        place.distribute(count * copies);
        place
    }

    /// Registers the collector under a name of its own and binds what the scheduler reads to it.
    fn distribute(&self, replicas: usize) {
        let Place { hdfs, cluster, .. } = self;
        // Collected once: its value must not change when a DataNode goes.
        let body = json!({
            "dataName": "images_in_hdfs", "cmd": "hdfs", "mode": "builtin", "max-Time": 3600, "replicas": 1,
            "params": {
                "namenode": format!("hdfs://{}", hdfs.rpc()), "webhdfs": format!("http://{}", hdfs.http()),
                "path": "/images", "user": "root", "names": true,
            },
        });
        cluster.http.send_json("POST", "/api/registry", &body).expect_status(201);
        cluster.bind("data_distribution", "images_in_hdfs");
        wait::until_ok(SOON, "the names of all replicas", || {
            let values = cluster.http.get("/api/data?dataName=data_distribution").expect_status(200).json();
            let items = |value: &serde_json::Value| value["dataValue"]["items"].as_array().map(Vec::len);
            let named: usize = values.as_array().into_iter().flatten().filter_map(items).sum();
            if named == replicas { Ok(()) } else { Err(values) }
        });
        for node in NODES {
            cluster.write("node_capability", node, &json!(10));
        }
    }

    /// Parameters of a worker.
    pub fn params(&self, share: f64) -> Vec<(&'static str, String)> {
        let throttle = share.to_string();
        vec![
            ("model", self.model.display().to_string()),
            ("images", format!("hdfs://{}/images", self.hdfs.rpc())),
            ("out", self.cluster.out().display().to_string()),
            ("throttle", throttle),
        ]
    }

    pub fn job(&self, name: &str, share: f64) -> Job {
        let words = [self.cluster.worker.display().to_string(), "work".to_owned()];
        let mut job = Job::new(JobNames::new(name).unwrap(), Words::words(words.to_vec()).unwrap());
        job.params.extend(self.params(share).into_iter().map(|(key, value)| (key.to_owned(), value.into())));
        job
    }

    pub fn job_plan(&self, runtime: &tokio::runtime::Runtime, policy: PolicyKind) -> JobPlan {
        let names = Names::new(None, None, None).unwrap();
        let facts = runtime.block_on(facts::read(&self.cluster.client(), &names)).unwrap();
        // Small chunks, so that a worker that goes does not take much along.
        let settings = DynamicSettings { min_chunk: 2, ..DynamicSettings::default() };
        JobPlan::new(facts, PlanOptions { policy, settings, ..PlanOptions::default() }).unwrap()
    }

    /// Every image has one label; the scheduler counts every image once; nothing is left.
    #[track_caller]
    pub fn check(&self, run: &Run) {
        let merged = merge_folder(&self.cluster.out(), &run.job).unwrap();
        assert_eq!(merged.missing(self.images.iter().map(String::as_str)), Vec::<&str>::new());
        assert_eq!((merged.results.len(), merged.conflicts), (self.images.len(), 0));
        let unlabelled: Vec<_> = merged.results.values().filter(|answer| answer.label.is_none()).collect();
        assert!(unlabelled.is_empty(), "{unlabelled:?}");
        let counted: Vec<&String> = run.nodes.iter().flat_map(|node| &node.images).collect();
        assert_eq!(counted.len(), self.images.len());
        assert_eq!(counted.into_iter().collect::<BTreeSet<_>>().len(), self.images.len());
        self.cluster.nothing_is_left_of(&run.job);
    }
}

pub fn options(title: &str) -> Options {
    Options { start_patience: 60.0, ..Options::new(title) }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[track_caller]
fn call<'a>(worker: &Path, words: impl IntoIterator<Item = &'a OsStr>) {
    // `root` may do everything in that HDFS, for any user who runs the tests.
    let output = Command::new(worker).args(words).env("HADOOP_USER_NAME", "root").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The worker: in the folder of `cargo build`, or in that of the environment.
fn built() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/estimand-worker");
    let path = std::env::var_os("ESTIMAND_WORKER").map_or(usual, PathBuf::from);
    assert!(
        path.exists(),
        "{} is not there: `cargo build -p estimand-worker`, or say where it is in ESTIMAND_WORKER",
        path.display()
    );
    path
}
