//! The flow of the paper's figures 7 and 9: a training is submitted as a container of a published image, its log is followed
//! while it runs, and its result comes from RabbitMQ.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use estimand_testkit::docker;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::rabbitmq::RabbitMq;
use serde_json::json;

use crate::reader::Reader;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/mnist");
const REFERENCE: &str = "estimand/mnist:1";
/// More than anybody waits for: the training ends when it is told that it is enough.
const EPOCHS: &str = "1000000";
const GOOD: f64 = 0.9;
const LEAST_EPOCHS: usize = 3;

/// Builds the example as its page says, but with the engine of the tests. The image's id.
fn build_image() -> String {
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(EXAMPLE);
    let built = Command::new("rustc")
        .args(["--edition", "2024", "-O", "-C", "strip=symbols", "-C", "target-feature=+crt-static", "-o"])
        .arg(folder.path().join("train"))
        .arg(example.join("train.rs"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::copy(example.join("Dockerfile"), folder.path().join("Dockerfile")).unwrap();
    docker::shared().build(folder.path(), REFERENCE)
}

/// A command of the binary that asks these services.
fn cli(services: &Estimand, args: &[&str]) -> Command {
    let mut command = process::command(process::binary());
    command.args(args).env("ESTIMAND_SERVER", services.base_url());
    command
}

#[track_caller]
fn run(services: &Estimand, args: &[&str]) -> String {
    let done = cli(services, args).output().unwrap();
    assert!(done.status.success(), "{args:?}: {done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The loss and the accuracy of a line such as `epoch 3: loss 0.1848, accuracy 0.954`.
fn epoch(line: &str) -> Option<(f64, f64)> {
    let (_, figures) = line.strip_prefix("epoch ")?.split_once(": loss ")?;
    let (loss, accuracy) = figures.split_once(", accuracy ")?;
    Some((loss.parse().unwrap(), accuracy.parse().unwrap()))
}

#[test]
fn a_training_is_submitted_followed_and_its_result_published() {
    let (mq, engine) = (RabbitMq::start(), docker::shared());
    let reader = Reader::open(&mq);
    let folder = tempfile::tempdir().unwrap();
    let (agent_data, data) = (folder.path().join("agent"), folder.path().join("data"));
    fs::create_dir(&data).unwrap();
    let up = ["up", "--no-agent", "--defaults", "none", "--published-images-only"];
    let services = process::estimand().args(up).env("ESTIMAND_PUBLISH", mq.url()).start();
    let (socket, data) = (engine.socket().to_str().unwrap(), data.to_str().unwrap());
    let agent = ["agent", "--server", services.base_url(), "--node", "n1", "--docker", socket];
    let allowed = ["--allow-image", "estimand/mnist", "--allow-volume", data];
    let _agent = process::estimand().args(agent).args(allowed).data_dir(&agent_data).without_http().start();

    let digest = build_image();
    run(&services, &["images", "publish", "mnist", REFERENCE, &digest, "--label", "study=mnist"]);
    let volume = format!("{data}:/data:ro");
    let submission = ["tasks", "submit", "--id", "training", "--image", "mnist", "--volume", &volume];
    let more = ["--label", "study=mnist", "--memory", "256MiB", "--"];
    let command = ["--epochs", EPOCHS, "--stop", "/data/enough"];
    let said = run(&services, &[&submission[..], &more, &command].concat());
    assert_eq!(said, "submitted `training`\n");

    let follow = ["tasks", "logs", "training", "-f"];
    let mut follower = cli(&services, &follow).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut epochs: Vec<(f64, f64)> = Vec::new();
    while epochs.len() < LEAST_EPOCHS || epochs.last().is_none_or(|(_, accuracy)| *accuracy < GOOD) {
        let line = lines.next().expect("the log goes on");
        epochs.extend(epoch(&line));
    }
    // It does not end by itself, so all of that was read while it ran.
    let task = || services.http().get("/api/tasks/training").expect_status(200).json();
    assert_eq!((&task()["state"], &task()["image"]["digest"]), (&json!("RUNNING"), &json!(digest)));
    assert!(epochs.last().unwrap().0 < epochs[0].0 / 2.0, "the loss falls: {epochs:?}");

    fs::write(Path::new(data).join("enough"), "").unwrap();
    let rest: Vec<String> = lines.collect();
    let last = rest.last().unwrap().strip_prefix("final accuracy ").expect("the last line").parse::<f64>();
    assert!(last.unwrap() > GOOD, "{rest:?}");
    assert!(follower.wait().unwrap().success());

    let mut known = BTreeMap::new();
    reader.read_until(&mut known, "training", "SUCCEEDED");
    let result = known.values().find(|event| event["to"] == "SUCCEEDED").unwrap();
    assert_eq!((&result["id"], &result["ending"]), (&json!("training"), &json!({ "exit": 0 })));
    assert_eq!((&result["node"], &result["labels"]), (&json!("n1"), &json!({ "study": "mnist" })));
    assert_eq!(engine.containers(), Vec::<String>::new(), "nothing is left of it");

    let refused = cli(&services, &["tasks", "submit", "--image", REFERENCE]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("is it `mnist`?"), "{refused:?}");
}
