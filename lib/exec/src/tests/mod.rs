//! Real processes, in each way of holding them together that this machine has. The remains of a run are looked for
//! in the process table, by a mark in arguments and environment that only this test's processes carry.
#![allow(clippy::unwrap_used)]

mod deaths;
mod limits;
mod misbehaviour;
mod plain;
mod privileges;
mod stranger;
mod system_calls;
mod usage;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::limits::Limits;

use super::*;

const ALL_WAYS: [CgroupMode; 3] = [CgroupMode::Best, CgroupMode::V2, CgroupMode::None];

/// A launcher and a mark of its own.
struct World {
    launcher: Launcher,
    way: CgroupMode,
    mark: String,
}

/// The launcher's program, which cargo builds with the tests.
fn launcher_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples/launcher");
    assert!(program.exists(), "{} is not built: `cargo build --examples`", program.display());
    program
}

fn options(id: &str, cgroups: CgroupMode) -> LauncherOptions {
    LauncherOptions {
        program: launcher_program(),
        args: Vec::new(),
        id: id.to_owned(),
        first: false,
        cgroups,
        precedence: Precedence::Ordinary,
        privileges: Privileges::default(),
        measures: false,
    }
}

fn new_mark() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("mark-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

/// A group that holds everything that a launcher starts to so many processes. Where the launcher counts
/// them by itself it is a race, and a test that loses it must not take the machine with it.
struct Guard(Option<PathBuf>);

impl Guard {
    fn new(mark: &str, most: u64) -> Self {
        let group = cgroup::own_group(Some("pids")).map(|group| group.join(format!("guard-{mark}")));
        let group = group.filter(|group| std::fs::create_dir(group).is_ok());
        if let Some(group) = &group {
            std::fs::write(group.join("pids.max"), most.to_string()).unwrap();
        }
        Guard(group)
    }

    fn options(&self, options: LauncherOptions) -> LauncherOptions {
        let Some(group) = &self.0 else { return options };
        let join = ["-c", "echo 0 > \"$0\" && exec \"$1\""].map(OsString::from).to_vec();
        let args = [join, vec![group.join("cgroup.procs").into(), options.program.into()]].concat();
        LauncherOptions { program: "/bin/sh".into(), args, ..options }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            let _ = std::fs::remove_dir(group);
        }
    }
}

impl World {
    /// A world with never more processes than these.
    async fn guarded(way: CgroupMode, most: u64) -> (Self, Guard) {
        let mark = new_mark();
        let guard = Guard::new(&mark, most);
        let launcher = Launcher::start(guard.options(options(&mark, way))).await.unwrap();
        (World { launcher, way, mark }, guard)
    }

    async fn new(way: CgroupMode) -> Self {
        let mark = new_mark();
        World { launcher: Launcher::start(options(&mark, way)).await.unwrap(), way, mark }
    }

    async fn cell(&self) -> Cell {
        self.launcher.open_cell("slot", &Limits::default()).await
    }

    fn shell<'a>(&self, script: &str, cell: &'a Cell) -> RunSpec<'a> {
        let argv = ["sh", "-c", script, self.mark.as_str()].map(str::to_owned).to_vec();
        self.spec("/bin/sh", argv, cell)
    }

    fn python<'a>(&self, script: &str, cell: &'a Cell) -> RunSpec<'a> {
        let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
            .into_iter()
            .find(|path| PathBuf::from(path).exists());
        let argv = ["python3", "-I", "-c", script, self.mark.as_str()].map(str::to_owned).to_vec();
        self.spec(python.expect("python3 is installed"), argv, cell)
    }

    fn spec<'a>(&self, program: &str, argv: Vec<String>, cell: &'a Cell) -> RunSpec<'a> {
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("MARK", self.mark.as_str())];
        RunSpec {
            program: program.into(),
            file: None,
            argv,
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            dir: "/tmp".into(),
            dir_rights: DirRights::Run,
            stdin: Stdin::Null,
            cell,
            until: None,
        }
    }

    async fn capture(&self, spec: RunSpec<'_>, bounds: &CaptureLimits) -> CapturedRun {
        capture(&self.launcher, spec, bounds, std::future::pending()).await.unwrap()
    }

    /// Runs a shell script in a cell of its own, with ample bounds.
    async fn sh(&self, script: &str) -> CapturedRun {
        let cell = self.cell().await;
        let captured = self.capture(self.shell(script, &cell), &ample()).await;
        self.launcher.close_cell(cell).await;
        captured
    }

    async fn sh_error(&self, spec: RunSpec<'_>) -> SpawnError {
        self.launcher.run(spec).await.map(|run| run.pid()).unwrap_err()
    }

    /// Everything ends with nothing left.
    async fn end(self) {
        let World { launcher, mark, way } = self;
        launcher.stop().await;
        assert_eq!(marked(&mark), Vec::<String>::new(), "{way:?}");
        assert_eq!(groups_of(&mark), Vec::<PathBuf>::new(), "{way:?}");
    }
}

fn ample() -> CaptureLimits {
    bounds(Duration::from_secs(60), Duration::from_secs(1))
}

fn bounds(timeout: Duration, grace: Duration) -> CaptureLimits {
    CaptureLimits { timeout, grace, max_stdout: 64 * 1024, max_stderr: 4 * 1024 }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The living processes that carry a mark, launchers aside.
fn marked(mark: &str) -> Vec<String> {
    let carries = |pid: i32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let own = std::process::id() as i32;
    orphans::scan()
        .into_iter()
        .filter(|process| !process.zombie && process.pid != own)
        .filter(|process| carries(process.pid, "cmdline") || carries(process.pid, "environ"))
        .map(|process| {
            let words = std::fs::read_to_string(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            format!("{process:?} {}", words.replace('\0', " "))
        })
        .collect()
}

/// The cgroups of an agent.
fn groups_of(id: &str) -> Vec<PathBuf> {
    let hierarchies = [Some("pids"), Some("memory"), Some("cpu"), None];
    let groups = hierarchies.into_iter().filter_map(cgroup::own_group);
    groups.map(|group| group.join(format!("estimand-{id}"))).filter(|group| group.exists()).collect()
}

/// Waits for something that must become true soon.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
