//! The privileges that runs do not have: as root those that root gives up, as another user those that nothing gains.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use super::*;

/// A user that no machine has; it need not be known.
const STRANGER: u32 = 54_321;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

async fn world(way: CgroupMode, privileges: Privileges) -> World {
    let mark = new_mark();
    let options = LauncherOptions { privileges, ..options(&mark, way) };
    World { launcher: Launcher::start(options).await.unwrap(), way, mark }
}

fn stranger() -> Privileges {
    let identity = Identity { uid: STRANGER, gid: STRANGER + 1, groups: vec![STRANGER + 2] };
    Privileges { run_as: Some(identity), keep: Capabilities::NONE }
}

/// A line of a process's status.
fn line<'t>(status: &'t str, name: &str) -> &'t str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

const STATUS: &str = "cat /proc/self/status; true";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_no_capability_and_gains_none() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let status = world.sh(STATUS).await;
        let status = text(&status.stdout);
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(line(status, set), "0000000000000000", "{set}");
        }
        assert_eq!(line(status, "NoNewPrivs"), "1");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_capabilities_are_there_and_no_others() {
    if !is_root() {
        return;
    }
    let kept = Capabilities::of(&["cap_net_raw", "cap_syslog"]);
    let expected = format!("{:016x}", kept.0);
    let as_stranger = Privileges { keep: kept, ..stranger() };
    for privileges in [Privileges { keep: kept, run_as: None }, as_stranger] {
        let world = world(CgroupMode::Best, privileges).await;
        let status = world.sh(STATUS).await;
        let status = text(&status.stdout);
        for set in ["CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(line(status, set), expected, "{set}");
        }
        world.end().await;
    }
    let world = world(CgroupMode::Best, Privileges { keep: Capabilities::ALL, run_as: None }).await;
    let status = world.sh(STATUS).await;
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(line(text(&status.stdout), "CapEff"), line(&own, "CapEff"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_that_user_and_no_more() {
    if !is_root() {
        return;
    }
    for way in ALL_WAYS {
        let world = world(way, stranger()).await;
        let status = world.sh(STATUS).await;
        let (status, errors) = (text(&status.stdout), text(&status.stderr_tail));
        assert_eq!(errors, "");
        let four = |id: u32| [id.to_string(), id.to_string(), id.to_string(), id.to_string()].join("\t");
        assert_eq!((line(status, "Uid"), line(status, "Gid")), (&*four(STRANGER), &*four(STRANGER + 1)));
        assert_eq!(line(status, "Groups"), (STRANGER + 2).to_string());
        assert_eq!(line(status, "CapPrm"), "0000000000000000");
        // Its pipes are its own.
        let spoken = world.sh("echo out > /dev/stdout; echo err > /dev/stderr").await;
        assert_eq!((text(&spoken.stdout), text(&spoken.stderr_tail)), ("out\n", "err\n"));
        world.end().await;
    }
}

/// The parent of a run is the launcher, and the agent is the launcher's.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_reaches_neither_agent_nor_launcher() {
    if !is_root() {
        return;
    }
    let world = world(CgroupMode::Best, stranger()).await;
    let agent = std::process::id();
    let script = format!(
        "for pid in $PPID {agent}; do
             kill -9 $pid 2>/dev/null && echo killed $pid
             for file in environ mem maps fd/0; do
                 head -c 1 /proc/$pid/$file >/dev/null 2>&1 && echo read $file of $pid
             done
         done; true"
    );
    let said = world.sh(&script).await;
    assert_eq!(text(&said.stdout), "");
    world.end().await;
}

/// Root without capabilities is the owner of the agent's files, but cannot look into it.
#[tokio::test(flavor = "multi_thread")]
async fn root_without_capabilities_cannot_look_into_the_launcher() {
    if !is_root() {
        return;
    }
    let world = World::new(CgroupMode::Best).await;
    let script = "for file in environ mem maps fd/0; do
            head -c 1 /proc/$PPID/$file >/dev/null 2>&1 && echo read $file
        done
        chown 1:1 . 2>/dev/null && echo chown
        mknod node c 1 3 2>/dev/null && echo mknod
        true";
    let said = world.sh(script).await;
    assert_eq!(text(&said.stdout), "");
    world.end().await;
}

/// The agent's own folder may lie behind a closed one. A directory that somebody else chose is entered as the run itself
/// would enter it: as another user, and as root without capabilities.
#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_directory_is_entered_with_the_rights_of_the_run() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (closed, open) = (place.path().join("closed"), place.path().join("closed/open"));
    fs::create_dir_all(&open).unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&closed, Some(STRANGER + 9), None).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    for privileges in [stranger(), Privileges::default()] {
        let world = world(CgroupMode::Best, privileges).await;
        let cell = world.cell().await;
        let spec = |dir_rights| RunSpec { dir: open.clone(), dir_rights, ..world.shell("pwd", &cell) };
        let error = world.sh_error(spec(DirRights::Run)).await.to_string();
        assert!(error.contains("cannot change to the directory"), "{error}");
        let own = world.capture(spec(DirRights::Agent), &ample()).await;
        assert_eq!(text(&own.stdout).trim(), open.to_str().unwrap());
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

/// A file that makes its caller root, outside of the launcher.
#[tokio::test(flavor = "multi_thread")]
async fn a_setuid_program_is_an_ordinary_one() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let id = place.path().join("id");
    fs::copy("/usr/bin/id", &id).unwrap();
    fs::set_permissions(&id, Permissions::from_mode(0o4755)).unwrap();
    let script = format!("{} -u", id.display());
    // Were it not for the launcher, it would work here.
    let freely = std::process::Command::new(&id).arg("-u").uid(STRANGER).output().unwrap();
    assert_eq!(
        text(&freely.stdout),
        "0\n",
        "this file system has no setuid programs; TMPDIR names another one"
    );
    for privileges in [stranger(), Privileges { keep: Capabilities::of(&["cap_net_raw"]), ..stranger() }] {
        let world = world(CgroupMode::Best, privileges).await;
        assert_eq!(text(&world.sh(&script).await.stdout), format!("{STRANGER}\n"));
        let cell = world.cell().await;
        let spec = world.spec(id.to_str().unwrap(), ["id", "-u"].map(str::to_owned).to_vec(), &cell);
        assert_eq!(text(&world.capture(spec, &ample()).await.stdout), format!("{STRANGER}\n"));
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_dies_with_the_launcher_too() {
    if !is_root() {
        return;
    }
    let world = world(CgroupMode::None, stranger()).await;
    let cell = world.cell().await;
    let mut run = world.launcher.run(world.shell("sleep 1000 & sleep 1000", &cell)).await.unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", run.pid())).unwrap();
    let launcher: i32 = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    orphans::signal(launcher, rustix::process::Signal::KILL);
    assert_eq!(run.ended().await.exit, Exit::Lost);
    until("everything is gone", || marked(&world.mark).is_empty()).await;
    drop(cell);
    world.end().await;
}

/// Such as `ping`: it is executed, and has none of them.
#[tokio::test(flavor = "multi_thread")]
async fn capabilities_in_a_file_are_not_given() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let cat = place.path().join("cat");
    fs::copy("/bin/cat", &cat).unwrap();
    // The second version of the kernel's structure, with the capability for raw sockets in effect.
    let given = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    rustix::fs::setxattr(&cat, "security.capability", &given, rustix::fs::XattrFlags::empty()).unwrap();
    let freely = std::process::Command::new(&cat).arg("/proc/self/status").uid(STRANGER).output().unwrap();
    assert_eq!(line(text(&freely.stdout), "CapEff"), "0000000000002000");
    for privileges in [Privileges::default(), stranger()] {
        let world = world(CgroupMode::Best, privileges).await;
        let cell = world.cell().await;
        let argv = ["cat", "/proc/self/status"].map(str::to_owned).to_vec();
        let status = world.capture(world.spec(cat.to_str().unwrap(), argv, &cell), &ample()).await;
        assert_eq!(line(text(&status.stdout), "CapEff"), "0000000000000000");
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

/// The descriptor counts, not the path.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_is_executed_instead_of_its_path() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    let put = |text: &str| {
        let new = place.path().join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &script).unwrap();
    };
    let world = World::new(CgroupMode::Best).await;
    let run = async |path: &str, open: File, script: bool, argv: &[&str]| {
        let cell = world.cell().await;
        let mut spec = world.spec(path, argv.iter().map(|&word| word.to_owned()).collect(), &cell);
        spec.file = Some(ProgramFile { descriptor: open.into(), script });
        let captured = world.capture(spec, &ample()).await;
        world.launcher.close_cell(cell).await;
        text(&captured.stdout).to_owned()
    };
    put("#!/bin/sh\necho first $0 $1\n");
    let open = File::open(&script).unwrap();
    put("#!/bin/sh\necho second\n");
    let said = run(script.to_str().unwrap(), open, true, &["script", "arg"]).await;
    assert!(said.starts_with("first /dev/fd/") && said.ends_with(" arg\n"), "{said}");
    let shell = File::open("/bin/sh").unwrap();
    assert_eq!(run("/no/such", shell, false, &["sh", "-c", "echo $0 $1", "a", "b"]).await, "a b\n");
    world.end().await;
}
