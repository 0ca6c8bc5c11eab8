//! A fake dispatcher for tests: workers that follow the protocol in virtual time and die on schedule.
//!
//! Its workers do what the README demands and no more: they follow the newest part in its order, leave out images with
//! a result, and their lines can get lost. Nothing here looks at the scheduler's state.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};

use crate::dispatch::{Dispatcher, Error, Event, Parts};
use crate::job::{Activity, Job, Part, Progress};

/// The specification of a worker.
#[derive(Debug, Clone)]
pub struct FakeWorker {
    pub name: String,
    /// Images a second; from the given times on other ones.
    pub rate: f64,
    pub slows: Option<(f64, f64)>,
    pub ready_at: f64,
    pub dies_at: Option<f64>,
    /// True: its agent reports its death. False: it falls silent.
    pub is_told: bool,
    /// When it is there again, with what it had done.
    pub back_at: Option<f64>,
}

impl FakeWorker {
    pub fn new(name: &str, rate: f64) -> Self {
        let name = name.to_owned();
        FakeWorker { name, rate, slows: None, ready_at: 0.0, dies_at: None, is_told: true, back_at: None }
    }
}

/// Delays and losses of lines and parts.
#[derive(Debug, Clone, Copy)]
pub struct NetworkConditions {
    /// Seconds until a line is heard, and until a part is.
    pub delay: f64,
    /// Period of lines while a worker works.
    pub says_every: f64,
    /// Of so many lines one gets lost; 0: none does.
    pub loses_one_in: u64,
    /// Between these times nothing of the plane answers.
    pub away: Option<(f64, f64)>,
}

impl Default for NetworkConditions {
    fn default() -> Self {
        NetworkConditions { delay: 0.01, says_every: 0.25, loses_one_in: 0, away: None }
    }
}

#[derive(Debug, Default)]
struct Worker {
    is_alive: bool,
    /// The number of its life: pending events of an earlier life are void.
    life: u64,
    done: HashSet<String>,
    part: Option<Part>,
    queue: VecDeque<String>,
    /// The current image; it reads parts only between two images.
    busy_with: Option<String>,
    unheard: Option<Part>,
    fresh: Vec<String>,
    said_at: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum FakeEvent {
    Starts(usize),
    Dies(usize),
    Did(usize, u64),
    Asked(usize, u64),
    Part(usize, Part),
    Heard(Event),
}

pub struct FakeDispatcher {
    specs: Vec<FakeWorker>,
    network: NetworkConditions,
    now: f64,
    workers: Vec<Worker>,
    /// By time, then by order of making. Times that are not negative are in the order of their bits.
    agenda: BinaryHeap<Reverse<(u64, u64)>>,
    pending: BTreeMap<u64, FakeEvent>,
    made: u64,
    lines: u64,
    last: BTreeMap<String, Event>,
    /// Every image with who did it, in order: what the result files would say.
    pub results: Vec<(String, String)>,
    pub is_stopped: bool,
    /// How often parts were written.
    pub writes: usize,
}

impl FakeDispatcher {
    pub fn new(specs: Vec<FakeWorker>, network: NetworkConditions) -> Self {
        FakeDispatcher {
            workers: specs.iter().map(|_| Worker::default()).collect(),
            specs,
            network,
            now: 0.0,
            agenda: BinaryHeap::new(),
            pending: BTreeMap::new(),
            made: 0,
            lines: 0,
            last: BTreeMap::new(),
            results: Vec::new(),
            is_stopped: false,
            writes: 0,
        }
    }

    fn at(&mut self, at: f64, event: FakeEvent) {
        self.made += 1;
        self.agenda.push(Reverse((at.to_bits(), self.made)));
        self.pending.insert(self.made, event);
    }

    fn is_away(&self) -> bool {
        self.network.away.is_some_and(|(from, to)| (from..to).contains(&self.now))
    }

    fn rate(&self, number: usize) -> f64 {
        let spec = &self.specs[number];
        match spec.slows {
            Some((at, rate)) if self.now >= at => rate,
            _ => spec.rate,
        }
    }

    /// Returns the event that reaches the scheduler.
    fn happen(&mut self, event: FakeEvent) -> Option<Event> {
        match event {
            FakeEvent::Starts(number) => {
                let worker = &mut self.workers[number];
                let (done, life) = (std::mem::take(&mut worker.done), worker.life + 1);
                let part = worker.unheard.take().or(worker.part.take());
                *worker = Worker { is_alive: true, life, done, ..Worker::default() };
                self.say(number);
                // It reads what its part is now.
                if let Some(part) = part {
                    self.take(number, part);
                }
                self.at(self.now + 1.0, FakeEvent::Asked(number, life));
            }
            FakeEvent::Dies(number) => {
                self.workers[number].is_alive = false;
                let node = self.specs[number].name.clone();
                if self.specs[number].is_told {
                    let event = Event::Trouble { node, why: "its worker ended".to_owned() };
                    self.at(self.now + self.network.delay, FakeEvent::Heard(event));
                }
            }
            FakeEvent::Did(number, life) if self.lives(number, life) => self.did(number),
            FakeEvent::Asked(number, life) if self.lives(number, life) => {
                self.say(number);
                self.at(self.now + 1.0, FakeEvent::Asked(number, life));
            }
            FakeEvent::Part(number, part) => {
                let worker = &mut self.workers[number];
                if worker.is_alive && worker.busy_with.is_none() {
                    self.take(number, part);
                } else {
                    worker.unheard = Some(part);
                }
            }
            FakeEvent::Heard(_) if self.is_away() => {}
            FakeEvent::Heard(event) => return Some(event),
            FakeEvent::Did(..) | FakeEvent::Asked(..) => {}
        }
        None
    }

    fn lives(&self, number: usize, life: u64) -> bool {
        self.workers[number].is_alive && self.workers[number].life == life
    }

    fn take(&mut self, number: usize, part: Part) {
        let worker = &mut self.workers[number];
        worker.queue = part.images.iter().filter(|image| !worker.done.contains(*image)).cloned().collect();
        worker.part = Some(part);
        self.say(number);
        self.begin(number);
    }

    fn begin(&mut self, number: usize) {
        let (rate, worker) = (self.rate(number), &mut self.workers[number]);
        if worker.busy_with.is_none() {
            worker.busy_with = worker.queue.pop_front();
            if worker.busy_with.is_some() {
                let life = worker.life;
                self.at(self.now + 1.0 / rate, FakeEvent::Did(number, life));
            }
        }
    }

    fn did(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        if let Some(image) = worker.busy_with.take() {
            self.results.push((image.clone(), self.specs[number].name.clone()));
            worker.done.insert(image.clone());
            worker.fresh.push(image);
        }
        if worker.queue.is_empty() || self.now - worker.said_at >= self.network.says_every {
            self.say(number);
        }
        match self.workers[number].unheard.take() {
            Some(part) => self.take(number, part),
            None => self.begin(number),
        }
    }

    fn say(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        worker.said_at = self.now;
        let part = worker.part.clone();
        let images = part.as_ref().map(|part| part.images.clone()).unwrap_or_default();
        let mut extra: Vec<String> =
            worker.done.iter().filter(|image| !images.contains(image)).cloned().collect();
        extra.sort_unstable();
        // A line has no room for all of them.
        extra.truncate(20);
        // A real one answers only between two images.
        let left = worker.queue.len() + usize::from(worker.busy_with.is_some());
        let progress = Progress {
            activity: if left == 0 { Activity::Waiting } else { Activity::Working },
            revision: part.map(|part| part.revision),
            done: images.len() - left,
            of: images.len(),
            fps: 1.0,
            images: std::mem::take(&mut worker.fresh),
            extra,
            problem: None,
        };
        let node = self.specs[number].name.clone();
        let event = Event::Line { node: node.clone(), said_at: self.now, progress };
        self.last.insert(node, event.clone());
        self.lines += 1;
        if self.network.loses_one_in == 0 || !self.lines.is_multiple_of(self.network.loses_one_in) {
            self.at(self.now + self.network.delay, FakeEvent::Heard(event));
        }
    }

    fn gone() -> Error {
        Error::WatchEnded { name: "the plane is away".to_owned() }
    }
}

impl Dispatcher for FakeDispatcher {
    fn now(&self) -> f64 {
        self.now
    }

    async fn start(&mut self, _job: &Job) -> Result<(), Error> {
        for number in 0..self.specs.len() {
            let spec = self.specs[number].clone();
            self.at(spec.ready_at, FakeEvent::Starts(number));
            spec.dies_at.into_iter().for_each(|at| self.at(at, FakeEvent::Dies(number)));
            spec.back_at.into_iter().for_each(|at| self.at(at, FakeEvent::Starts(number)));
        }
        Ok(())
    }

    async fn write(&mut self, parts: &Parts) -> Result<(), Error> {
        if self.is_away() {
            return Err(Self::gone());
        }
        self.writes += 1;
        for (node, part) in parts {
            if let Some(number) = self.specs.iter().position(|spec| spec.name == *node) {
                self.at(self.now + self.network.delay, FakeEvent::Part(number, part.clone()));
            }
        }
        Ok(())
    }

    async fn next(&mut self, until: f64) -> Result<Option<Event>, Error> {
        // Nothing here waits, so that other futures would not run.
        tokio::task::yield_now().await;
        while let Some(Reverse((at, number))) = self.agenda.peek().copied() {
            let at = f64::from_bits(at);
            if at > until {
                break;
            }
            self.agenda.pop();
            self.now = self.now.max(at);
            if let Some(event) = self.pending.remove(&number)
                && let Some(event) = self.happen(event)
            {
                return Ok(Some(event));
            }
        }
        self.now = self.now.max(until);
        Ok(None)
    }

    async fn look(&mut self, node: &str) -> Result<Option<Event>, Error> {
        match self.is_away() {
            true => Err(Self::gone()),
            false => Ok(self.last.get(node).cloned()),
        }
    }

    async fn stop(&mut self) -> Result<Option<String>, Error> {
        self.is_stopped = true;
        Ok(None)
    }
}
