//! The `gpu` collector against a stub of the driver's library, which each test compiles for itself: so each has its
//! own devices, and may change them under the collector. The real library exists only beside a GPU.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use estimand_collectors::{Collector, Failure, Reading, Roots, Surroundings, find, make};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Stub {
    folder: TempDir,
    library: PathBuf,
}

impl Stub {
    fn new(conf: &str) -> Self {
        Self::compiled(conf, &[])
    }

    fn compiled(conf: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libstub_nvml.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml_stub/nvml_stub.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
            .arg(&library)
            .arg(source)
            .args(options)
            .arg("-ldl");
        assert!(cc.status().unwrap().success(), "the stub compiles");
        let stub = Stub { folder, library };
        stub.set(conf);
        stub
    }

    fn set(&self, conf: &str) {
        std::fs::write(self.beside(".conf"), conf).unwrap();
    }

    fn beside(&self, ending: &str) -> PathBuf {
        PathBuf::from(format!("{}{ending}", self.library.display()))
    }

    /// How often the library was opened.
    fn opened(&self) -> usize {
        std::fs::read_to_string(self.beside(".calls")).unwrap_or_default().lines().count()
    }

    fn collector(&self) -> Box<dyn Collector> {
        gpu(&self.library, self.folder.path())
    }

    fn once(&self) -> Result<Value, Failure> {
        ask(&mut *self.collector())
    }
}

fn gpu(library: &Path, proc: &Path) -> Box<dyn Collector> {
    let params = BTreeMap::from([("library".to_owned(), json!(library))]);
    let roots = Roots { proc: proc.to_owned(), ..Roots::default() };
    let around = Surroundings { roots, ..Surroundings::default() };
    make(find("gpu").unwrap(), &params, &around).unwrap()
}

fn ask(collector: &mut dyn Collector) -> Result<Value, Failure> {
    match collector.collect(Instant::now() + Duration::from_secs(20))? {
        Reading::Here(value) => Ok(value),
        Reading::PerNode(_) => panic!("it is of this node"),
    }
}

const GIB: u64 = 1 << 30;

#[test]
fn devices_with_everything_say_everything() {
    let value = Stub::new("devices 2 throttle 324").once().unwrap();
    let expected = json!({
        "name": "Stub GPU", "uuid": "GPU-stub-1", "computeMode": "exclusive-process", "persistenceMode": true,
        "utilizationFraction": {"gpu": 0.38, "memory": 0.12},
        "memoryTotalBytes": 80 * GIB, "memoryUsedBytes": 3 * GIB, "memoryFreeBytes": 77 * GIB,
        "temperatureCelsius": 61, "slowdownCelsius": 90, "shutdownCelsius": 95,
        "powerWatts": 123.456, "powerLimitWatts": 700.0,
        "fans": {"0": {"speedFraction": 0.3}, "1": {"speedFraction": 0.31}},
        "clocks": {
            "graphicsMhz": 1000, "maxGraphicsMhz": 2000, "smMhz": 1001, "maxSmMhz": 2001,
            "memoryMhz": 1002, "maxMemoryMhz": 2002,
        },
        "throttleReasons": ["sw-power-cap", "hw-thermal", "display-clock"],
        "ecc": {
            "enabled": true, "pending": false,
            "volatile": {"corrected": 100, "uncorrected": 101},
            "aggregate": {"corrected": 200, "uncorrected": 201},
        },
        "processCount": 0, "processes": {},
        "mig": {"enabled": false, "pending": false},
        "nvlink": {
            "0": {
                "active": true, "version": 4, "replays": 10, "recoveries": 11,
                "crcFlitErrors": 12, "crcDataErrors": 13,
            },
            "1": {"active": false},
        },
        "pcie": {
            "generation": 4, "maxGeneration": 5, "width": 8, "maxWidth": 16, "replays": 5,
            "txBytesPerSecond": 700_000, "rxBytesPerSecond": 701_000,
        },
    });
    assert_eq!(value["devices"]["1"], expected);
    assert_eq!(value["devices"]["0"]["utilizationFraction"]["gpu"], 0.37);
    assert_eq!(value["count"], 2);
    assert_eq!(value["driver"], "570.86.15");
    assert_eq!(value["cuda"], "12.8");
    assert!(value.get("failing").is_none());
}

#[test]
fn a_figure_that_a_device_lacks_is_left_out_and_the_library_may_be_old() {
    let old = Stub::compiled("devices 1", &["-DOLD_DRIVER"]).once().unwrap();
    let device = old["devices"]["0"].as_object().unwrap();
    assert_eq!(device["temperatureCelsius"], 61);
    for absent in ["memoryTotalBytes", "processes", "error"] {
        assert!(!device.contains_key(absent), "{absent}");
    }

    // A device with nothing at all is of no use, and says so beside one that is well.
    let value = Stub::new("devices 2 bare 0").once().unwrap();
    assert_eq!(value["devices"]["0"], json!({"error": "no data"}));
    assert_eq!((&value["count"], &value["failing"]), (&json!(1), &json!(1)));
    assert_eq!(value["devices"]["1"]["powerWatts"], 123.456);
}

#[test]
fn a_partitioned_device_shows_its_instances() {
    let value = Stub::new("devices 1 mig 0").once().unwrap();
    let device = &value["devices"]["0"];
    assert!(device.get("utilizationFraction").is_none(), "the driver gives none for a partitioned device");
    let instance = |index: u32| {
        json!({
            "name": "Stub GPU MIG 1g.10gb", "uuid": format!("MIG-stub-0-{index}"),
            "memoryTotalBytes": 10 * GIB, "memoryUsedBytes": 3 * GIB, "memoryFreeBytes": 7 * GIB,
            "gpuSlices": 1, "computeSlices": 1, "multiprocessors": 14,
        })
    };
    let instances = json!({"0": instance(0), "2": instance(2)});
    assert_eq!(device["mig"], json!({"enabled": true, "pending": true, "instances": instances}));
}

#[test]
fn processes_are_named_where_the_kernel_knows_them() {
    let stub = Stub::new("devices 2 compute 41 compute 42 graphics 43 graphics 42");
    let comm = stub.folder.path().join("42");
    std::fs::create_dir(&comm).unwrap();
    std::fs::write(comm.join("comm"), "train\n").unwrap();
    let value = stub.once().unwrap();
    let expected = json!({
        "41": {"kind": "compute", "usedMemoryBytes": 1000},
        "42": {"kind": "both", "usedMemoryBytes": 2000, "name": "train"},
        "43": {"kind": "graphics", "usedMemoryBytes": 1000},
    });
    assert_eq!(value["devices"]["0"]["processes"], expected);
    assert_eq!(value["devices"]["1"]["processes"], json!({}));

    // More than can be shown are counted, and those with the most memory are shown.
    let many: String = (1..=200).map(|pid| format!("compute {pid} ")).collect();
    stub.set(&format!("devices 1 {many}"));
    let value = stub.once().unwrap();
    let device = &value["devices"]["0"];
    let shown: Vec<&String> = device["processes"].as_object().unwrap().keys().collect();
    assert_eq!((&device["processCount"], shown.len(), shown[0].as_str()), (&json!(200), 64, "137"));
}

#[test]
fn a_machine_with_very_many_devices_stays_within_a_value() {
    let many: String = (1..=200).map(|pid| format!("compute {pid} ")).collect();
    let value = Stub::new(&format!("devices 64 {many}")).once().unwrap();
    assert!(value.to_string().len() <= 64 * 1024, "{}", value.to_string().len());
    assert_eq!(value["devices"].as_object().unwrap().len(), 64);
    assert_eq!(value["omitted"], json!(["processes", "nvlink"]));
}

#[test]
fn one_lost_device_takes_nothing_from_the_others() {
    let stub = Stub::new("devices 3");
    let mut collector = stub.collector();
    assert_eq!(ask(&mut *collector).unwrap()["count"], 3);
    stub.set("devices 3 lost 1 dying 2");
    let value = ask(&mut *collector).unwrap();
    let lost = "device fell off the bus or has otherwise become inacessible";
    assert_eq!(value["devices"]["1"], json!({"error": lost}));
    let dying = json!({"name": "Stub GPU", "uuid": "GPU-stub-2", "error": lost});
    assert_eq!(value["devices"]["2"], dying);
    assert_eq!(value["devices"]["0"]["temperatureCelsius"], 61);
    assert_eq!((&value["count"], &value["failing"]), (&json!(1), &json!(2)));
    assert_eq!(stub.opened(), 1);

    // The handle is opened anew after that, and ever more seldom while the device stays lost.
    for _ in 0..31 {
        ask(&mut *collector).unwrap();
    }
    assert_eq!(stub.opened(), 6, "after 1, 2, 4, 8 and 16 collections");
    stub.set("devices 3");
    assert_eq!(ask(&mut *collector).unwrap()["count"], 3);
}

#[test]
fn a_broken_device_says_why() {
    let value = Stub::new("devices 2 broken 0").once().unwrap();
    assert_eq!(value["devices"]["0"], json!({"error": "an internal driver error occurred"}));
    assert_eq!(value["count"], 1);
}

#[test]
fn when_all_are_gone_it_fails_and_when_none_ever_was_it_is_not_here() {
    let stub = Stub::new("devices 2");
    let mut collector = stub.collector();
    stub.set("devices 0");
    let none = ask(&mut *collector).unwrap_err();
    assert_eq!(none, Failure::NotHere("the driver is there, but no GPU".to_owned()));
    stub.set("devices 2");
    assert_eq!(ask(&mut *collector).unwrap()["count"], 2, "one that comes later is seen");
    stub.set("devices 2 lost 0 lost 1");
    let Failure::Failed(why) = ask(&mut *collector).unwrap_err() else { panic!("they were there") };
    assert!(why.starts_with("no GPU answers: GPU 0: device fell off the bus"), "{why}");
    stub.set("devices 0");
    let Failure::Failed(why) = ask(&mut *collector).unwrap_err() else { panic!("they were there") };
    assert!(why.starts_with("there was a GPU, and now there is none"), "{why}");
    stub.set("devices 2");
    assert_eq!(ask(&mut *collector).unwrap()["count"], 2);
}

#[test]
fn a_reload_of_the_driver_is_survived() {
    let stub = Stub::new("devices 1");
    let mut collector = stub.collector();
    ask(&mut *collector).unwrap();
    stub.set("devices 1 epoch 1");
    assert_eq!(ask(&mut *collector).unwrap()["count"], 1);
    assert_eq!(stub.opened(), 2);
    // While it is away, it fails; when it is back, so are the figures.
    stub.set("devices 1 epoch 2 init 9");
    let Failure::Failed(why) = ask(&mut *collector).unwrap_err() else { panic!("it was there") };
    assert!(why.contains("driver is not loaded"), "{why}");
    stub.set("devices 1 epoch 3");
    assert_eq!(ask(&mut *collector).unwrap()["count"], 1);
}

#[test]
fn why_the_library_does_not_open_is_told() {
    let refused = |conf: &str| Stub::new(conf).once().unwrap_err();
    assert_eq!(
        refused("init 9"),
        Failure::NotHere("no NVIDIA driver: NVIDIA driver is not loaded".to_owned())
    );
    for (code, part) in [(4, "permission"), (18, "version mismatch"), (999, "internal")] {
        let Failure::Failed(why) = refused(&format!("init {code}")) else { panic!("{code} is a failure") };
        assert!(why.starts_with("the NVIDIA driver refuses") && why.contains(part), "{why}");
    }

    let folder = tempfile::tempdir().unwrap();
    let missing = ask(&mut *gpu(&folder.path().join("none.so"), folder.path())).unwrap_err();
    let Failure::NotHere(why) = missing else { panic!("no library is no driver") };
    assert!(why.starts_with("no NVIDIA driver: ") && why.contains("none.so"), "{why}");
}

#[test]
fn a_deadline_that_is_over_asks_no_device() {
    let stub = Stub::new("devices 1");
    let over = stub.collector().collect(Instant::now()).unwrap_err();
    assert_eq!(over, Failure::Failed("no GPU answers: GPU 0: the provided timeout was reached".to_owned()));
}
