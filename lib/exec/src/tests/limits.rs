//! Limits hold, or are named as not enforced.

use super::*;

async fn limited(world: &World, limits: Limits, script: &str) -> (CapturedRun, Vec<String>) {
    let cell = world.launcher.open_cell("limited", &limits).await;
    let captured =
        world.capture(world.python(script, &cell), &bounds(Duration::from_secs(30), Duration::ZERO)).await;
    let unenforced = cell.unenforced();
    world.launcher.close_cell(cell).await;
    (captured, unenforced)
}

/// Only root can make cgroups on every machine that runs these tests.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_limited() {
    let eater = "
import sys
held = []
try:
    while True:
        held.append(bytearray(8 << 20))
        if len(held) > 40:
            print('got away with it')
            break
except MemoryError:
    sys.exit(9)
";
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let limits = Limits { memory: Some(96 << 20), ..Limits::default() };
        let (captured, unenforced) = limited(&world, limits, eater).await;
        assert_eq!(text(&captured.stdout), "", "{way:?}");
        if unenforced.is_empty() {
            assert_eq!(captured.outcome.exit, Exit::Signal(9), "{way:?}");
            assert_eq!(captured.outcome.exceeded, Some(ExceededLimit::Memory));
            // A limit under which not even the program can be loaded harms this run and no other.
            let limits = Limits { memory: Some(64 << 10), ..Limits::default() };
            let cell = world.launcher.open_cell("tiny", &limits).await;
            for _ in 0..3 {
                let result =
                    capture(&world.launcher, world.shell("true", &cell), &ample(), std::future::pending())
                        .await;
                if let Ok(captured) = &result {
                    assert_ne!(captured.outcome.exit, Exit::Lost, "the launcher lives");
                    assert_ne!(captured.outcome.exit, Exit::Code(0));
                }
            }
            world.launcher.close_cell(cell).await;
            assert_eq!(world.sh("echo fine").await.stdout, b"fine\n");
        } else {
            assert_eq!(captured.outcome.exit, Exit::Code(9), "{way:?}");
            assert!(unenforced[0].starts_with("memory: "), "{unenforced:?}");
        }
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_and_files_are_limited() {
    let many = "
import os
pids = []
try:
    for _ in range(30):
        pid = os.fork()
        if pid == 0:
            import time; time.sleep(1000)
        pids.append(pid)
except BlockingIOError:
    print(len(pids))
";
    let world = World::new(CgroupMode::Best).await;
    let limits = Limits { processes: Some(10), open_files: Some(20), cpu: Some(0.5), ..Limits::default() };
    let (captured, unenforced) = limited(&world, limits, many).await;
    if is_root() {
        assert_eq!(unenforced, Vec::<String>::new(), "root can make cgroups for all of them");
        assert_eq!(text(&captured.stdout), "9\n", "and the main process is the tenth");
    } else {
        assert_eq!(unenforced.len(), 2, "{unenforced:?}");
    }
    world.end().await;

    for way in ALL_WAYS {
        let world = World::new(way).await;
        let files = "
held = []
try:
    while len(held) < 100:
        held.append(open('/dev/null'))
except OSError:
    print(3 + len(held))
";
        let limits = Limits { open_files: Some(20), ..Limits::default() };
        let (captured, _) = limited(&world, limits, files).await;
        assert_eq!(text(&captured.stdout), "20\n", "{way:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_is_limited_or_named_as_unenforced() {
    let limits = Limits { cpu: Some(0.2), ..Limits::default() };
    let busy = "
import time
end = time.monotonic() + 1.0
while time.monotonic() < end:
    pass
";
    let world = World::new(CgroupMode::Best).await;
    let (captured, unenforced) = limited(&world, limits, busy).await;
    assert_eq!(unenforced.is_empty(), is_root(), "{unenforced:?}");
    let share = captured.outcome.cpu.as_secs_f64() / captured.outcome.ran_for.as_secs_f64();
    assert!(share < 0.4 || !is_root(), "{share} of a core, of {:?}", captured.outcome);
    world.end().await;
    for way in [CgroupMode::V2, CgroupMode::None] {
        let world = World::new(way).await;
        let (_, unenforced) = limited(&world, limits, "").await;
        assert!(unenforced.iter().any(|line| line.starts_with("cpu: ")), "{way:?} {unenforced:?}");
        world.end().await;
    }
}

/// Both want one processor until the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_background_leaves_the_processor_to_others() {
    for way in [CgroupMode::Best, CgroupMode::None] {
        let ordinary = World::new(way).await;
        let mark = new_mark();
        let options = LauncherOptions { precedence: Precedence::Background, ..options(&mark, way) };
        let background = World { launcher: Launcher::start(options).await.unwrap(), way, mark };
        let busy = "
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while time.clock_gettime(time.CLOCK_BOOTTIME) < UNTIL:
    pass
";
        let until = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec + 3;
        let busy = busy.replace("UNTIL", &until.to_string());
        let first = limited(&ordinary, Limits::default(), &busy);
        let (first, second) = tokio::join!(first, limited(&background, Limits::default(), &busy));
        let [first, second] = [first, second].map(|(captured, _)| captured.outcome.cpu.as_secs_f64());
        assert!(second < first / 2.0, "{way:?}: {second} s beside {first} s");
        ordinary.end().await;
        background.end().await;
    }
}
