//! Bounds, and a disk that is full. The latter is a small file system of its own, so this runs as root.

use std::path::Path;
use std::process::Command;

use estimand_api::problem::Problem;
use estimand_api::write::Write;

use super::service::{Reply, Service};
use super::{OutboxOptions, Running, files, options, until, write};
use crate::deliver::Outbox;

fn down(_: &[Write]) -> Reply {
    Reply::Say(Problem::unavailable("not now", 1))
}

/// The sequences of a history, which have to be without a gap but at `from`, up to `last`.
#[track_caller]
fn check_newest(history: &[u64], last: u64) {
    let from = last + 1 - history.len() as u64;
    assert_eq!(history, (from..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_spool_gives_up_the_oldest_and_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(down).await;
    let options = OutboxOptions { max_spool_bytes: 20_000, ..options(dir.path()) };
    let running = Running::start(options, &service.address);
    for sequence in 1..=500 {
        running.outbox.put(vec![write("a", sequence, 0)]);
        if sequence % 50 == 0 {
            running.until("it to be on disk", |_| running.outbox.0.state().queue_is_empty()).await;
        }
    }
    let figures = running.until("something to be dropped", |figures| figures.dropped > 300).await;
    assert!((10_000..=20_000).contains(&figures.spooled_bytes), "{figures:?}");
    assert_eq!(figures.waiting_items as u64 + figures.dropped, 500);
    service.now(|_| Reply::Take);
    let figures = running.delivered().await;
    assert_eq!(figures.delivered + figures.dropped, 500);
    let history = service.history("a");
    assert_eq!(history.len() as u64, figures.delivered);
    assert!(history.is_sorted());
    // The parcel that was on its way when the bound was reached is kept; behind it the oldest are missing.
    let gap = history.windows(2).position(|pair| pair[1] != pair[0] + 1).map_or(0, |place| place + 1);
    assert!(gap < 60, "{history:?}");
    check_newest(&history[gap..], 500);
    running.stop().await;
}

#[test]
fn without_anybody_to_deliver_memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(OutboxOptions { max_memory_bytes: 10_000, ..options(dir.path()) }).unwrap();
    for sequence in 1..=100 {
        outbox.put(vec![write("a", sequence, 0)]);
    }
    let figures = outbox.figures();
    assert!((20..50).contains(&figures.waiting_items), "{figures:?}");
    assert_eq!(figures.waiting_items as u64 + figures.dropped, 100);
    assert_eq!(outbox.0.state().take(1, 1)[0].write.order.unwrap().sequence, figures.dropped + 1);
}

/// A file system of a given size, gone when dropped.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path, size: &str) -> Self {
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", at.to_str().unwrap()]);
        Small(at)
    }

    fn resize(&self, size: &str) {
        run("mount", &["-o", &format!("remount,size={size}"), self.0.to_str().unwrap()]);
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_full_disk_is_told_and_used_again_when_it_has_room() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::mount(dir.path(), "64k");
    let service = Service::start(down).await;
    let options = OutboxOptions { segment_bytes: 1_000_000, ..options(dir.path()) };
    let running = Running::start(options.clone(), &service.address);
    let last = 2_000;
    running.put_first(write("a", 1, 0)).await;
    running.outbox.put((2..=200).map(|sequence| write("a", sequence, 0)).collect());
    running.until("some to be on disk", |figures| figures.spooled_bytes > 20_000).await;
    // Half of these are written behind them before the disk is full; that has to be cut off again.
    running.outbox.put((201..=last).map(|sequence| write("a", sequence, 0)).collect());
    let figures = running.until("the full disk to be told", |figures| figures.spool_error.is_some()).await;
    assert!(figures.spool_error.as_ref().unwrap().contains("No space left"));
    assert_eq!((figures.waiting_items as u64, figures.dropped), (last, 0));

    small.resize("4m");
    let figures = running.until("the disk to be used again", |figures| figures.spool_error.is_none()).await;
    assert!(figures.spooled_bytes > last * 100, "{figures:?}");
    running.kill().await;
    let running = Running::start(options, &service.address);
    assert_eq!(running.outbox.figures().waiting_items as u64, last);
    service.now(|_| Reply::Take);
    let figures = running.delivered().await;
    assert_eq!((figures.delivered, figures.dropped), (last, 0));
    assert_eq!(service.history("a"), (1..=last).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn memory_is_bounded_while_the_disk_is_full_and_deliveries_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let _small = Small::mount(dir.path(), "16k");
    let service = Service::start(down).await;
    let options = OutboxOptions { max_memory_bytes: 100_000, ..options(dir.path()) };
    let running = Running::start(options, &service.address);
    for sequence in 1..=1_000 {
        running.outbox.put(vec![write("a", sequence, 0)]);
    }
    let told = |figures: &super::Figures| figures.spool_error.is_some() && figures.dropped > 0;
    let figures = running.until("the loss to be told", told).await;
    assert_eq!(figures.waiting_items as u64 + figures.dropped, 1_000);
    service.now(|_| Reply::Take);
    let figures = running.delivered().await;
    assert_eq!(figures.delivered + figures.dropped, 1_000);
    let history = service.history("a");
    assert!(history.is_sorted() && history.last() == Some(&1_000), "{history:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_folder_that_is_deleted_meanwhile_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("spool");
    let service = Service::start(down).await;
    let running = Running::start(options(&home), &service.address);
    running.outbox.put(vec![write("a", 1, 0)]);
    running.until("it to be on disk", |figures| figures.spooled_bytes > 0).await;
    std::fs::remove_dir_all(&home).unwrap();
    running.outbox.put(vec![write("a", 2, 3_000)]);
    until("the next to be on disk", || (home.exists() && !files(&home).is_empty()).then_some(())).await;
    service.now(|_| Reply::Take);
    running.delivered().await;
    // The first may or may not have been in memory when its file was deleted.
    assert_eq!(service.history("a").last(), Some(&2));
    running.stop().await;
}
