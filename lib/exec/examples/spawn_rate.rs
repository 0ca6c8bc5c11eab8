//! Runs of `/bin/true` a second, through the launcher with their output captured, and in a bare loop of `posix_spawn`
//! and `waitpid`, in turns, one and four at a time. Prints figures and judges nothing. On a busy machine the processor
//! time of a run says more than the rates: that of the launcher, of the agent and of the run's own process.
//!
//! Each way of containment is tried without and with the usage of runs being measured.
//!
//! The bare loop runs a second time with a session for each process, which a run needs and has: where the kernel
//! gives every session its own share of the processor, and others want it too, a new session waits for its turn.
//!
//! `cargo run --release --example spawn_rate [rounds] [seconds a round] [megabytes that the agent holds]`
//! (build the `launcher` example first, in the same profile).

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use estimand_exec::{
    CaptureLimits, CgroupMode, DirRights, Exit, Launcher, LauncherOptions, Limits, Precedence, Privileges,
    RunSpec, Stdin, capture,
};

/// The C library's flag, which the `libc` crate does not have.
const POSIX_SPAWN_SETSID: libc::c_short = 0x80;
const PROGRAM: &str = "/bin/true";

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let rounds = numbers.next().unwrap_or(5);
    let span = Duration::from_secs(numbers.next().unwrap_or(2));
    let held = vec![1_u8; numbers.next().unwrap_or(0) as usize * 1_000_000];

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let ways = [CgroupMode::Best, CgroupMode::None].into_iter();
    for (cgroups, measures) in ways.flat_map(|cgroups| [(cgroups, false), (cgroups, true)]) {
        let launcher = runtime.block_on(Launcher::start(options(cgroups, measures))).expect("a launcher");
        let measured = if measures { "measured" } else { "not measured" };
        println!("containment: {}, {measured}, {} MB held", launcher.containment(), held.len() / 1_000_000);
        for at_once in [1, 4] {
            let mut ratios = Vec::new();
            for _ in 0..rounds {
                let (sessions, bare) = (bare(at_once, span, true), bare(at_once, span, false));
                let before = [launcher_time(), own_time()];
                let (ours, latency, cpu) = runtime.block_on(launched(&launcher, at_once, span));
                let [launcher_cpu, own_cpu] = [launcher_time() - before[0], own_time() - before[1]];
                println!(
                    "  {at_once} at once: bare {bare:>6.0}/s, with sessions {sessions:>6.0}/s, launched {ours:>6.0}/s, ratio {:.2}; main process {:.0} us, whole run {:.0} us; processor {:.0} + {:.0} + {:.0} us",
                    ours / bare,
                    latency.0,
                    latency.1,
                    launcher_cpu / cpu.0,
                    own_cpu / cpu.0,
                    cpu.1
                );
                ratios.push(ours / bare);
            }
            ratios.sort_by(f64::total_cmp);
            println!("  {at_once} at once: median ratio {:.2}", ratios[ratios.len() / 2]);
        }
        println!("  the launcher has {} resident", resident(&launcher_status()));
        runtime.block_on(launcher.stop());
    }
    drop(held);
}

fn options(cgroups: CgroupMode, measures: bool) -> LauncherOptions {
    let own = std::env::current_exe().expect("a path");
    let id = format!("spawn-rate-{}", std::process::id());
    LauncherOptions {
        program: own.with_file_name("launcher"),
        args: Vec::new(),
        id,
        first: false,
        cgroups,
        precedence: Precedence::Ordinary,
        privileges: Privileges::default(),
        measures,
    }
}

/// Runs a second; the mean microseconds of a main process and of a whole run; the number of runs and the mean
/// microseconds of processor time of a main process.
async fn launched(launcher: &Launcher, at_once: u64, span: Duration) -> (f64, (f64, f64), (f64, f64)) {
    let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
    let began = Instant::now();
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (launcher, counts) = (launcher.clone(), counts.clone());
            tokio::spawn(async move {
                let cell = launcher.open_cell("rate", &Limits::default()).await;
                while began.elapsed() < span {
                    let spec = RunSpec {
                        program: PROGRAM.into(),
                        file: None,
                        argv: vec!["true".into()],
                        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
                        dir: "/".into(),
                        dir_rights: DirRights::Run,
                        stdin: Stdin::Null,
                        cell: &cell,
                        until: None,
                    };
                    let bounds = CaptureLimits {
                        timeout: Duration::from_secs(30),
                        grace: Duration::from_secs(2),
                        max_stdout: 64 * 1024,
                        max_stderr: 4096,
                    };
                    let captured =
                        capture(&launcher, spec, &bounds, std::future::pending()).await.expect("it runs");
                    assert_eq!(captured.outcome.exit, Exit::Code(0));
                    counts[0].fetch_add(1, Ordering::Relaxed);
                    counts[1].fetch_add(captured.outcome.ran_for.as_micros() as u64, Ordering::Relaxed);
                    counts[2].fetch_add(captured.outcome.cpu.as_micros() as u64, Ordering::Relaxed);
                }
                launcher.close_cell(cell).await;
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("no panic");
    }
    let runs = counts[0].load(Ordering::Relaxed) as f64;
    let seconds = began.elapsed().as_secs_f64();
    let main_process = counts[1].load(Ordering::Relaxed) as f64 / runs;
    let cpu = counts[2].load(Ordering::Relaxed) as f64 / runs;
    (runs / seconds, (main_process, seconds * 1e6 * at_once as f64 / runs), (runs, cpu))
}

/// Runs a second of a loop that does nothing but start and wait, on so many threads.
fn bare(at_once: u64, span: Duration, sessions: bool) -> f64 {
    let began = Instant::now();
    let threads: Vec<_> =
        (0..at_once).map(|_| std::thread::spawn(move || bare_loop(began, span, sessions))).collect();
    let runs: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    runs as f64 / began.elapsed().as_secs_f64()
}

fn bare_loop(began: Instant, span: Duration, sessions: bool) -> u64 {
    let program = CString::new(PROGRAM).expect("no NUL");
    let variable = CString::new("PATH=/usr/bin:/bin").expect("no NUL");
    let arguments = [program.as_ptr().cast_mut(), ptr::null_mut()];
    let variables = [variable.as_ptr().cast_mut(), ptr::null_mut()];
    // SAFETY: attributes are plain data that `init` fills; the call takes a pointer to them.
    let attributes = unsafe {
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        libc::posix_spawnattr_init(&mut attributes);
        let flags = if sessions { POSIX_SPAWN_SETSID } else { 0 };
        assert_eq!(libc::posix_spawnattr_setflags(&mut attributes, flags), 0);
        attributes
    };
    let mut runs = 0;
    while began.elapsed() < span {
        let mut pid = 0;
        let mut status = 0;
        // SAFETY: strings end in NUL, lists in null, and all of them outlive the calls.
        unsafe {
            let failed = libc::posix_spawn(
                &mut pid,
                program.as_ptr(),
                ptr::null(),
                &attributes,
                arguments.as_ptr(),
                variables.as_ptr(),
            );
            assert_eq!(failed, 0);
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        }
        assert_eq!(status, 0);
        runs += 1;
    }
    runs
}

/// Microseconds of processor time of this process.
fn own_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Microseconds of processor time of the launcher.
fn launcher_time() -> f64 {
    let status = launcher_status();
    let pid = status.lines().find_map(|line| line.strip_prefix("Pid:")).unwrap_or("0").trim();
    let times = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("the kernel keeps it");
    times.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("a number") / 1e3
}

/// The status of this process's one child.
fn launcher_status() -> String {
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .expect("a process table")
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok())
        .find(|status| {
            let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
            field("PPid:") == own && field("Name:") == "launcher"
        })
        .unwrap_or_default()
}

fn resident(status: &str) -> &str {
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("unknown").trim()
}
