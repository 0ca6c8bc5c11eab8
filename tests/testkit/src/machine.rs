//! A machine of its own that systemd has booted: this one's files beneath, what changes in memory above, and a network that
//! leads nowhere. Packages are installed there and units run as they do on a node, and nothing here notices.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::disk::{Disk, mount};
use crate::{processes, spawner, wait};

const BOOT_DEADLINE: Duration = Duration::from_secs(120);
/// Nothing of what this machine starts at boot.
const TARGET: &str = "systemd.unit=basic.target";

pub struct Machine {
    nspawn: Child,
    /// Its first process, as this process sees it.
    init: u32,
    disk: Disk,
}

impl Machine {
    /// Returns when it has booted. `size` is how much may change there, such as `500m`.
    #[track_caller]
    pub fn boot(size: &str) -> Self {
        let disk = Disk::in_memory(size);
        let [upper, work, root] = ["upper", "work", "root"].map(|name| disk.path().join(name));
        for folder in [&upper, &work, &root] {
            std::fs::create_dir(folder).expect("a folder can be made");
        }
        let layers = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
        mount(&["-t", "overlay", "-o", &layers, "overlay"], &root);
        // An id of its own. One that systemd makes at the first boot is followed by a sync of all disks, also those that
        // other tests spoil.
        let id = format!("{:032x}\n", fastrand::u128(1..));
        std::fs::write(root.join("etc/machine-id"), id).expect("a file can be written");
        let mut command = spawner::bound_command("systemd-nspawn", None);
        command.args(["--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe"]);
        command.arg("--directory").arg(&root).args(["--boot", TARGET]);
        let console = std::fs::File::create(disk.path().join("console")).expect("a file can be made");
        command.stdin(Stdio::null()).stderr(console.try_clone().expect("a file has handles")).stdout(console);
        let nspawn = spawner::spawn(command).unwrap_or_else(|error| panic!("systemd-nspawn: {error}"));
        let mut machine = Self { nspawn, init: 0, disk };
        machine.init = wait::until(BOOT_DEADLINE, "the first process of a machine", || {
            assert!(
                machine.nspawn.try_wait().is_ok_and(|ended| ended.is_none()),
                "{}; is systemd-container installed?",
                machine.console()
            );
            let children = processes::descendants(machine.nspawn.id());
            let init = |one: &processes::Process| {
                one.cmdline.first().is_some_and(|first| first.ends_with("/systemd"))
            };
            children.iter().find(|one| init(one)).map(|one| one.pid)
        });
        let booted = wait::poll(BOOT_DEADLINE, || {
            let state = machine.output("systemctl is-system-running");
            let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
            if ["running", "degraded"].contains(&state.as_str()) { Ok(()) } else { Err(state) }
        });
        if let Err(state) = booted {
            panic!("the machine is {state:?}: {}", machine.console());
        }
        machine
    }

    /// A path there, as this machine sees it.
    pub fn path(&self, there: &str) -> PathBuf {
        self.disk.path().join("root").join(there.trim_start_matches('/'))
    }

    /// The output of a shell there, as root; it must end well.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        let output = self.output(script);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {}: {said}{complained}", output.status);
        said
    }

    /// How a shell there ends, as root.
    #[track_caller]
    pub fn output(&self, script: &str) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--all", "--", "/usr/bin/env", "-i"]);
        command.args([
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LANG=C.UTF-8",
            "/bin/sh",
            "-ec",
            script,
        ]);
        command.stdin(Stdio::null()).output().expect("nsenter runs")
    }

    fn console(&self) -> String {
        std::fs::read_to_string(self.disk.path().join("console")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All of the machine ends with its first process, which nspawn waits for.
        if let Some(init) = i32::try_from(self.init).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(init, rustix::process::Signal::KILL);
        }
        let _ = self.nspawn.wait();
        // nspawn has made them beside its own group, and leaves them when it is not registered.
        for hierarchy in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"] {
            for group in ["payload", "supervisor"] {
                remove_group(&Path::new(hierarchy).join(group));
            }
        }
    }
}

/// Removes a control group and those below it, but for those that have processes.
fn remove_group(group: &Path) {
    let Ok(entries) = std::fs::read_dir(group) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_group(&entry.path());
    }
    let _ = std::fs::remove_dir(group);
}
