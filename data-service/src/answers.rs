//! The way back from the writer to those who wait.
//!
//! To wake a task of another thread takes a system call, and the callers of a group are many, on few threads. So of
//! each thread the writer wakes one caller, which wakes the others: among tasks of one thread that costs next to nothing.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

/// A place for one answer. The caller is of this thread.
pub fn awaited<T>() -> (Answering<T>, Awaited<T>) {
    let place = Arc::new(Mutex::new(Place::default()));
    (Answering { place: place.clone(), thread: std::thread::current().id() }, Awaited { place })
}

struct Place<T> {
    answer: Option<T>,
    /// Nobody will answer any more.
    is_given_up: bool,
    caller: Option<Waker>,
    /// Those who have to be woken by this caller, if it is the first of them.
    group: Option<Arc<Callers>>,
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Place { answer: None, is_given_up: false, caller: None, group: None }
    }
}

/// The writer's end.
pub struct Answering<T> {
    place: Arc<Mutex<Place<T>>>,
    thread: ThreadId,
}

impl<T> Answering<T> {
    /// True if the caller has gone.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.place) == 1
    }

    /// The caller hears of it with its group.
    pub fn give(self, answer: T, groups: &mut WakeUps) {
        let mut place = lock(&self.place);
        place.answer = Some(answer);
        // One that was not asked yet finds the answer when it is.
        if let Some(caller) = place.caller.take() {
            place.group = Some(groups.add(self.thread, caller));
        }
    }
}

impl<T> Drop for Answering<T> {
    fn drop(&mut self) {
        let caller = {
            let mut place = lock(&self.place);
            place.is_given_up = true;
            place.caller.take()
        };
        caller.into_iter().for_each(Waker::wake);
    }
}

/// The caller's end: the answer, or nothing if none will come.
pub struct Awaited<T> {
    place: Arc<Mutex<Place<T>>>,
}

impl<T> Future for Awaited<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut place = lock(&self.place);
        let (answer, group) = (place.answer.take(), place.group.take());
        if answer.is_none() && !place.is_given_up {
            place.caller = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(place);
        group.iter().for_each(|group| group.wake_all());
        Poll::Ready(answer)
    }
}

/// A caller that goes away is not counted on to wake others, or does it now.
impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        let (caller, group) = {
            let mut place = lock(&self.place);
            (place.caller.take(), place.group.take())
        };
        drop(caller);
        group.iter().for_each(|group| group.wake_all());
    }
}

/// The callers that have an answer and were not woken yet, by thread. It wakes them when it is dropped.
#[derive(Default)]
pub struct WakeUps {
    threads: Vec<(ThreadId, Arc<Callers>)>,
}

impl WakeUps {
    fn add(&mut self, thread: ThreadId, caller: Waker) -> Arc<Callers> {
        let known = self.threads.iter().find(|(of, _)| *of == thread).map(|(_, callers)| callers.clone());
        let callers = known.unwrap_or_else(|| {
            let callers = Arc::<Callers>::default();
            self.threads.push((thread, callers.clone()));
            callers
        });
        lock(&callers.0).asleep.push_back(caller);
        callers
    }
}

impl Drop for WakeUps {
    fn drop(&mut self) {
        self.threads.iter().for_each(|(_, callers)| callers.wake_first());
    }
}

/// Callers of one thread with answers of the same moment.
#[derive(Default)]
struct Callers(Mutex<Sleepers>);

#[derive(Default)]
struct Sleepers {
    asleep: VecDeque<Waker>,
    /// One of them has come for its answer, or has gone.
    is_one_awake: bool,
}

impl Callers {
    /// Wakes one, who wakes the rest. If one was there before they were complete, nobody else will.
    fn wake_first(&self) {
        let woken: Vec<Waker> = {
            let mut sleepers = lock(&self.0);
            let count = if sleepers.is_one_awake { sleepers.asleep.len() } else { 1 };
            let count = count.min(sleepers.asleep.len());
            sleepers.asleep.drain(..count).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    fn wake_all(&self) {
        let woken = {
            let mut sleepers = lock(&self.0);
            sleepers.is_one_awake = true;
            std::mem::take(&mut sleepers.asleep)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "answers_tests.rs"]
mod tests;
