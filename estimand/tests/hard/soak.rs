//! Much of everything for a while: at the end no more memory, descriptors, threads or processes than at half-time.
//!
//! Only with `ESTIMAND_LONG`; `ESTIMAND_SOAK_SECONDS` says for how long.

use std::time::{Duration, Instant};

use estimand_testkit::processes;
use serde_json::json;

use crate::cluster::Together;
use crate::figures::mebibytes;
use crate::load::Load;
use crate::place::Place;
use crate::{SOON, is_long};

const DEFAULT_SECONDS: u64 = 600;
const SLOTS: usize = 10;
/// Growth in the second half that is noise: allocators, caches of a database, a burst that is under way.
const NOISE_BYTES: u64 = 48 << 20;
const NOISE: usize = 24;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    rss: u64,
    files: usize,
    threads: usize,
    processes: usize,
}

impl Held {
    fn of(pid: u32) -> Self {
        Held {
            rss: processes::rss_bytes(pid),
            files: processes::open_files(pid),
            threads: processes::threads(pid),
            processes: processes::descendants(pid).len(),
        }
    }

    /// The least that was held at several looks: what comes and goes is no leak.
    fn least(self, other: Self) -> Self {
        Held {
            rss: self.rss.min(other.rss),
            files: self.files.min(other.files),
            threads: self.threads.min(other.threads),
            processes: self.processes.min(other.processes),
        }
    }
}

#[test]
fn nothing_grows_in_the_long_run() {
    if !is_long() {
        return;
    }
    let seconds = std::env::var("ESTIMAND_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let span = Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS));
    let place = Place::new("soak");
    let services = Together::start(&place);
    let agent = place.agent("n1", services.url());
    let plane = &services.plane;
    for slot in 0..SLOTS {
        let mut fast = place.counting(&format!("fast_{slot}"));
        fast["max-Time"] = json!(0.1);
        fast["history"] = json!({"max": 100});
        plane.register(&fast);
    }
    plane.wait_fresh("fast_0", &["n1"]);
    let pids = [services.up.pid(), agent.process.pid()];
    let load = Load::new(services.url());
    let began = Instant::now();
    let mut quarters: [Vec<[Held; 2]>; 4] = Default::default();
    let mut rounds = 0;
    load.run_during(true, || {
        while began.elapsed() < span {
            rounds += 1;
            // Registrations and watchers come and go.
            let name = format!("guest_{}", rounds % 50);
            plane.register(&place.counting(&name));
            let mut watch = services.up.http().sse("/api/data/watch?dataName=*", &[]);
            watch.next_event(SOON);
            load.wait_for_progress(500);
            plane.unregister(&name);
            let quarter = (began.elapsed().as_secs_f64() / span.as_secs_f64() * 4.0) as usize;
            quarters[quarter.min(3)].push(pids.map(Held::of));
        }
    });
    load.check(&services.up.http());
    let least =
        |looks: &Vec<[Held; 2]>| looks.iter().copied().reduce(|a, b| [a[0].least(b[0]), a[1].least(b[1])]);
    let [middle, end] =
        [&quarters[2], &quarters[3]].map(|looks| least(looks).expect("each quarter has its looks"));
    let written: u64 = load.acknowledged().iter().sum();
    let runs: u64 = (0..SLOTS).map(|slot| place.runs("n1", &format!("fast_{slot}"))).sum();
    println!("{rounds} rounds, {written} requests of writers, {runs} runs in {span:?}");
    for (who, middle, end) in [("services", middle[0], end[0]), ("agent", middle[1], end[1])] {
        println!("{who}: {middle:?} in the third quarter, {end:?} in the last one");
        let grown = end.rss.saturating_sub(middle.rss);
        assert!(grown < NOISE_BYTES, "{who} grew by {} MiB", mebibytes(grown));
        assert!(end.files <= middle.files + NOISE, "{who}: descriptors");
        assert!(end.threads <= middle.threads + NOISE, "{who}: threads");
        assert!(end.processes <= middle.processes + NOISE, "{who}: processes");
    }
}
