//! Executables that refuse to end, hide, multiply or print too much.

use super::*;

/// Ignores SIGTERM, and so does everything it starts.
const STUBBORN: &str = "trap '' TERM; (while :; do sleep 1000; done) & (sh -c 'sleep 1000; :' $0) & \
                        echo started; while :; do sleep 1000; done";
/// Three shells, and what each sleeps in. A shell that cannot fork when it is stopped ends by itself.
const STUBBORN_PROCESSES: usize = 6;

/// A daemon by the book: two forks and a session of its own, and its environment thrown away.
const DAEMON: &str = "
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir('/')
        null = os.open('/dev/null', os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.execve('/bin/sh', ['sh', '-c', 'while :; do sleep 1000; done', sys.argv[1]], ENVIRONMENT)
    os._exit(0)
os.wait()
print('detached', flush=True)
REST
";

fn daemon(environment: &str, rest: &str) -> String {
    DAEMON.replace("ENVIRONMENT", environment).replace("REST", rest)
}

/// Moves a daemon into each group of the machine that takes it, and prints how many did. It waits until each has tried.
/// Groups of launchers that run beside are left out, which may be frozen, or be waited for until they are empty.
const ESCAPE: &str = "
import os, re, sys
own = re.search('estimand-[^/\\s]*', open('/proc/self/cgroup').read())
def others(at):
    return 'estimand-' in at and not (own and own.group() in at)
groups = [os.path.join(at, 'cgroup.procs') for at, _, files in os.walk('/sys/fs/cgroup')
          if 'cgroup.procs' in files and not others(at)]
out = 0
for group in groups[:64]:
    told, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                with open(group, 'w') as file:
                    file.write('0')
                os.write(tell, b'1')
            except OSError:
                os.write(tell, b'0')
            null = os.open('/dev/null', os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            os.execve('/bin/sh', ['sh', '-c', 'while :; do sleep 1000; done', sys.argv[1]], {})
        os._exit(0)
    os.wait()
    out += os.read(told, 1) == b'1'
    os.close(told)
    os.close(tell)
print(out, flush=True)
";

const MILLIS_300: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_what_ignores_it_and_its_grandchildren() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let cell = world.cell().await;
        let began = Instant::now();
        let captured = world.capture(world.shell(STUBBORN, &cell), &bounds(MILLIS_300, MILLIS_300)).await;
        let took = began.elapsed();
        assert_eq!(
            (captured.reason, captured.outcome.exit),
            (EndReason::TimedOut, Exit::Signal(9)),
            "{way:?}"
        );
        assert_eq!(text(&captured.stdout), "started\n");
        assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?}: before its end is reported");
        assert!((MILLIS_300 * 2..Duration::from_secs(5)).contains(&took), "{took:?}");

        let polite = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.01; done";
        let captured =
            world.capture(world.shell(polite, &cell), &bounds(MILLIS_300, Duration::from_secs(20))).await;
        assert_eq!((captured.reason, captured.outcome.exit), (EndReason::TimedOut, Exit::Code(4)), "{way:?}");
        assert_eq!(text(&captured.stdout), "up\nbye\n");
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_on_demand_and_by_being_dropped() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let cell = world.cell().await;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let ended = async {
            let bounds = bounds(Duration::from_secs(60), MILLIS_300);
            let stopped = async { drop(stopped.await) };
            capture(&world.launcher, world.shell(STUBBORN, &cell), &bounds, stopped).await.unwrap()
        };
        let stopping = async {
            until("all of it runs", || marked(&world.mark).len() >= STUBBORN_PROCESSES).await;
            stop.send(()).unwrap();
        };
        let (captured, ()) = tokio::join!(ended, stopping);
        assert_eq!(
            (captured.reason, captured.outcome.exit),
            (EndReason::Stopped, Exit::Signal(9)),
            "{way:?}"
        );
        assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?}");

        let bounds = ample();
        let spec = world.shell(STUBBORN, &cell);
        let dropped = capture(&world.launcher, spec, &bounds, std::future::pending());
        tokio::select! {
            _ = dropped => panic!("it does not end by itself"),
            () = until("all of it runs", || marked(&world.mark).len() >= STUBBORN_PROCESSES) => {}
        }
        until("it is gone", || marked(&world.mark).is_empty()).await;
        // A run that is under way when its cell is closed is gone before that returns.
        let other = world.cell().await;
        let mut run = world.launcher.run(world.shell(STUBBORN, &other)).await.unwrap();
        world.launcher.close_cell(other).await;
        assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?}");
        assert_eq!(run.ended().await.exit, Exit::Signal(9));
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_detaches_is_gone() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        for environment in ["dict(os.environ)", "{}"] {
            let cell = world.cell().await;
            let captured = world.capture(world.python(&daemon(environment, ""), &cell), &ample()).await;
            assert_eq!(captured.outcome.exit, Exit::Code(0), "{}", text(&captured.stderr_tail));
            if world.launcher.containment() == "subreaper" {
                until("the daemon is found", || marked(&world.mark).is_empty()).await;
            }
            assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?} {environment}");

            let (folder, after) =
                (tempfile::tempdir().unwrap(), "open('FILE', 'w').close(); time.sleep(1000)");
            let said = folder.path().join("detached");
            let hang = daemon(environment, &after.replace("FILE", &said.display().to_string()));
            let is_there = || marked(&world.mark).iter().any(|line| line.contains("} sh -c while"));
            // Without cgroups it is found, and killed, while its run goes on.
            let found = || world.launcher.containment() == "subreaper" && said.exists();
            let stop = until("it is detached", || is_there() || found());
            let captured =
                capture(&world.launcher, world.python(&hang, &cell), &ample(), stop).await.unwrap();
            assert_eq!(captured.reason, EndReason::Stopped);
            assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?} {environment}: killed");

            let captured = world.capture(world.python(&daemon(environment, ""), &cell), &ample()).await;
            assert_eq!(captured.outcome.exit, Exit::Code(0));
            world.launcher.close_cell(cell).await;
            assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?} {environment}: closed");
        }
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_run_is_not_disturbed_by_the_end_of_one() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let (cell, other) = (world.cell().await, world.cell().await);
        let bystander = daemon("dict(os.environ)", "print(input(), flush=True)");
        let mut spec = world.python(&bystander, &other);
        spec.stdin = Stdin::Pipe;
        let mut run = world.launcher.run(spec).await.unwrap();
        let (stdin, mut stdout) = (run.stdin().unwrap(), run.stdout().unwrap());
        let mut line = [0; 9];
        tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut line).await.unwrap();
        for _ in 0..3 {
            let captured = world.capture(world.shell(STUBBORN, &cell), &bounds(MILLIS_300, MILLIS_300)).await;
            assert_eq!(captured.reason, EndReason::TimedOut);
        }
        assert!(
            marked(&world.mark).len() >= 2,
            "the other run and its daemon live: {:?}",
            marked(&world.mark)
        );
        stdin.try_write(b"still here\n").unwrap();
        assert_eq!(run.ended().await.exit, Exit::Code(0), "{way:?}");
        world.launcher.close_cell(other).await;
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_is_bounded_and_gone() {
    // It gives up by itself in the end, so that a failure of this test is not one of the machine.
    let bomb = "
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 15
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        pass
";
    for way in ALL_WAYS {
        let (world, _guard) = World::guarded(way, 600).await;
        let limits = Limits { processes: Some(60), ..Limits::default() };
        let cell = world.launcher.open_cell("bomb", &limits).await;
        let captured = world.capture(world.python(bomb, &cell), &bounds(MILLIS_300 * 3, MILLIS_300)).await;
        assert_eq!(marked(&world.mark), Vec::<String>::new(), "{way:?}");
        assert_eq!(captured.outcome.exit, Exit::Signal(9));
        if cell.unenforced().is_empty() {
            assert_eq!(captured.reason, EndReason::TimedOut, "{way:?}: held to its limit until then");
        } else {
            assert_eq!(captured.outcome.exceeded, Some(ExceededLimit::Processes), "{way:?}");
        }
        assert_eq!(world.capture(world.shell("(echo forks)", &cell), &ample()).await.stdout, b"forks\n");
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_keeps_the_pipe_delays_nothing() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let began = Instant::now();
        let captured =
            world.sh("(trap '' TERM; while :; do sleep 1000; done) & setsid sleep 1000 & echo done").await;
        assert_eq!((text(&captured.stdout), captured.reason), ("done\n", EndReason::Completed), "{way:?}");
        // The grandchildren sleep 1,000 s.
        assert!(began.elapsed() < Duration::from_secs(60));
        until("nothing is left", || marked(&world.mark).is_empty()).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_and_takes_no_memory() {
    let world = World::new(CgroupMode::Best).await;
    let script = "head -c 100000000 /dev/zero; head -c 30000000 /dev/zero >&2; echo the end >&2";
    // The buffers are there already when memory is measured.
    world.sh("echo; echo >&2").await;
    let before = resident(std::process::id());
    let captured = world.sh(script).await;
    let grown = resident(std::process::id()).saturating_sub(before);
    assert_eq!((captured.stdout.len(), captured.stdout_total), (64 * 1024, 100_000_000));
    assert_eq!(captured.stderr_tail.len(), 4 * 1024);
    assert!(captured.stderr_tail.ends_with(b"\0the end\n"));
    // Other tests run beside this one; the flood is twenty times this.
    assert!(grown < 6 << 20, "{grown} bytes more");
    world.end().await;
}

/// The resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_moves_to_another_group_is_gone_although_other_runs_go_on() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let other = World { mark: new_mark(), ..world };
        let beside = other.cell().await;
        let mut going_on =
            other.launcher.run(other.shell("while :; do sleep 1000; done", &beside)).await.unwrap();
        let escaping = World { mark: new_mark(), launcher: other.launcher.clone(), way };
        let cell = escaping.cell().await;
        let captured = escaping.capture(escaping.python(ESCAPE, &cell), &ample()).await;
        assert_eq!(captured.outcome.exit, Exit::Code(0), "{}", text(&captured.stderr_tail));
        let escaped: u32 = text(&captured.stdout).trim().parse().unwrap();
        if rustix::process::geteuid().is_root() && way == CgroupMode::Best {
            assert!(escaped > 0, "nothing could leave its group, so this shows nothing");
        }
        escaping.launcher.close_cell(cell).await;
        assert_eq!(marked(&escaping.mark), Vec::<String>::new(), "{way:?}, {escaped} moved");
        assert!(!marked(&other.mark).is_empty(), "{way:?}: the other run was ended");
        other.launcher.close_cell(beside).await;
        going_on.ended().await;
        other.launcher.stop().await;
    }
}
