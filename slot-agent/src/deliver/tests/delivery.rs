//! Order, and each write once in effect, through outages, lost answers and restarts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_client as client;
use estimand_runtime::stop;

use super::service::{Reply, Service};
use super::{Running, client_of, files, options, until, write, writes};
use crate::deliver::{Outbox, client_options};

fn unavailable() -> Reply {
    Reply::Say(Problem::unavailable("the database does not answer", 1))
}

#[tokio::test]
async fn order_is_kept_through_an_outage_with_both_disk_and_memory_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| unavailable()).await;
    let running = Running::start(options(dir.path()), &service.address);
    for wave in 0..5 {
        running.outbox.put(writes("a", wave * 20 + 1..=wave * 20 + 20));
        let spooled = files(dir.path()).len();
        running.until("the wave to be on disk", |_| files(dir.path()).len() > spooled).await;
    }
    let figures = running.until("the outage to be told", |figures| figures.failing_since.is_some()).await;
    assert_eq!(figures.waiting_items, 100);
    assert!(figures.last_error.unwrap().contains("the database does not answer"));
    assert!(figures.spooled_bytes > 0 && figures.oldest_waiting_us.unwrap() > 0);
    service.now(|_| Reply::Take);
    running.outbox.put(writes("a", 101..=120));
    let figures = running.delivered().await;
    running.outbox.put(writes("a", 121..=121));
    until("the last one", || service.history("a").contains(&121).then_some(())).await;
    assert_eq!(service.history("a"), (1..=121).collect::<Vec<_>>());
    assert_eq!((figures.delivered, figures.dropped, figures.refused), (120, 0, 0));
    assert_eq!((figures.failing_since, figures.spooled_bytes), (None, 0));
    // The last file is removed once its delivery is noted.
    until("the files to be gone", || files(dir.path()).is_empty().then_some(())).await;
    running.stop().await;
}

#[tokio::test]
async fn writes_that_gather_while_a_batch_is_on_its_way_leave_together() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Arc::new(Mutex::new(None::<Outbox>));
    let puts = outbox.clone();
    let service = Service::start(move |batch| {
        // The answer to the first one is not there before the others wait.
        if batch.len() == 1
            && let Some(outbox) = puts.lock().unwrap().take()
        {
            (2..=50).for_each(|sequence| outbox.put(vec![write("a", sequence, 0)]));
        }
        Reply::Take
    })
    .await;
    let options = super::OutboxOptions { spool_after: super::PATIENCE, ..options(dir.path()) };
    let running = Running::start(options, &service.address);
    *outbox.lock().unwrap() = Some(running.outbox.clone());
    running.outbox.put(writes("a", 1..=1));
    running.until("all of it", |figures| figures.delivered == 50).await;
    assert_eq!(service.requests(), [1, 49]);
    running.stop().await;
}

#[tokio::test]
async fn what_may_wait_leaves_two_milliseconds_after_the_last_batch_unless_it_has_urgent_company() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| Reply::Take).await;
    let options = super::OutboxOptions { spool_after: super::PATIENCE, ..options(dir.path()) };
    let running = Running::start(options, &service.address);
    let began = std::time::Instant::now();
    for sequence in 1..=20 {
        running.outbox.put_in_company(writes("a", sequence..=sequence));
        running.until("its delivery", |figures| figures.delivered == sequence).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(19 * 2), "{:?}", began.elapsed());
    // The first of them would wait, were it alone.
    for sequence in (21..=40).step_by(2) {
        running.outbox.put_in_company(writes("a", sequence..=sequence));
        running.outbox.put(writes("a", sequence + 1..=sequence + 1));
        running.until("both", |figures| figures.delivered == sequence + 1).await;
    }
    assert_eq!(service.history("a"), (1..=40).collect::<Vec<_>>());
    assert_eq!(service.requests().len(), 30);
    running.stop().await;
}

/// Answers that leave the outcome open, refusals to answer, and restarts, in any order.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_whatever_becomes_of_the_answers() {
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut replies = fastrand::Rng::with_seed(seed + 100);
        let service = Service::start(move |_| match replies.u8(0..8) {
            0 => Reply::TakeAndClose,
            1 => Reply::Close,
            2 => Reply::TakeAndSay(Problem::outcome_unknown("nobody knows", 1)),
            3 => unavailable(),
            4 => Reply::Hang,
            5 => Reply::TakeAndSay(Problem::internal()),
            _ => Reply::Take,
        })
        .await;
        let impatient = client::Options {
            total_timeout: Duration::from_millis(60),
            ..client_options(&Default::default())
        };
        let (mut a, mut b) = (0, 0);
        for _ in 0..4 {
            let outbox = Outbox::open(options(dir.path())).unwrap();
            let running = Running::of(outbox, &service.address, impatient.clone());
            for _ in 0..40 {
                let mut batch = Vec::new();
                for (name, last) in [("a", &mut a), ("b", &mut b)] {
                    let more = random.u64(0..4);
                    batch.extend(writes(name, *last + 1..=*last + more));
                    *last += more;
                }
                running.outbox.put(batch);
                tokio::task::yield_now().await;
            }
            // In the middle of it all; what is left is found by the next one.
            running.stop().await;
        }
        service.now(|_| Reply::Take);
        let running = Running::start(options(dir.path()), &service.address);
        let figures = running.delivered().await;
        assert_eq!(figures.dropped, 0, "seed {seed}");
        assert_eq!(service.history("a"), (1..=a).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(service.history("b"), (1..=b).collect::<Vec<_>>(), "seed {seed}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_killed_agent_loses_nothing_that_is_on_disk_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| unavailable()).await;
    let running = Running::start(options(dir.path()), &service.address);
    running.put_first(write("a", 1, 0)).await;
    running.outbox.put(writes("a", 2..=200));
    running.until("all to be on disk", |figures| figures.spooled_bytes > 200 * 100).await;
    // Some segments are taken, one is taken without an answer, then nothing is answered any more.
    let mut answered = 0;
    service.now(move |_| {
        answered += 1;
        match answered {
            1..=3 => Reply::Take,
            4 => Reply::TakeAndClose,
            _ => Reply::Hang,
        }
    });
    running.until("some to be delivered", |figures| figures.delivered > 0).await;
    until("the request that hangs", || (service.requests().len() > 5).then_some(())).await;
    running.kill().await;

    let outbox = Outbox::open(options(dir.path())).unwrap();
    let found = outbox.figures();
    assert!(found.waiting_items > 0 && found.waiting_items < 200, "{found:?}");
    assert!(found.oldest_waiting_us.is_some());
    service.now(|_| Reply::Take);
    let running = Running::of(outbox, &service.address, client_options(&Default::default()));
    running.outbox.put(writes("a", 201..=210));
    running.delivered().await;
    assert_eq!(service.history("a"), (1..=210).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn a_batch_too_large_for_the_line_arrives_in_smaller_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|batch| if batch.len() > 10 { Reply::Hang } else { Reply::Take }).await;
    let impatient =
        client::Options { total_timeout: Duration::from_millis(40), ..client_options(&Default::default()) };
    let outbox = Outbox::open(options(dir.path())).unwrap();
    outbox.put(writes("a", 1..=64));
    let running = Running::of(outbox, &service.address, impatient);
    running.delivered().await;
    assert_eq!(service.history("a"), (1..=64).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn an_interrupted_run_may_be_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| Reply::Hang).await;
    let options = super::OutboxOptions { spool_after: super::PATIENCE, ..options(dir.path()) };
    let running = Running::start(options, &service.address);
    running.outbox.put(writes("a", 1..=10));
    until("the request", || (service.requests().len() == 1).then_some(())).await;
    let outbox = running.outbox.clone();
    outbox.put(writes("a", 11..=20));
    running.kill().await;
    assert_eq!(outbox.figures().waiting_items, 20);
    service.now(|_| Reply::Take);
    let running = Running::of(outbox, &service.address, client_options(&Default::default()));
    running.delivered().await;
    assert_eq!(service.history("a"), (1..=20).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn stopping_delivers_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| Reply::Take).await;
    let options = super::OutboxOptions { spool_after: super::PATIENCE, ..options(dir.path()) };
    let running = Running::start(options, &service.address);
    let outbox = running.outbox.clone();
    outbox.put(writes("a", 1..=10_001));
    running.stop().await;
    assert_eq!(service.history("a").len(), 10_001);
    assert_eq!(outbox.figures().delivered, 10_001);
    assert!(files(dir.path()).is_empty());
}

#[tokio::test]
async fn stopping_puts_on_disk_what_cannot_be_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| Reply::Hang).await;
    let slow = super::PATIENCE;
    let options = super::OutboxOptions {
        spool_after: slow,
        flush_for: Duration::from_millis(30),
        ..options(dir.path())
    };
    let running = Running::start(options.clone(), &service.address);
    running.outbox.put(writes("a", 1..=10));
    until("the request", || (service.requests().len() == 1).then_some(())).await;
    running.outbox.put(writes("a", 11..=20));
    running.stop().await;
    service.now(|_| Reply::Take);
    let outbox = Outbox::open(options).unwrap();
    assert_eq!(outbox.figures().waiting_items, 20);
    let running = Running::of(outbox, &service.address, client_options(&Default::default()));
    running.delivered().await;
    assert_eq!(service.history("a"), (1..=20).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn an_address_that_is_not_known_yet_is_an_outage_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(|_| Reply::Take).await;
    let outbox = Outbox::open(options(dir.path())).unwrap();
    let known = Arc::new(Mutex::new(None));
    let (trigger, stop) = stop::pair();
    let (runs, asked) = (outbox.clone(), known.clone());
    let task = tokio::spawn(async move { runs.run(|| asked.lock().unwrap().clone(), &stop).await });
    outbox.put(writes("a", 1..=3));
    until("it to be on disk", || (outbox.figures().spooled_bytes > 0).then_some(())).await;
    assert!(outbox.figures().last_error.unwrap().contains("not known"));
    *known.lock().unwrap() = Some(client_of("http://127.0.0.1:1", client_options(&Default::default())));
    until("the wrong address to be told", || {
        outbox.figures().last_error.filter(|error| error.contains("127.0.0.1:1/"))
    })
    .await;
    *known.lock().unwrap() = Some(client_of(&service.address, client_options(&Default::default())));
    until("the delivery", || (outbox.figures().delivered == 3).then_some(())).await;
    trigger.request();
    task.await.unwrap();
}
