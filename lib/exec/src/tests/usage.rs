//! The usage of runs by known amounts.

use super::*;

const MIB: u64 = 1 << 20;

async fn measured(way: CgroupMode) -> World {
    let mark = new_mark();
    let options = LauncherOptions { measures: true, ..options(&mark, way) };
    World { launcher: Launcher::start(options).await.unwrap(), way, mark }
}

async fn used(world: &World, limits: &Limits, script: &str) -> RunUsage {
    let cell = world.launcher.open_cell("measured", limits).await;
    let captured = world.capture(world.python(script, &cell), &ample()).await;
    world.launcher.close_cell(cell).await;
    assert_eq!(text(&captured.stderr_tail), "", "{:?}", world.way);
    captured.outcome.usage.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_of_all_processes_is_counted() {
    // The second one is an orphan, for which only the launcher waits.
    let spins = "
import os, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
spin(0.2)
if os.fork() == 0:
    if os.fork() == 0:
        spin(0.3)
    os._exit(0)
os.wait()
for _ in range(20000):
    os.stat('/')
time.sleep(0.5)
";
    for way in ALL_WAYS {
        let world = measured(way).await;
        let processor = used(&world, &Limits::default(), spins).await.processor;
        let all = processor.user + processor.system;
        assert!((Duration::from_millis(490)..Duration::from_secs(1)).contains(&all), "{processor:?} {way:?}");
        assert!(processor.system > Duration::ZERO, "{way:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_counted_without_the_page_cache() {
    // A file that is read is page cache; 20 MiB are held, of which 10 in another process.
    let holds = "
import os, time
path = '/tmp/estimand-usage-%d' % os.getpid()
with open(path, 'wb') as file:
    file.write(os.urandom(16 << 20))
with open(path, 'rb') as file:
    while file.read(1 << 20):
        pass
os.unlink(path)
child = os.fork()
held = bytearray(10 << 20)
for page in range(0, len(held), 4096):
    held[page] = 1
time.sleep(0.6)
if child:
    os.wait()
";
    for (way, limit) in [
        (CgroupMode::Best, Some(128 * MIB)),
        (CgroupMode::Best, None),
        (CgroupMode::V2, None),
        (CgroupMode::None, None),
    ] {
        let world = measured(way).await;
        let usage = used(&world, &Limits { memory: limit, ..Limits::default() }, holds).await;
        let memory = usage.memory.unwrap();
        assert_eq!(usage.memory_limit, limit);
        // Two interpreters have some for themselves, too.
        assert!((20 * MIB..56 * MIB).contains(&memory.peak), "{memory:?} {way:?}");
        assert!(memory.mean.is_some_and(|mean| mean > 5 * MIB && mean <= memory.peak), "{memory:?} {way:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_disk_are_counted() {
    const TMPFS: i64 = 0x0102_1994;
    let is_disk = rustix::fs::statfs("/tmp").is_ok_and(|system| system.f_type != TMPFS);
    let writes = "
import os
path = '/tmp/estimand-usage-%d' % os.getpid()
with open(path, 'wb') as file:
    file.write(os.urandom(4 << 20))
    file.flush()
    os.fsync(file.fileno())
os.unlink(path)
";
    for way in ALL_WAYS {
        let world = measured(way).await;
        let disk = used(&world, &Limits::default(), writes).await.disk;
        let expected = if is_disk { 4 * MIB..6 * MIB } else { 0..MIB };
        assert!(expected.contains(&disk.written), "{disk:?} {way:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_a_cell_that_is_used_again_has_only_its_own() {
    for way in ALL_WAYS {
        let world = measured(way).await;
        let cell = world.cell().await;
        let spin = "import time\nwhile time.process_time() < 0.4: pass";
        let first = world.capture(world.python(spin, &cell), &ample()).await.outcome.usage.unwrap();
        let second = world.capture(world.shell("true", &cell), &ample()).await.outcome.usage.unwrap();
        let all = |usage: RunUsage| usage.processor.user + usage.processor.system;
        assert!(all(first) >= Duration::from_millis(400), "{first:?} {way:?}");
        assert!(all(second) < Duration::from_millis(200), "{second:?} {way:?}");
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launcher_that_does_not_measure_tells_nothing() {
    let world = World::new(CgroupMode::Best).await;
    assert_eq!(world.sh("true").await.outcome.usage, None);
    world.end().await;
}
