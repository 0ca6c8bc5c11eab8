#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const V2: &str = include_str!("../../fixtures/mountinfo-container-v2");
const V1: &str = "30 20 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
    31 30 0:31 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
    32 30 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
    33 30 0:33 /docker/ab /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n";
const V1_GROUPS: &str =
    "5:cpuset:/docker/ab\n4:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n";
const HYBRID: &str = "31 30 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
    32 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

/// A machine whose files are in a folder.
struct Machine(TempDir);

impl Machine {
    fn new(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.write("proc/self/mountinfo", mounts);
        machine.write("proc/self/cgroup", groups);
        files.iter().for_each(|(name, text)| machine.write(&format!("sys/fs/cgroup/{name}"), text));
        machine
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn collect(&self, path: Option<&str>) -> Result<Value, Failure> {
        let root = self.0.path().to_path_buf();
        let roots = Roots { proc: root.join("proc"), root, ..Roots::default() };
        let params = path.map(|path| ("path".to_owned(), json!(path))).into_iter().collect();
        let mut made =
            crate::make(&KIND, &params, &Surroundings { roots, ..Surroundings::default() }).unwrap();
        // Without time for two samples there is one, and nothing is waited for.
        made.collect(Instant::now()).map(|reading| match reading {
            Reading::Here(value) => value,
            Reading::PerNode(_) => panic!("of this node alone"),
        })
    }

    fn value(&self) -> Value {
        self.collect(None).unwrap()
    }
}

#[test]
fn a_container_of_version_2_has_the_groups_of_its_namespace() {
    let machine = Machine::new(
        V2,
        "0::/\n",
        &[
            ("cpu.max", "150000 100000\n"),
            (
                "cpu.stat",
                "usage_usec 5000000\nuser_usec 1\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n",
            ),
            ("cpuset.cpus.effective", "0-3,6\n"),
            ("memory.max", "1073741824\n"),
            ("memory.current", "536870912\n"),
            ("memory.stat", "anon 1\ninactive_file 268435456\nactive_file 2\n"),
            ("memory.events", "low 0\noom 3\noom_kill 2\n"),
            ("pids.max", "100\n"),
            ("pids.current", "7\n"),
            ("cpu.pressure", "some avg10=50.00 avg60=0.00 avg300=0.00 total=1000000\n"),
        ],
    );
    let value = machine.value();
    let expected = json!({
        "version": "v2", "paths": {"cpu": "/", "memory": "/"},
        "cpuLimit": 1.5, "cpusetCount": 5, "cpuCores": 1.5,
        "usageCores": 0.0, "throttledFraction": 0.0, "throttledPeriodsFraction": null,
        "periods": 40, "throttledPeriods": 10, "throttledSeconds": 2.5,
        "memoryLimitBytes": 1_073_741_824, "memoryUsageBytes": 536_870_912,
        "memoryWorkingSetBytes": 268_435_456, "memoryUsedFraction": 0.25, "oomKills": 2,
        "pids": 7, "pidsLimit": 100,
        "pressure": {"cpu": {"some10": 0.5, "some60": 0.0, "some300": 0.0, "someSeconds": 1.0}},
    });
    assert_eq!(value, expected);
}

#[test]
fn the_least_limit_on_the_way_up_counts() {
    let mounts = "32 30 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let machine = Machine::new(
        mounts,
        "0::/pod/box: a/inner\n",
        &[
            ("pod/cpu.max", "50000 100000\n"),
            ("pod/cpu.stat", "usage_usec 9\nnr_periods 5\nnr_throttled 4\nthrottled_usec 3000000\n"),
            ("pod/memory.max", "4096\n"),
            ("pod/cpuset.cpus.effective", "1\n"),
            ("pod/box: a/cpu.max", "200000 100000\n"),
            ("pod/box: a/memory.max", "max\n"),
            ("pod/box: a/inner/cpu.max", "max 100000\n"),
            ("pod/box: a/inner/cpu.stat", "usage_usec 7\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
            ("pod/box: a/inner/memory.max", "8192\n"),
        ],
    );
    let value = machine.value();
    assert_eq!((&value["cpuLimit"], &value["memoryLimitBytes"]), (&json!(0.5), &json!(4096)));
    assert_eq!(
        (&value["periods"], &value["throttledSeconds"]),
        (&json!(5), &json!(3.0)),
        "of the one that limits"
    );
    assert_eq!(value["cpusetCount"], 1);
    assert_eq!(machine.collect(Some("/pod/box: a")).unwrap()["cpuLimit"], 0.5);
    assert_eq!(machine.collect(Some("pod")).unwrap()["paths"]["cpu"], "pod");
    assert!(matches!(machine.collect(Some("/gone")), Err(Failure::NotHere(_))));
}

#[test]
fn version_1_has_a_hierarchy_for_each_controller() {
    let files = [
        ("cpu,cpuacct/cpu.cfs_quota_us", "25000\n"),
        ("cpu,cpuacct/cpu.cfs_period_us", "50000\n"),
        ("cpu,cpuacct/cpu.stat", "nr_periods 8\nnr_throttled 2\nthrottled_time 1500000000\n"),
        ("cpu,cpuacct/cpuacct.usage", "123456789\n"),
        ("cpuset/cpuset.cpus", "0,2\n"),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory/memory.usage_in_bytes", "10000\n"),
        ("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 4000\n"),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
    ];
    let machine = Machine::new(V1, V1_GROUPS, &files);
    let value = machine.value();
    assert_eq!((&value["version"], &value["cpuLimit"]), (&json!("v1"), &json!(0.5)));
    assert_eq!((&value["throttledSeconds"], &value["cpusetCount"]), (&json!(1.5), &json!(2)));
    assert_eq!((&value["memoryLimitBytes"], &value["memoryUsedFraction"]), (&Value::Null, &Value::Null));
    assert_eq!((&value["memoryWorkingSetBytes"], &value["oomKills"]), (&json!(6000), &json!(1)));
    machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    let unlimited = machine.value();
    assert_eq!((&unlimited["cpuLimit"], &unlimited["throttledFraction"]), (&Value::Null, &json!(0.0)));
    assert_eq!(unlimited["cpuCores"], 2.0);
}

#[test]
fn in_a_mix_of_both_each_controller_is_where_it_is() {
    let machine = Machine::new(
        HYBRID,
        "1:cpu:/a\n0::/b\n",
        &[
            ("cpu/a/cpu.cfs_quota_us", "300000\n"),
            ("cpu/a/cpu.cfs_period_us", "100000\n"),
            ("unified/b/memory.max", "777\n"),
        ],
    );
    let value = machine.value();
    assert_eq!((&value["version"], &value["cpuLimit"]), (&json!("hybrid"), &json!(3.0)));
    assert_eq!((&value["memoryLimitBytes"], &value["paths"]["memory"]), (&json!(777), &json!("/b")));
}

#[test]
fn a_path_out_of_the_mount_is_the_mount() {
    for groups in ["0::/../../other\n", "0::/gone (deleted)\n", "0::/docker/not/mounted\n"] {
        let machine = Machine::new(V2, groups, &[("cpu.max", "100000 100000\n")]);
        assert_eq!(machine.value()["cpuLimit"], 1.0, "{groups}");
    }
}

#[test]
fn without_control_groups_there_is_nothing() {
    let machine = Machine::new("1 0 8:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", &[]);
    assert!(matches!(machine.collect(None), Err(Failure::NotHere(_))));
    let params = BTreeMap::from([("path".to_owned(), json!("/a/../../etc"))]);
    assert!(crate::make(&KIND, &params, &Surroundings::default()).is_err());
}

fn sample(usage_us: u64, throttled_us: u64, periods: u64, throttled_periods: u64) -> Sample {
    let throttling = Throttling {
        usage_us: Some(usage_us),
        periods: Some(periods),
        throttled_periods: Some(throttled_periods),
        throttled_us: Some(throttled_us),
    };
    Sample { usage_us: Some(usage_us), limit: Some(1.0), limiting: "/a".into(), throttling }
}

#[test]
fn throttling_is_of_the_time_that_was_wanted() {
    let told =
        |before: &Sample, now: &Sample| processors(&Pair { before, now, elapsed: Duration::from_secs(2) });
    // Four threads that would use four cores get one: of eight seconds two.
    let value = told(&sample(0, 0, 0, 0), &sample(2_000_000, 6_000_000, 20, 19));
    assert_eq!((&value["usageCores"], &value["throttledFraction"]), (&json!(1.0), &json!(0.75)));
    assert_eq!(value["throttledPeriodsFraction"], 0.95);
    let idle = told(&sample(5, 5, 5, 5), &sample(5, 5, 5, 5));
    assert_eq!((&idle["throttledFraction"], &idle["throttledPeriodsFraction"]), (&json!(0.0), &Value::Null));
    let anew = told(&sample(9, 9, 9, 9), &sample(1, 1, 1, 1));
    assert_eq!((&anew["throttledFraction"], &anew["usageCores"]), (&Value::Null, &Value::Null));
    let unaccounted = |throttled_us| {
        let sample = sample(0, throttled_us, 0, 0);
        Sample { throttling: Throttling { usage_us: None, ..sample.throttling }, ..sample }
    };
    assert_eq!(
        told(&unaccounted(0), &unaccounted(500_000))["throttledFraction"],
        0.25,
        "of the time that passed"
    );
    let moved = Sample { limiting: "/".into(), ..sample(9, 9, 9, 9) };
    assert_eq!(
        told(&sample(1, 1, 1, 1), &moved)["throttledFraction"],
        Value::Null,
        "another group's counters"
    );
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "([0-9]{0,2}:[a-z,=]{0,9}:/.{0,9}\n?){0,4}", max in "(max|[0-9]{0,21}) ?[0-9]{0,21}") {
        Groups::find(&text, &mounts::parse(HYBRID.as_bytes()), Path::new("/no/such/place"), None);
        parse_cpu_max(&max);
        crate::files::word(&text, "usage_usec");
    }
}
