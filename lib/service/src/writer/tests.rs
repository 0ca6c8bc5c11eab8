use std::collections::VecDeque;

use estimand_runtime::Readiness;
use futures_util::future::join_all;

use super::*;

/// A number that can be raised; the storage does as it is told.
#[derive(Default)]
struct Tally {
    shown: u64,
    /// With what is being stored.
    staged: u64,
    stored: u64,
    /// How many changes were stored at a time.
    groups: Arc<std::sync::Mutex<Vec<usize>>>,
    script: VecDeque<Step>,
    is_over: bool,
}

#[derive(Clone, Copy)]
enum Step {
    /// The storage takes the change.
    Take,
    /// It breaks off, before or after the change took effect.
    BreakOff {
        taken: bool,
    },
    Refuse,
    TakeOver,
}

struct Raise(u64);

impl Request<Tally> for Raise {
    type Reply = u64;

    fn decide(self, tally: &Tally) -> Result<Decision<Tally, u64>, &'static str> {
        match self.0 {
            0 => Ok(Decision::Nothing(tally.staged)),
            13 => Err("thirteen"),
            by => Ok(Decision::change(tally.staged + by, |_: &Tally, raised: &u64| *raised)),
        }
    }
}

impl State for Tally {
    type Change = u64;
    type Rejection = &'static str;
    const NAME: &'static str = "the tallies";
    const SERVICE: &'static str = "tally service";
    const GROUP: usize = 4;

    async fn load(&mut self) -> Result<(), StorageError> {
        if self.is_over {
            return Err(StorageError::TakenOver("claimed".to_owned()));
        }
        (self.shown, self.staged) = (self.stored, self.stored);
        Ok(())
    }

    async fn store(&mut self, changes: &[u64]) -> Result<(), StorageError> {
        self.groups.lock().unwrap().push(changes.len());
        let last = *changes.last().unwrap();
        match self.script.pop_front().unwrap_or(Step::Take) {
            Step::Take => self.stored = last,
            Step::BreakOff { taken } => {
                self.stored = if taken { last } else { self.stored };
                return Err(StorageError::Unknown("broke off".to_owned()));
            }
            Step::Refuse => return Err(StorageError::NotStored("full".to_owned())),
            Step::TakeOver => {
                self.is_over = true;
                return Err(StorageError::TakenOver("claimed".to_owned()));
            }
        }
        Ok(())
    }

    fn publish(&mut self, changes: &[u64]) {
        self.shown = *changes.last().unwrap();
    }

    fn took_effect(&self, changes: &[u64]) -> bool {
        self.shown == *changes.last().unwrap()
    }

    fn stage(&mut self, change: &u64) {
        self.staged = *change;
    }

    fn unstage(&mut self, _: &[u64]) {
        self.staged = self.shown;
    }
}

fn writer(tasks: &Tasks, tally: Tally) -> Writer<Tally> {
    Writer::start(tasks, "tally", tally, Readiness::new().part("tally"), Box::new(|_| {}))
}

/// The answers to requests that arrive together, and how many changes were stored at a time.
async fn together(
    script: &[Step],
    raises: &[u64],
) -> (Vec<Result<u64, SubmitError<&'static str>>>, Vec<usize>) {
    let tally = Tally { script: script.iter().copied().collect(), ..Tally::default() };
    let (tasks, groups) = (Tasks::new(), Arc::clone(&tally.groups));
    let writer = writer(&tasks, tally);
    assert_eq!(writer.submit(Raise(0)).await, Ok(0));
    let answers = join_all(raises.iter().map(|by| writer.submit(Raise(*by)))).await;
    tasks.stop_all(Duration::from_secs(1)).await.unwrap();
    let groups = groups.lock().unwrap().clone();
    (answers, groups)
}

#[tokio::test(start_paused = true)]
async fn requests_that_arrive_together_are_stored_together() {
    let rejected = Err(SubmitError::Rejected("thirteen"));
    let (answers, groups) = together(&[], &[1, 13, 1, 0, 1, 1, 1, 0]).await;
    assert_eq!(answers, [Ok(1), rejected.clone(), Ok(2), Ok(2), Ok(3), Ok(4), Ok(5), Ok(5)]);
    assert_eq!(groups, [4, 1], "a group has its bound");

    let broken = [Step::BreakOff { taken: true }, Step::BreakOff { taken: false }];
    let (answers, _) = together(&broken, &[1, 1, 1, 1, 1, 0, 1]).await;
    let lost = Err(SubmitError::Broken);
    assert_eq!(answers, [Ok(1), Ok(2), Ok(3), Ok(4), lost.clone(), lost.clone(), lost]);

    let (answers, _) = together(&[Step::TakeOver], &[0, 1, 13, 0]).await;
    let over = Err(SubmitError::TakenOver(Tally::SERVICE));
    assert_eq!(answers, [Ok(0), over.clone(), over.clone(), over], "what was decided on it shares its fate");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_storage_refuses_takes_none_with_it_that_came_before() {
    let script = [Step::Refuse, Step::Take, Step::Refuse];
    let (answers, groups) = together(&script, &[1, 1, 13, 1, 1, 0, 1]).await;
    let refused = || Err(SubmitError::NotStored);
    assert_eq!(answers, [Ok(1), refused(), refused(), refused(), refused(), Ok(1), Ok(2)]);
    assert_eq!(groups, [4, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_stored_then_published_and_every_outcome_is_told_apart() {
    let reasons = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (tasks, heard) = (Tasks::new(), Arc::clone(&reasons));
    let script = [
        Step::Take,
        Step::BreakOff { taken: true },
        Step::BreakOff { taken: false },
        Step::Refuse,
        Step::TakeOver,
    ];
    let tally = Tally { stored: 5, script: script.into(), ..Tally::default() };
    let on_fatal = Box::new(move |why: &str| heard.lock().unwrap().push(why.to_owned()));
    let ready = Readiness::new().part("tally");
    let writer = Writer::start(&tasks, "tally", tally, ready, on_fatal);
    for (by, expected) in [
        (0, Ok(5)),
        (13, Err(SubmitError::Rejected("thirteen"))),
        (1, Ok(6)),
        (1, Ok(7)),
        (1, Err(SubmitError::Broken)),
        (1, Err(SubmitError::NotStored)),
        (0, Ok(7)),
        (1, Err(SubmitError::TakenOver(Tally::SERVICE))),
        (0, Err(SubmitError::TakenOver(Tally::SERVICE))),
    ] {
        assert_eq!(writer.submit(Raise(by)).await, expected, "by {by}");
    }
    assert_eq!(*reasons.lock().unwrap(), ["another tally service has taken over this store"]);
    tasks.stop_all(Duration::from_secs(1)).await.unwrap();
    assert_eq!(writer.submit(Raise(0)).await, Err(SubmitError::Stopping(Tally::SERVICE)));
}
