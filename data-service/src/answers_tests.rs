use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

use super::*;

/// A task that counts how often it was woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller that waits.
struct Caller {
    task: Arc<Task>,
    awaited: Awaited<u32>,
}

impl Caller {
    fn waiting() -> (Answering<u32>, Caller) {
        let (answering, awaited) = awaited();
        let mut caller = Caller { task: Arc::default(), awaited };
        assert_eq!(caller.poll(), Poll::Pending);
        (answering, caller)
    }

    fn poll(&mut self) -> Poll<Option<u32>> {
        Pin::new(&mut self.awaited).poll(&mut Context::from_waker(&self.task.clone().into()))
    }

    fn wakes(&self) -> usize {
        self.task.0.load(Ordering::SeqCst)
    }
}

fn three() -> ([Answering<u32>; 3], [Caller; 3]) {
    let [(a, one), (b, two), (c, three)] = [Caller::waiting(), Caller::waiting(), Caller::waiting()];
    ([a, b, c], [one, two, three])
}

fn wakes(callers: &[Caller]) -> Vec<usize> {
    callers.iter().map(Caller::wakes).collect()
}

#[test]
fn the_writer_wakes_one_of_a_thread_and_that_one_wakes_the_others() {
    let (answering, mut callers) = three();
    let mut wake_ups = WakeUps::default();
    for (number, answering) in answering.into_iter().enumerate() {
        answering.give(number as u32, &mut wake_ups);
    }
    assert_eq!(wakes(&callers), [0, 0, 0]);
    drop(wake_ups);
    assert_eq!(wakes(&callers), [1, 0, 0]);
    assert_eq!(callers[0].poll(), Poll::Ready(Some(0)));
    assert_eq!(wakes(&callers), [1, 1, 1]);
    assert_eq!(callers[1].poll(), Poll::Ready(Some(1)));
    assert_eq!(callers[2].poll(), Poll::Ready(Some(2)));
    assert_eq!(wakes(&callers), [1, 1, 1]);
}

#[test]
fn of_each_thread_one_is_woken() {
    let (here, caller) = Caller::waiting();
    let (there, other) = std::thread::spawn(Caller::waiting).join().unwrap();
    let mut wake_ups = WakeUps::default();
    here.give(1, &mut wake_ups);
    there.give(2, &mut wake_ups);
    drop(wake_ups);
    assert_eq!(wakes(&[caller, other]), [1, 1]);
}

#[test]
fn one_that_goes_away_when_it_was_chosen_wakes_the_others() {
    let (answering, callers) = three();
    let mut wake_ups = WakeUps::default();
    answering.into_iter().for_each(|answering| answering.give(7, &mut wake_ups));
    drop(wake_ups);
    let [first, second, third] = callers;
    drop(first);
    assert_eq!(wakes(&[second, third]), [1, 1]);
}

#[test]
fn one_that_went_away_before_is_not_chosen() {
    let ([one, two, three], [first, second, third]) = three();
    assert!(!one.is_abandoned());
    drop(first);
    assert!(one.is_abandoned());
    let mut wake_ups = WakeUps::default();
    [one, two, three].into_iter().for_each(|answering| answering.give(7, &mut wake_ups));
    drop(wake_ups);
    assert_eq!(wakes(&[second, third]), [1, 0]);
}

#[test]
fn one_that_comes_before_the_group_is_complete_leaves_nobody_asleep() {
    let ([one, two, three], mut callers) = three();
    let mut wake_ups = WakeUps::default();
    one.give(1, &mut wake_ups);
    two.give(2, &mut wake_ups);
    assert_eq!(callers[0].poll(), Poll::Ready(Some(1)));
    three.give(3, &mut wake_ups);
    assert_eq!(wakes(&callers[1..]), [1, 0]);
    drop(wake_ups);
    assert_eq!(wakes(&callers[1..]), [1, 1]);
}

#[test]
fn nobody_waits_for_an_answer_that_will_not_come() {
    let (answering, mut caller) = Caller::waiting();
    drop(answering);
    assert_eq!(caller.wakes(), 1);
    assert_eq!(caller.poll(), Poll::Ready(None));
}

/// Callers of several threads that give up at any moment, against a writer that answers in groups.
#[test]
fn everybody_who_stays_hears_the_answer() {
    const CALLERS: u32 = 64;
    const TURNS: u32 = 200;
    let (sender, receiver) = std::sync::mpsc::channel::<(u32, Answering<u32>)>();
    let threads: Vec<_> = (0..3_u32)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let calls = (0..CALLERS).map(|caller| {
                    let sender = sender.clone();
                    async move {
                        for turn in 0..TURNS {
                            let (answering, awaited) = awaited();
                            sender.send((turn, answering)).unwrap();
                            // Some give up at once, some after a moment, most never.
                            let patience = match (thread + caller + turn) % 7 {
                                0 => Duration::ZERO,
                                1 => Duration::from_micros(u64::from(turn) * 3),
                                _ => Duration::from_secs(30),
                            };
                            match tokio::time::timeout(patience, awaited).await {
                                Ok(answer) => assert_eq!(answer, Some(turn)),
                                Err(_) => assert!(patience < Duration::from_secs(1), "not woken"),
                            }
                        }
                    }
                });
                runtime.block_on(futures_util::future::join_all(calls));
            })
        })
        .collect();
    drop(sender);
    while let Ok(first) = receiver.recv() {
        let mut wake_ups = WakeUps::default();
        for (turn, answering) in std::iter::once(first).chain(receiver.try_iter().take(50)) {
            answering.give(turn, &mut wake_ups);
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
