//! The manifests of Kubernetes are what its schemas allow, and their containers run in a real engine, with what the manifests
//! take away from them. There is no cluster here: what the kubelet does with volumes, variables and probes is done by hand,
//! and whatever a manifest asks for that is not done here fails the test.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use estimand_testkit::process::binary;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;

use crate::engine::{IMAGE, docker, docker_well, engine, inside, log};
use crate::{packages, well};

const NETWORK: &str = "pods";
const NODE: &str = "node-1";
const ADDRESS: &str = "estimand.estimand.svc";
/// The group of `fsGroup`.
const GROUP: u32 = 65_532;

#[test]
fn the_manifests_are_valid_and_their_containers_run() {
    let manifests = manifests();
    let of_kind = |kind: &str| manifests.iter().find(|one| one["kind"] == kind).expect("it is there");
    let pods = [of_kind("StatefulSet"), of_kind("DaemonSet")].map(|one| &one["spec"]["template"]);
    selectors_match(of_kind("Service"), &pods);
    let host = tempfile::tempdir().unwrap();
    fs::set_permissions(host.path(), fs::Permissions::from_mode(0o755)).unwrap();
    certificates(&host.path().join("tls"));
    folder(&host.path().join("services"), Some(GROUP));
    folder(&host.path().join("agent"), None);
    folder(&host.path().join("join"), None);
    docker_well(&["network", "create", NETWORK]);

    let services = Container::new("services", pods[0], host.path(), "services");
    services.run(&["--network-alias", ADDRESS]);
    probes_answer(&services);
    let token = well(&inside("services", &["token", "create", NODE, "--role", "join", "--node", NODE]));
    let secret = host.path().join("join").join(NODE);
    fs::write(&secret, token).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o400)).unwrap();
    let agent = Container::new("agent", pods[1], host.path(), "agent");
    agent.run(&[]);
    wait_for_node("load");

    // A node joins once: the next pod has the folder, and no token.
    docker_well(&["rm", "--force", "agent"]);
    fs::remove_file(&secret).unwrap();
    agent.run(&[]);
    well(&inside("services", &["register", "again", "--every", "1s", "--mode", "builtin", "--", "load"]));
    wait_for_node("again");
    docker_well(&["rm", "--force", "agent", "services"]);
    docker_well(&["network", "rm", NETWORK]);
}

fn manifests() -> Vec<Value> {
    let folder = packages().join("kubernetes");
    let text = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    let named =
        text.lines().filter_map(|line| line.trim().strip_prefix("- ")).filter(|line| line.ends_with(".yaml"));
    let files: Vec<PathBuf> = named.map(|file| folder.join(file)).collect();
    assert_eq!(files.len() + 1, fs::read_dir(&folder).unwrap().count(), "kustomization.yaml names all files");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/packages/manifests");
    serde_json::from_str(&well(&Command::new(program).args(files).output().unwrap())).unwrap()
}

/// The service leads to the services, and to nothing else.
#[track_caller]
fn selectors_match(service: &Value, [services, agent]: &[&Value; 2]) {
    let selector = service["spec"]["selector"].as_object().unwrap();
    let selects = |pod: &Value| selector.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value);
    assert!(selects(services) && !selects(agent), "{selector:?}");
}

/// As a secret's volume is: read by the group alone.
fn certificates(made: &Path) {
    for arguments in
        [&["init"][..], &["issue", "services", "--service", "--address", ADDRESS, "--address", "127.0.0.1"]]
    {
        well(&Command::new(binary()).arg("pki").args(arguments).arg("--dir").arg(made).output().unwrap());
    }
    fs::set_permissions(made, fs::Permissions::from_mode(0o755)).unwrap();
    for file in fs::read_dir(made).unwrap() {
        let file = file.unwrap().path();
        chown(&file, Some(0), Some(GROUP)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
    }
}

/// A volume that the group may write, or root's.
fn folder(path: &Path, group: Option<u32>) {
    fs::create_dir(path).unwrap();
    chown(path, Some(0), Some(group.unwrap_or(0))).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(if group.is_some() { 0o775 } else { 0o755 }))
        .unwrap();
}

fn wait_for_node(name: &str) {
    wait::until_ok(PATIENCE, "a value of the node", || {
        let output = inside("services", &["get", name, "--json"]);
        let values: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let is_there = values.iter().any(|value| value["nodeName"] == NODE && value["state"] == "fresh");
        is_there.then_some(()).ok_or_else(|| format!("{output:?}\n{}\n{}", log("services"), log("agent")))
    });
}

/// As the kubelet asks them: of the address of the pod, whatever name the certificate is for.
#[track_caller]
fn probes_answer(services: &Container<'_>) {
    let state = engine().inspect("services");
    let address = state["NetworkSettings"]["Networks"][NETWORK]["IPAddress"].as_str().unwrap().to_owned();
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &services.container()[probe]["httpGet"];
        let mut ports = services.container()["ports"].as_array().unwrap().iter();
        let port =
            &ports.find(|port| port["name"] == get["port"]).expect("a port of that name")["containerPort"];
        let scheme = get["scheme"].as_str().unwrap().to_lowercase();
        let url = format!("{scheme}://{address}:{port}{}", get["path"].as_str().unwrap());
        wait::until_ok(PATIENCE, &url, || {
            let mut curl = engine().in_its_network("curl");
            let output =
                curl.args(["--silent", "--show-error", "--fail", "--insecure", &url]).output().unwrap();
            output.status.success().then_some(()).ok_or_else(|| format!("{output:?} {}", log("services")))
        });
    }
}

/// The one container of a pod.
struct Container<'a> {
    name: &'static str,
    pod: &'a Value,
    /// Volumes are folders in there, by their names; `data` is this one.
    host: &'a Path,
    data: &'static str,
}

impl<'a> Container<'a> {
    fn new(name: &'static str, pod: &'a Value, host: &'a Path, data: &'static str) -> Self {
        let spec = &pod["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false, "it asks nothing of Kubernetes");
        for open in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(spec[open].is_null(), "{open}");
        }
        assert_eq!(spec["containers"].as_array().map(Vec::len), Some(1));
        Self { name, pod, host, data }
    }

    fn container(&self) -> &Value {
        &self.pod["spec"]["containers"][0]
    }

    #[track_caller]
    fn run(&self, more: &[&str]) {
        let arguments = self.arguments();
        let mut command = vec!["run", "--detach", "--name", self.name, "--network", NETWORK];
        command.extend(more);
        command.extend(arguments.iter().map(String::as_str));
        docker_well(&command);
    }

    /// The options that do what the manifest says, then the image and its arguments.
    fn arguments(&self) -> Vec<String> {
        let container = self.container();
        let mut arguments = closed(&container["securityContext"]);
        let user = &self.pod["spec"]["securityContext"];
        arguments.push(format!("--user={}:{}", user["runAsUser"], user["runAsGroup"]));
        if !user["fsGroup"].is_null() {
            arguments.push(format!("--group-add={}", user["fsGroup"]));
        }
        for variable in container["env"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            if let Some(value) = self.value(variable) {
                arguments.push(format!("--env={name}={value}"));
            }
        }
        for mount in container["volumeMounts"].as_array().unwrap() {
            arguments.push(self.mount(mount));
        }
        arguments.push(IMAGE.to_owned());
        let given = container["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap());
        arguments.extend(given.map(|one| one.replace("$(ESTIMAND_NODE)", NODE)));
        arguments
    }

    /// A variable's value; that of a secret that need not be there is none.
    fn value(&self, variable: &Value) -> Option<String> {
        let from = &variable["valueFrom"];
        if let Some(value) = variable["value"].as_str() {
            return Some(value.to_owned());
        }
        if from["fieldRef"]["fieldPath"] == "spec.nodeName" {
            return Some(NODE.to_owned());
        }
        assert_eq!(from["secretKeyRef"]["optional"], true, "{variable}");
        None
    }

    fn mount(&self, mount: &Value) -> String {
        let [name, path] = ["name", "mountPath"].map(|key| mount[key].as_str().unwrap());
        let access = if mount["readOnly"] == true { "ro" } else { "rw" };
        match name {
            "tmp" => format!("--tmpfs={path}"),
            "data" => format!("--volume={}:{path}:{access}", self.host.join(self.data).display()),
            "tls" | "join" => format!("--volume={}:{path}:{access}", self.host.join(name).display()),
            other => panic!("the volume {other} is unknown here"),
        }
    }
}

/// Nothing less than all that can be taken away.
#[track_caller]
fn closed(context: &Value) -> Vec<String> {
    let expected = serde_json::json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    assert_eq!(*context, expected);
    ["--security-opt=no-new-privileges", "--read-only", "--cap-drop=ALL"].map(str::to_owned).to_vec()
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        docker(&["rm", "--force", self.name]);
    }
}
