use estimand_api::write::{Content, Write};
use estimand_store::Halt;
use estimand_testkit::wait::PATIENCE;
use tempfile::TempDir;

use super::*;
use crate::core::backlog::FOLD_AGE;
use crate::core::backlog::{MAX_BYTES, MAX_CHANGES};
use crate::core::group::{Group, Retention};
use crate::core::operations::Operation as _;
use crate::storage::{Storage, StoredState};

/// A store in a folder, and what shares it.
struct Place {
    store: StoreUrl,
    tasks: Tasks,
    readiness: Readiness,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite://{}", folder.path().join("store.db").display());
        let store = StoreUrl::parse(&store).unwrap();
        Place { store, tasks: Tasks::new(), readiness: Readiness::new(), _folder: folder }
    }

    fn load(&self) -> StoredState {
        Storage::load(&self.store, &Halt::default(), 0, &mut |_| {}).unwrap()
    }

    fn journal(&self) -> Arc<Journal> {
        Journal::start(self.store.clone(), FOLD_AGE, &self.tasks, &self.readiness)
    }
}

fn group(changes: usize) -> JournaledGroup {
    JournaledGroup { revision: 1, changes, bytes: MAX_BYTES / MAX_CHANGES, at: Instant::now() }
}

async fn room(journal: &Arc<Journal>, within: Duration) -> bool {
    let journal = Arc::clone(journal);
    tokio::task::spawn_blocking(move || journal.wait_for_room(within)).await.unwrap()
}

#[tokio::test]
async fn writers_wait_while_the_backlog_is_full_and_the_folder_makes_room() {
    let place = Place::new();
    let mut stored = place.load();
    let journal = place.journal();
    journal.added(group(MAX_CHANGES - 1));
    assert!(room(&journal, Duration::ZERO).await);
    journal.added(group(1));
    assert!(!room(&journal, Duration::from_millis(20)).await);

    let content = Content::Value { text: "1".into(), valid_for: None, provenance: None };
    let (data_name, node_name) = ("a".parse().unwrap(), "n".parse().unwrap());
    let write = Write { data_name, node_name, content, collected_at: None, order: None };
    let mut written = Group::new(&stored.snapshot, 0);
    write.apply(&mut written, &Retention::new()).unwrap();
    journal.added(stored.storage.commit(&written, None).unwrap());
    assert_eq!(journal.backlog().changes(), MAX_CHANGES + 1);
    journal.loaded(stored.journaled, stored.storage.fold_right());
    assert!(room(&journal, PATIENCE).await);
    assert_eq!(journal.backlog().changes(), 0);
    place.tasks.stop_all(PATIENCE).await.unwrap();
    drop(stored);

    let stored = place.load();
    assert_eq!(stored.journaled.changes, 0, "the value is in t_data");
    assert_eq!(stored.snapshot.get("a", "n").unwrap().text(), "1");
}

fn busy(cause: &str) -> Result<(), Error> {
    Err(Error::Busy { doing: "testing", cause: cause.to_owned() })
}

#[tokio::test]
async fn folds_that_fail_for_long_are_seen() {
    let place = Place::new();
    let (stored, journal) = (place.load(), place.journal());
    journal.loaded(stored.journaled, stored.storage.fold_right());
    let mut folder = Folder::new(Arc::clone(&journal), place.store.clone());
    folder.note(&busy("in use"));
    assert_eq!(place.readiness.check(), Ok(()), "not at once");
    folder.failing_since = Instant::now().checked_sub(UNREADY_AFTER);
    folder.note(&busy("in use"));
    let unready = place.readiness.check().unwrap_err();
    assert!(unready[0].part == "journal" && unready[0].why.contains("in use"), "{unready:?}");
    folder.note(&Ok(()));
    assert_eq!(place.readiness.check(), Ok(()));
    place.tasks.stop_all(PATIENCE).await.unwrap();
}

/// Or a removal, which makes room, would wait for room.
#[tokio::test]
async fn writers_do_not_wait_for_a_full_disk() {
    let place = Place::new();
    let journal = place.journal();
    journal.added(group(MAX_CHANGES));
    let mut folder = Folder::new(Arc::clone(&journal), place.store.clone());
    folder.note(&busy("database or disk is full"));
    assert!(room(&journal, Duration::ZERO).await);
    folder.note(&busy("in use"));
    assert!(!room(&journal, Duration::ZERO).await);
    place.tasks.stop_all(PATIENCE).await.unwrap();
}
