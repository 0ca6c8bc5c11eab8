//! The body of the request that creates a container. Pure.
//!
//! A container has as little power as a process that runs as a task: no capability, none that is gained, no privileged
//! mode, and limits as they were asked for. Its log is kept by the engine in files of a bounded size, from which it can be
//! read again.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, DeviceRequest, HostConfig, HostConfigLogConfig, Mount, MountTypeEnum,
};

use super::terms::ContainerRun;
use crate::devices::is_file;

/// The engine's way to keep a log, the size of a file of it, and how many there are.
const LOG_DRIVER: &str = "json-file";
const LOG_OPTIONS: [(&str, &str); 2] = [("max-size", "64m"), ("max-file", "2")];
/// The least that an engine takes, in thousandths of a processor.
const LEAST_CPU: u64 = 10;
const NANOS_OF_THOUSANDTH: u64 = 1_000_000;
/// A tenth of what the engine gives by default, as tasks without a container have.
const BACKGROUND_SHARES: i64 = 102;

/// `image` is what the engine knows the image by.
pub fn body(run: &ContainerRun, image: &str) -> ContainerCreateBody {
    let (user, groups) = match &run.user {
        Some(user) => (Some(format!("{}:{}", user.uid, user.gid)), Some(user.groups.clone())),
        None => (None, None),
    };
    ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: (!run.command.is_empty()).then(|| run.command.clone()),
        env: Some(run.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: run.dir.clone(),
        user,
        labels: Some(run.labels.clone().into_iter().collect()),
        host_config: Some(HostConfig {
            group_add: groups.map(|groups| groups.iter().map(ToString::to_string).collect()),
            ..host_config(run)
        }),
        ..ContainerCreateBody::default()
    }
}

fn host_config(run: &ContainerRun) -> HostConfig {
    let mounts = run.volumes.iter().map(|volume| Mount {
        source: Some(volume.source.clone()),
        target: Some(volume.target.clone()),
        // Unlike the older way, this one makes no folder that is not there.
        typ: Some(MountTypeEnum::BIND),
        read_only: Some(volume.read_only),
        ..Mount::default()
    });
    let options: HashMap<String, String> =
        LOG_OPTIONS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    HostConfig {
        mounts: Some(mounts.collect()),
        nano_cpus: run.cpu.map(|cpu| signed(cpu.max(LEAST_CPU).saturating_mul(NANOS_OF_THOUSANDTH))),
        cpu_shares: Some(BACKGROUND_SHARES),
        memory: run.memory.map(signed),
        // As much as memory: nothing is swapped beyond it.
        memory_swap: run.memory.map(signed),
        pids_limit: run.processes.map(signed),
        device_requests: device_request(run).map(|request| vec![request]),
        devices: device_files(run),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        privileged: Some(false),
        // Removed by its keeper, once its end and its log are known.
        auto_remove: Some(false),
        log_config: Some(HostConfigLogConfig { typ: Some(LOG_DRIVER.to_owned()), config: Some(options) }),
        ..HostConfig::default()
    }
}

/// The request for GPUs by their ids; by their number in an order of before.
fn device_request(run: &ContainerRun) -> Option<DeviceRequest> {
    let count = run.gpu?;
    let ids: Vec<String> = run.devices.iter().filter(|id| !is_file(id)).cloned().collect();
    if ids.is_empty() && !run.devices.is_empty() {
        return None;
    }
    Some(DeviceRequest {
        count: ids.is_empty().then(|| signed(count)),
        device_ids: (!ids.is_empty()).then_some(ids),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..DeviceRequest::default()
    })
}

/// The devices whose ids are files of the node, which have the same path in the container.
fn device_files(run: &ContainerRun) -> Option<Vec<DeviceMapping>> {
    let files = run.devices.iter().filter(|id| is_file(id)).map(|path| DeviceMapping {
        path_on_host: Some(path.clone()),
        path_in_container: Some(path.clone()),
        cgroup_permissions: Some("rw".to_owned()),
    });
    let files: Vec<DeviceMapping> = files.collect();
    (!files.is_empty()).then_some(files)
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task::TaskVolume;
    use estimand_exec::Identity;
    use serde_json::{Value, json};

    use super::super::terms::Place;
    use super::*;

    fn run() -> ContainerRun {
        ContainerRun {
            place: Place { socket: "/s".into(), name: "n".into() },
            labels: [("k".to_owned(), "v".to_owned())].into(),
            image: "i:1".into(),
            digest: None,
            command: Vec::new(),
            env: Vec::new(),
            dir: None,
            user: None,
            volumes: Vec::new(),
            cpu: None,
            memory: None,
            gpu: None,
            devices: Vec::new(),
            processes: Some(16),
            timeout_ms: None,
        }
    }

    #[test]
    fn nothing_is_asked_for_that_the_image_has_itself() {
        let body = serde_json::to_value(body(&run(), "i:1")).unwrap();
        for own in ["Cmd", "User", "WorkingDir", "Entrypoint"] {
            assert!(body.get(own).is_none_or(serde_json::Value::is_null), "{own}: {body}");
        }
        let host = &body["HostConfig"];
        assert_eq!((&host["CapDrop"], &host["Privileged"]), (&json!(["ALL"]), &json!(false)));
        assert_eq!(
            (&host["SecurityOpt"], &host["AutoRemove"]),
            (&json!(["no-new-privileges"]), &json!(false))
        );
        assert_eq!((&host["PidsLimit"], &host["LogConfig"]["Type"]), (&json!(16), &json!("json-file")));
    }

    #[test]
    fn limits_user_volumes_and_gpus_are_asked_for_as_they_are() {
        let all = ContainerRun {
            command: vec!["a".into(), "b c".into()],
            env: vec![("K".into(), "V=W".into())],
            dir: Some("/w".into()),
            user: Some(Identity { uid: 7, gid: 8, groups: vec![9] }),
            volumes: vec![TaskVolume { source: "/d".into(), target: "/t".into(), read_only: true }],
            cpu: Some(1500),
            memory: Some(64 << 20),
            gpu: Some(2),
            ..run()
        };
        let body = serde_json::to_value(body(&all, "sha256:0a")).unwrap();
        assert_eq!(body["Image"], "sha256:0a");
        assert_eq!((&body["Cmd"], &body["Env"]), (&json!(["a", "b c"]), &json!(["K=V=W"])));
        assert_eq!((&body["WorkingDir"], &body["User"]), (&json!("/w"), &json!("7:8")));
        let host = &body["HostConfig"];
        assert_eq!(host["GroupAdd"], json!(["9"]));
        assert_eq!((&host["NanoCpus"], &host["CpuShares"]), (&json!(1_500_000_000), &json!(102)));
        assert_eq!((&host["Memory"], &host["MemorySwap"]), (&json!(64 << 20), &json!(64 << 20)));
        let mount = &host["Mounts"][0];
        assert_eq!((&mount["Type"], &mount["ReadOnly"]), (&json!("bind"), &json!(true)));
        assert_eq!((&mount["Source"], &mount["Target"]), (&json!("/d"), &json!("/t")));
        let device = &host["DeviceRequests"][0];
        assert_eq!((&device["Count"], &device["Capabilities"]), (&json!(2), &json!([["gpu"]])));
        assert!(device["DeviceIDs"].is_null());
    }

    #[test]
    fn gpus_are_asked_for_by_their_ids() {
        let with = |ids: &[&str]| {
            let devices: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            let run = ContainerRun { gpu: Some(ids.len() as u64), devices, ..run() };
            serde_json::to_value(body(&run, "i:1")).unwrap()["HostConfig"].clone()
        };
        let host = with(&["GPU-a", "GPU-b"]);
        let request = &host["DeviceRequests"][0];
        assert_eq!((&request["DeviceIDs"], &request["Count"]), (&json!(["GPU-a", "GPU-b"]), &Value::Null));
        assert_eq!((&request["Capabilities"], &host["Devices"]), (&json!([["gpu"]]), &Value::Null));
        let host = with(&["/dev/xdma0"]);
        assert!(host["DeviceRequests"].is_null());
        assert_eq!(host["Devices"][0]["PathOnHost"], "/dev/xdma0");
        assert_eq!(host["Devices"][0]["PathInContainer"], "/dev/xdma0");
    }
}
