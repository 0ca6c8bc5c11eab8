//! The folder of one attempt: all that its agent and its keeper tell each other, and what of it must outlive either.
//!
//! | file | written by | says |
//! | --- | --- | --- |
//! | `accepted.json` | agent | the assignment and the machine's start in which it came |
//! | `order.json` | agent | the [`KeeperOrder`], if it is long or there is a container |
//! | `begun` | keeper | its [`Record`]: its name, when its program was executed, how it ended |
//! | `preparing` | agent, keeper | since when its inputs or its image are fetched |
//! | `log.N` | keeper | its lines from number N on |
//! | `end.json` | agent, keeper | how it ended, if no keeper has begun it |
//! | `input.N.DIGEST` | agent | what has come of its input number N |
//! | `inputs` | agent | all its inputs lie in `work/` |
//! | `outputs.json` | agent | its outputs, which the file service has; only then its end is told |
//! | `end` | agent | when its promise ends, on the machine's clock: a [`WindowEnd`] |
//! | `devices.json` | agent | the ids of the devices that it holds until its end, by resource |
//! | `port` | agent | the port that it was given, if it asked for any |
//! | `stop` | agent | it is to end |
//! | `checkpoint` | agent | with `stop`: it is to save its work first |
//! | `stop.json` | agent | with `stop`: the order, if it says [more than the marks](super::stop_order) |
//! | `gone` | agent | it belongs here no more: it ends, and the folder goes |
//! | `delivered` | agent | the first line that the task service has not taken |
//! | `keeper.log` | keeper | notes for the operator |
//! | `work/` | the task | where it runs |
//!
//! The keeper holds a lock on `accepted.json` for as long as it has the attempt. Pipes with the names of keepers wake those.
//!
//! That there is such a folder is on disk before the attempt begins, so it begins once even if the machine is started
//! anew. The rest is of use only until then: an attempt whose end the task service has not stored by that time is lost with
//! its node, and what the service has stored it knows. An end that it does not take at once is brought to the disk, as
//! its outputs are. Blocking.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use estimand_api::task::TaskAssignment;
use estimand_api::task_files::TaskOutputs;
use estimand_exec::Identity;
use estimand_runtime::files::{write_atomically, write_whole};
use rustix::fs::{FlockOperation, Gid, Uid};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::order::KeeperOrder;
use super::pipe::poke;
use super::promise_end::{self, WindowEnd};
use super::record::{Beginning, End, Record, Steps};
use crate::slot_folder;

const PRIVATE: u32 = 0o600;
/// How long the removal of what a task has left may take in one go.
const REMOVE_WITHIN: Duration = Duration::from_secs(10);

/// The folder of one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptFolder(PathBuf);

/// An attempt as it was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    pub assignment: TaskAssignment,
    /// Microseconds since 1970.
    pub at: i64,
    /// The start of the machine, as the kernel names it.
    pub boot: String,
}

impl AttemptFolder {
    /// `tasks` is the folder of all attempts.
    pub fn new(tasks: &Path, id: &str, attempt: u32) -> Self {
        AttemptFolder(tasks.join(format!("{id}.{attempt}")))
    }

    pub fn at(path: PathBuf) -> Self {
        AttemptFolder(path)
    }

    /// All that are there.
    pub fn all(tasks: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(tasks)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(AttemptFolder(entry.path()));
            }
        }
        Ok(found)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its folder's name, which is its task's id and its number.
    pub fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Where the task runs, and what is its own to keep things in.
    pub fn work(&self) -> PathBuf {
        self.file("work")
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// The id and the number of its attempt.
    pub fn attempt(&self) -> Option<(String, u32)> {
        let name = self.name();
        let (id, number) = name.rsplit_once('.')?;
        Some((id.to_owned(), number.parse().ok()?))
    }

    /// Makes the folder with all that a keeper needs, `accepted.json` last: without it there was no attempt. It lasts when
    /// the folder that it lies in is brought to the disk.
    pub fn accept(
        &self,
        accepted: &Accepted,
        end: Option<&WindowEnd>,
        runs_as: Option<&Identity>,
    ) -> io::Result<()> {
        make_folder(&self.0, 0o700)?;
        make_folder(&self.work(), 0o700)?;
        runs_as.map_or(Ok(()), |identity| self.give_to(identity))?;
        if let Some(end) = end {
            end.write(self)?;
        }
        let mut text = serde_json::to_vec(accepted)?;
        text.push(b'\n');
        self.write("accepted.json", &text)
    }

    /// Makes the folder where it runs this user's. Others do not come there, whatever permissions the task gives it: a program
    /// in it that runs as its owner is of use to nobody else.
    pub fn give_to(&self, Identity { uid, gid, .. }: &Identity) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
        if self.work().metadata()?.uid() == uid.as_raw() {
            return Ok(());
        }
        rustix::fs::chown(&self.0, None, Some(gid))?;
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o710))?;
        Ok(rustix::fs::chown(self.work(), Some(uid), Some(gid))?)
    }

    /// None of an attempt that was not accepted to the end, which is that of the line.
    pub fn accepted(&self) -> io::Result<Option<Accepted>> {
        let text = match fs::read(self.file("accepted.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        match serde_json::from_slice(&text) {
            Err(_) if !text.ends_with(b"\n") => Ok(None),
            accepted => Ok(Some(accepted?)),
        }
    }

    /// The steps of its keeper; none if no keeper has begun it.
    pub fn steps(&self) -> io::Result<Option<Steps>> {
        Steps::read(&self.file("begun"))
    }

    /// How it ended. Nothing of it runs any more.
    pub fn end(&self) -> io::Result<Option<End>> {
        self.end_after(self.steps()?.as_ref())
    }

    /// How it ended, by its steps if it has begun.
    pub fn end_after(&self, steps: Option<&Steps>) -> io::Result<Option<End>> {
        match steps.and_then(|steps| steps.end.clone()) {
            Some(end) => Ok(Some(end)),
            None => self.read("end.json"),
        }
    }

    /// The end of an attempt that no keeper has begun.
    pub fn write_end(&self, end: &End) -> io::Result<()> {
        write_whole(&self.file("end.json"), &serde_json::to_vec(end)?, PRIVATE)
    }

    /// Brings its log and its end to the disk.
    pub fn sync(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                File::open(entry.path())?.sync_all()?;
            }
        }
        File::open(&self.0)?.sync_all()
    }

    pub fn outputs(&self) -> io::Result<Option<TaskOutputs>> {
        self.read("outputs.json")
    }

    pub fn write_outputs(&self, outputs: &TaskOutputs) -> io::Result<()> {
        write_atomically(&self.file("outputs.json"), &serde_json::to_vec(outputs)?, PRIVATE)
    }

    /// Lets every user into the folder where it runs: the one in a container is known to its image alone. Nobody else gets
    /// there, since the folder around it is closed.
    pub fn open_work(&self) -> io::Result<()> {
        fs::set_permissions(self.work(), fs::Permissions::from_mode(0o777))
    }

    /// The order of its keeper, if that was written down.
    pub fn order(&self) -> io::Result<Option<KeeperOrder>> {
        let order = self.read::<KeeperOrder>("order.json")?;
        Ok(order.map(|order| KeeperOrder { folder: self.clone(), ..order }))
    }

    /// Nobody reads it before the keeper is given the attempt.
    pub fn write_order(&self, order: &[u8]) -> io::Result<()> {
        self.write("order.json", order)
    }

    /// The devices of a resource that it holds; none if an agent of before gave it a count, or nobody gave it any.
    pub fn devices(&self, resource: &str) -> io::Result<Option<Vec<String>>> {
        let devices = self.read::<BTreeMap<String, Vec<String>>>("devices.json")?;
        Ok(devices.and_then(|mut devices| devices.remove(resource)))
    }

    pub fn write_devices(&self, resource: &str, ids: &[String]) -> io::Result<()> {
        let devices = BTreeMap::from([(resource, ids)]);
        write_whole(&self.file("devices.json"), &serde_json::to_vec(&devices)?, PRIVATE)
    }

    /// When the stage of this name was reached, in microseconds since 1970.
    pub fn instant(&self, stage: &str) -> Option<i64> {
        fs::read_to_string(self.file(stage)).ok()?.trim().parse().ok()
    }

    /// A reader who comes too early finds nothing yet.
    pub fn write_instant(&self, stage: &str, at: i64) -> io::Result<()> {
        self.write(stage, at.to_string().as_bytes())
    }

    /// The first line that was not taken yet. What cannot be read counts as nothing: lines may be told twice.
    pub fn delivered(&self) -> u64 {
        let known = fs::read_to_string(self.file("delivered")).ok();
        known.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    pub fn write_delivered(&self, next: u64) -> io::Result<()> {
        write_whole(&self.file("delivered"), next.to_string().as_bytes(), PRIVATE)
    }

    /// Marks it, for ever.
    pub fn mark(&self, name: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(PRIVATE).open(self.file(name)).map(drop)
    }

    /// Has this keeper begin it, if it is the first.
    pub fn begin(&self, keeper: &str) -> io::Result<Beginning> {
        Record::begin(&self.file("begun"), keeper)
    }

    /// The lock of its keeper; none while a keeper has it.
    pub fn lock(&self) -> io::Result<Option<File>> {
        // For writing, as a lock on a network's file system wants it.
        let file = File::options().read(true).write(true).open(self.file("accepted.json"))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True while a keeper has it.
    pub fn is_kept(&self) -> io::Result<bool> {
        match self.lock() {
            Ok(lock) => Ok(lock.is_none()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Wakes its keeper to look at its folder. One that has not begun it yet looks there when it does.
    pub fn wake(&self) {
        let keeper = self.steps().ok().flatten().and_then(|steps| steps.keeper);
        if let (Some(keeper), Some(tasks)) = (keeper, self.0.parent()) {
            poke(&tasks.join(keeper), b"\n");
        }
    }

    /// Removes that of a task which has left nothing; false if there is more.
    fn remove_plain(&self) -> bool {
        for name in ["begun", promise_end::FILE, "accepted.json"] {
            match fs::remove_file(self.file(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return false,
                _ => {}
            }
        }
        fs::remove_dir(self.work()).is_ok() && fs::remove_dir(&self.0).is_ok()
    }

    /// Removes all of it; false if that takes longer than it may now.
    pub fn remove(&self) -> io::Result<bool> {
        if self.remove_plain() {
            return Ok(true);
        }
        match slot_folder::empty(&self.0, Instant::now() + REMOVE_WITHIN) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        }
        match fs::remove_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(PRIVATE).open(self.file(name))?;
        file.write_all(bytes)
    }

    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.file(name)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Makes a folder with these permissions, whatever the process's umask says, unless it is there.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if path.metadata()?.mode() & 0o777 == mode => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::task::TaskEnding;

    use super::*;

    fn accepted(id: &str) -> Accepted {
        let assignment = TaskAssignment { id: id.into(), attempt: 1, ..TaskAssignment::default() };
        Accepted { assignment, at: 7, boot: "b".into() }
    }

    #[test]
    fn an_attempt_is_as_it_was_left_and_begins_once() {
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "a.b", 1);
        assert_eq!(folder.name(), "a.b.1");
        folder.accept(&accepted("a.b"), None, None).unwrap();
        let found = AttemptFolder::all(place.path()).unwrap();
        assert_eq!(found, std::slice::from_ref(&folder));
        assert_eq!(found[0].accepted().unwrap(), Some(accepted("a.b")));
        let whole = fs::read(folder.file("accepted.json")).unwrap();
        for half in [&whole[..0], &whole[..whole.len() / 2], &whole[..whole.len() - 2]] {
            fs::write(folder.file("accepted.json"), half).unwrap();
            assert_eq!(folder.accepted().unwrap(), None, "its agent died while it wrote it");
        }
        fs::write(folder.file("accepted.json"), "{}\n").unwrap();
        assert!(folder.accepted().is_err(), "nobody knows it");
        folder.accept(&accepted("a.b"), None, None).unwrap();
        assert_eq!((found[0].end().unwrap(), found[0].delivered()), (None, 0));
        assert_eq!(folder.attempt(), Some(("a.b".to_owned(), 1)));
        folder.write_delivered(12).unwrap();
        let end = End { at: 9, ending: TaskEnding::Exit(3), program: None, used: None };
        folder.write_end(&end).unwrap();
        assert_eq!((found[0].end().unwrap(), found[0].delivered()), (Some(end), 12));
        let Beginning::Now(mut record) = folder.begin("k1").unwrap() else { panic!("it began before") };
        let end = End { at: 10, ending: TaskEnding::Exit(0), program: None, used: None };
        record.add_end(&end).unwrap();
        assert_eq!(found[0].end().unwrap(), Some(end));
        fs::create_dir_all(folder.work().join("deep/er")).unwrap();
        assert!(folder.remove().unwrap() && folder.remove().unwrap());
        assert!(!folder.path().exists());
    }

    #[test]
    fn only_its_work_is_another_users() {
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "a", 1);
        let uid = rustix::process::geteuid().as_raw();
        let own = Identity { uid, gid: rustix::process::getegid().as_raw(), groups: Vec::new() };
        folder.accept(&accepted("a"), None, Some(&own)).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(&folder.work())), (0o700, 0o700), "it is its own already");
        assert_eq!(mode(&folder.file("accepted.json")), 0o600);
    }

    #[test]
    fn one_keeper_at_a_time_holds_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "a", 1);
        folder.accept(&accepted("a"), None, None).unwrap();
        let first = folder.lock().unwrap().unwrap();
        assert!(folder.lock().unwrap().is_none() && folder.is_kept().unwrap());
        drop(first);
        assert!(!folder.is_kept().unwrap());
        assert!(folder.lock().unwrap().is_some());
    }
}
