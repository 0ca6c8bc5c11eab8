//! The system calls that a launcher makes for one short run, as strace sees them. They are the most of what a run costs beside
//! the program itself. Instructions are not counted: valgrind refuses a child that shares the launcher's memory.

use std::path::Path;

use super::*;

/// Those of a run that nothing delays.
const CALLS_OF_A_RUN: usize = 13;
/// Where no cgroup counts its processes, its user is bound to a number of them that is far above that of the moment.
const BINDING: &str = "prlimit64(0, RLIMIT_NPROC";
const CALLS_OF_BINDING: usize = 4;
const RUNS: u32 = 100;
/// With this call a run begins.
const BEGINNING: &str = "clone(";
/// The standard library looks at each descriptor before it closes it, in a debug build.
const DEBUGGING: &str = "fcntl(";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_takes_as_many_system_calls_as_are_written_down() {
    for way in ALL_WAYS {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("calls");
        let world = traced(way, &report).await;
        let cell = world.cell().await;
        for _ in 0..RUNS {
            let captured = world.capture(world.spec("/bin/true", vec!["true".into()], &cell), &ample()).await;
            assert_eq!(captured.outcome.exit, Exit::Code(0));
        }
        world.launcher.close_cell(cell).await;
        world.end().await;

        let report = std::fs::read_to_string(report).unwrap();
        let calls: Vec<&str> = report.lines().filter(|call| !call.starts_with(DEBUGGING)).collect();
        let runs: Vec<&[&str]> = calls.split(|call| call.starts_with(BEGINNING)).collect();
        // Before the first one it starts, and after the last one it ends.
        let between = runs[1..runs.len() - 1].iter();
        let least = between.min_by_key(|calls| calls.len()).unwrap();
        let is_bound = least.iter().any(|call| call.starts_with(BINDING));
        let meant = CALLS_OF_A_RUN + if is_bound { CALLS_OF_BINDING } else { 0 };
        assert_eq!(least.len() + 1, meant, "{way:?}: after {BEGINNING} come\n{}", least.join("\n"));
    }
}

/// A world whose launcher's calls are written to that file.
async fn traced(way: CgroupMode, report: &Path) -> World {
    let mark = new_mark();
    let options = options(&mark, way);
    let args = vec!["-o".into(), report.into(), "--".into(), options.program.into()];
    let options = LauncherOptions { program: "/usr/bin/strace".into(), args, ..options };
    World { launcher: Launcher::start(options).await.unwrap(), way, mark }
}
