//! The driver keeps commands until they are done: answers that are lost, news that comes twice, and what is given back meanwhile.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;

use estimand_api::problem::Problem;
use estimand_api::promise::PromiseRequest;
use estimand_api::task_stop::StopRequest;
use estimand_ordering::{
    Answer, Command, Done, Driver, Errand, Event, OrderNews, Question, Scheduler, TaskAnswer, TaskEnd,
    TaskNews,
};

type Heard = Rc<RefCell<Vec<Event<Command<u8>>>>>;

/// A scheduler whose requests are its commands.
struct Echo(Heard);

impl Scheduler for Echo {
    type Request = Command<u8>;
    type Task = u8;

    fn hear(&mut self, _now: u64, event: Event<Command<u8>>) -> Vec<Command<u8>> {
        match event {
            Event::Request(command) => vec![command],
            event => {
                self.0.borrow_mut().push(event);
                Vec::new()
            }
        }
    }
}

fn driver() -> (Driver<Echo>, Heard) {
    let heard = Heard::default();
    (Driver::new("echo", Echo(Rc::clone(&heard))), heard)
}

fn submit(task: &str) -> Command<u8> {
    Command::Submit { task: task.to_owned(), document: 7 }
}

fn told(task: &str, news: TaskNews) -> Event<Command<u8>> {
    Event::Task { task: task.to_owned(), news }
}

#[test]
fn errands_stay_until_they_are_answered_and_an_end_is_heard_once() {
    let (mut driver, heard) = driver();
    let stop = |checkpoint| StopRequest { grace: None, checkpoint };
    let cancel_so = |stop| Event::Request(Command::Cancel { task: "b".to_owned(), stop });
    let cancel = || cancel_so(stop(Some(true)));
    driver.hear(1, cancel());
    assert!(driver.errands().is_empty(), "there is no such task");
    for task in ["b", "a", "b"] {
        driver.hear(1, Event::Request(submit(task)));
    }
    driver.hear(1, cancel());
    let errands = driver.errands();
    assert_eq!(errands.iter().map(Errand::task).collect::<Vec<_>>(), ["b", "a"], "in their order, each once");
    driver.answer(2, &errands[0], TaskAnswer::Unknown("lost".to_owned()));
    assert_eq!(driver.errands(), errands, "the same again");
    driver.answer(2, &errands[0], TaskAnswer::Done(None));
    driver.answer(2, &errands[1], TaskAnswer::Refused(Box::new(Problem::conflict("never"))));
    assert!(matches!(&heard.borrow()[..], [Event::Task { task, news: TaskNews::Refused(_) }] if task == "a"));
    let cancels = driver.errands();
    let errand = |stop| Errand::Cancel { task: "b".to_owned(), stop };
    assert_eq!(cancels, [errand(stop(Some(true)))], "once it is there");
    driver.hear(2, cancel_so(stop(None)));
    assert_eq!(
        driver.errands(),
        [errand(stop(Some(true))), errand(stop(None))],
        "the other end is told, too"
    );
    let end = |end| told("b", TaskNews::Ended(end));
    driver.hear(3, end(TaskEnd::Cancelled));
    driver.hear(3, end(TaskEnd::Cancelled));
    driver.answer(3, &cancels[0], TaskAnswer::Done(Some(TaskEnd::Cancelled)));
    driver.hear(3, told("b", TaskNews::Progress(1.into())));
    assert_eq!(heard.borrow()[1..], [end(TaskEnd::Cancelled)]);
    assert!(driver.errands().is_empty());

    driver.hear(4, Event::Request(submit("c")));
    let again = driver.errands();
    driver.answer(4, &again[0], TaskAnswer::Done(Some(TaskEnd::Succeeded)));
    assert_eq!(heard.borrow()[2..], [told("c", TaskNews::Ended(TaskEnd::Succeeded))], "it was over already");
}

#[test]
fn orders_are_asked_until_they_are_held_and_given_back_whatever_is_lost() {
    let (mut driver, heard) = driver();
    let order = |revision| Command::Order {
        order: "o".to_owned(),
        revision,
        promises: vec![PromiseRequest { id: Some("p".to_owned()), until: 9, ..PromiseRequest::default() }],
    };
    let give_back = || Event::Request(Command::GiveBack { order: "o".to_owned() });
    let question = |driver: &Driver<Echo>| driver.questions().pop().unwrap().1;
    driver.hear(1, Event::Request(order(3)));
    let first = question(&driver);
    driver.hear(1, Event::Request(order(3)));
    assert_eq!(question(&driver), first, "a command that is given again has its effect once");
    driver.answer_order(1, "o", &first, Answer::NoRoom(Box::default()));
    assert!(driver.questions().is_empty(), "it is to be planned anew");
    driver.hear(1, Event::Request(order(3)));
    let second = question(&driver);
    assert!(
        matches!((&first, &second), (Question::Promise { key, .. }, Question::Promise { key: other, .. }) if key != other)
    );
    driver.answer_order(2, "o", &first, Answer::Done(Done::default()));
    driver.answer_order(2, "o", &second, Answer::Unknown("lost".to_owned()));
    driver.hear(2, give_back());
    assert_eq!(question(&driver), second, "it may be promised");
    driver.answer_order(2, "o", &second, Answer::Done(Done::default()));
    let back = question(&driver);
    assert_eq!(back, Question::GiveBack { promises: vec!["p".to_owned()] });
    driver.answer_order(2, "o", &back, Answer::Done(Done { revision: 9, ..Done::default() }));
    driver.hear(3, Event::Request(order(4)));
    driver.answer_order(3, "o", &question(&driver), Answer::NoRoom(Box::default()));
    driver.hear(3, give_back());
    let heard = heard.borrow();
    let news = heard.iter().map(|event| match event {
        Event::Order { news: OrderNews::NoRoom(_), .. } => "no room".to_owned(),
        Event::Order { news: OrderNews::Done(done), .. } => format!("done at {}", done.revision),
        other => format!("{other:?}"),
    });
    assert_eq!(news.collect::<Vec<_>>(), ["no room", "done at 9", "no room", "done at 0"]);
    assert!(driver.questions().is_empty());
}

#[test]
fn a_scheduler_is_woken_once_when_it_wanted_to_be() {
    let (mut driver, heard) = driver();
    [5, 3, 5].iter().for_each(|at| driver.hear(1, Event::Request(Command::WakeAt(*at))));
    driver.pass_time(2);
    assert_eq!((driver.wake_at(), heard.borrow().len()), (Some(3), 0));
    driver.pass_time(4);
    assert_eq!((driver.wake_at(), heard.borrow().len()), (Some(5), 1));
    driver.pass_time(9);
    assert_eq!((driver.wake_at(), heard.borrow().len()), (None, 2));
}
