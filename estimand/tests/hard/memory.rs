//! No memory left for an agent and all that it runs: the kernel ends what eats it, and the others go on.

use std::fs;
use std::path::PathBuf;

use estimand_testkit::place::{Agent, Place};
use estimand_testkit::plane::Together;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;

use crate::long_or;

/// Enough for the agent, its launcher and what is modest.
const ROOM_BYTES: u64 = 192 << 20;

/// A memory cgroup around an agent, its launcher, and what that starts from now on.
struct Room(PathBuf);

impl Room {
    fn around(agent: &Agent) -> Self {
        let pid = agent.process.pid();
        let room = Room(PathBuf::from(format!("/sys/fs/cgroup/memory/estimand-room-{pid}")));
        fs::create_dir(&room.0)
            .expect("this story makes a cgroup for memory, which takes root and cgroups v1");
        fs::write(room.0.join("memory.limit_in_bytes"), ROOM_BYTES.to_string()).unwrap();
        for member in processes::descendants(pid).iter().map(|process| process.pid).chain([pid]) {
            fs::write(room.0.join("cgroup.procs"), member.to_string()).unwrap();
        }
        room
    }

    /// How often the kernel has killed here for want of memory.
    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.oom_control")).unwrap();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn launcher_of(agent: &Agent) -> u32 {
    let children = processes::descendants(agent.process.pid());
    let is_it = |process: &&processes::Process| process.cmdline.iter().any(|arg| arg == "slot-launcher");
    children.iter().find(is_it).expect("the agent has a launcher").pid
}

#[test]
fn the_kernel_ends_the_run_that_eats_all_memory() {
    let place = Place::new("memory");
    let services = Together::start(&place);
    let mut agent = place.agent("n1", services.url());
    let plane = &services.plane;
    plane.register(&place.streaming("flow"));
    plane.register(&place.counting("calm"));
    plane.wait_fresh("flow", &["n1"]);
    plane.wait_fresh("calm", &["n1"]);
    let launcher = launcher_of(&agent);
    let room = Room::around(&agent);

    let mut greedy = place.counting("greedy");
    greedy["cmd"] = place.command("greedy", &["eat-memory"]);
    plane.register(&greedy);
    let times = long_or(50, 5);
    let failed = wait::until_ok(PATIENCE * 2, "the greedy one to be killed again and again", || {
        let instances = plane.instances()?;
        let it =
            instances.into_iter().find(|one| one["dataName"] == "greedy").ok_or("it is not there yet")?;
        let told = it["failures"].as_u64().unwrap_or(0) >= times;
        if told { Ok(it) } else { Err(format!("{it}, {} kills", room.kills())) }
    });
    println!("{} kills; {}", room.kills(), failed["lastError"]);
    assert!(room.kills() >= times, "{} kills, {failed}", room.kills());
    assert!(failed["lastError"].as_str().unwrap().contains("signal 9"), "{failed}");
    assert_eq!(plane.values("greedy").unwrap(), Vec::<Value>::new());
    assert!(agent.process.exited().is_none(), "{}", agent.process.stderr_tail());
    assert_eq!(launcher_of(&agent), launcher, "the same one as before");

    // The one that lives long was not ended for another's hunger, and the other one misses nothing for long.
    let calm = plane.last_number("calm", "n1");
    wait::until_ok(PATIENCE, "the calm one to go on", || match plane.last_number("calm", "n1") {
        now if now > calm + 3 => Ok(()),
        now => Err(format!("{calm} became {now}")),
    });
    let flow = plane.last_number("flow", "n1");
    plane.check_history("flow", "n1", flow + 3);
    assert_eq!(plane.unregister("greedy").status, 204);
    drop(agent);
    wait::until(PATIENCE, "nothing to be left in the room", || fs::remove_dir(&room.0).ok());
}
