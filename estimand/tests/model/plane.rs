//! The service under test: plays operations on it and compares what it answers and shows with the model.
//!
//! The values served are compared by content with the model, and across a restart byte by byte with what was
//! shown before it. Revisions are compared with all that were ever seen: they only grow.

use estimand_testkit::http::{Http, Response};
use estimand_testkit::process::{self, Estimand, free_port};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use crate::model::{Answer, Model, Seen};
use crate::operations::{Item, NAMES, NODES, Name, Node, Operation, Target};
use crate::poller::Poller;

pub struct Plane {
    process: Estimand,
    http: Http,
    case: usize,
    /// The highest revision ever seen.
    revision: u64,
    poller: Poller,
}

impl Plane {
    pub fn start(store: Option<String>) -> Self {
        let builder = process::estimand().args(["data"]).port(free_port());
        let process = match store {
            Some(url) => builder.store(url).start(),
            None => builder.start(),
        };
        let http = process.http();
        Plane { process, http, case: 0, revision: 0, poller: Poller::default() }
    }

    /// From now on other names are used.
    pub fn new_case(&mut self) {
        self.case += 1;
    }

    pub fn play(&mut self, sequence: &[Operation]) -> Result<(), TestCaseError> {
        let mut model = Model::default();
        for operation in sequence {
            let expected = model.apply(operation);
            match operation {
                Operation::Restart | Operation::Kill => self.start_again(operation)?,
                _ => {
                    let answer = self.send(operation);
                    let shown = self.check_answer(operation, &expected, &answer);
                    prop_assert_eq!(&shown, &expected, "{:?} was answered {}", operation, answer);
                }
            }
            let seen = self.seen();
            prop_assert_eq!(seen, model.seen(), "after {:?}", operation);
            let bound: Vec<_> = self.bindings().iter().map(|one| self.bound(one)).collect();
            prop_assert_eq!(bound, model.bindings());
            self.poll()?;
        }
        self.start_again(&Operation::Kill)?;
        prop_assert_eq!(self.seen(), model.seen(), "at the end");
        self.check_each_value(&model)
    }

    /// Asks again for what was asked for after the last operation.
    fn poll(&mut self) -> Result<(), TestCaseError> {
        let names: Vec<String> = (0..NAMES).map(|name| self.name(name)).collect();
        let (all, node) = (names.join(","), self.node(0));
        let lists = names.iter().map(|name| format!("/api/data?dataName={name}"));
        let values = names.iter().map(|name| format!("/api/data/{name}/{node}"));
        let chosen = [
            format!("/api/data?dataName={all}"),
            format!("/api/data?dataName={all}&dataNode={node}"),
            format!("/api/data?dataName={all}&state=node-lost"),
            format!("/api/data?dataName={all}&field=/a"),
        ];
        let paths: Vec<String> = lists.chain(values).chain(chosen).collect();
        paths.iter().try_for_each(|path| self.poller.poll(&self.http, path))
    }

    /// The process ends and comes back; nothing that is shown may differ.
    fn start_again(&mut self, how: &Operation) -> Result<(), TestCaseError> {
        let before = (self.read_all().text().to_owned(), self.bindings());
        // A connection that is kept alive may make an orderly stop wait for it.
        self.http = self.process.http();
        if matches!(how, Operation::Restart) {
            let status = self.process.terminate();
            prop_assert!(status.success(), "SIGTERM ended it with {}", status);
        }
        self.process.restart_on_same_port();
        let after = (self.read_all().text().to_owned(), self.bindings());
        prop_assert_eq!(before, after, "across {:?}", how);
        Ok(())
    }

    fn send(&self, operation: &Operation) -> Response {
        let delete = |path: String| self.http.request("DELETE", &path, &[], b"");
        match operation {
            Operation::Write(item) => self.http.send_json("PUT", "/api/data", &self.item(item)),
            Operation::Batch(items) => {
                let batch: Vec<Value> = items.iter().map(|item| self.item(item)).collect();
                self.http.send_json("POST", "/api/data/batch", &json!(batch))
            }
            Operation::Delete { name, node: None } => {
                delete(format!("/api/data?dataName={}", self.name(*name)))
            }
            Operation::Delete { name, node: Some(node) } => {
                delete(format!("/api/data?dataName={}&dataNode={}", self.name(*name), self.node(*node)))
            }
            Operation::Mark { node, lost } => {
                let state = if *lost { "node-lost" } else { "fresh" };
                let body = json!({"nodeName": self.node(*node), "state": state});
                self.http.send_json("PUT", "/api/data/state", &body)
            }
            Operation::Bind { name, target: (to, field) } => {
                let path = format!("/api/bindings/{}?force=true", self.name(*name));
                self.http.send_json("PUT", &path, &json!({"to": self.name(*to), "field": field}))
            }
            Operation::RollBack { name } => {
                let path = format!("/api/bindings/{}/rollback?force=true", self.name(*name));
                self.http.request("POST", &path, &[], b"")
            }
            Operation::Unbind { name } => delete(format!("/api/bindings/{}", self.name(*name))),
            Operation::Restart | Operation::Kill => unreachable!("no request"),
        }
    }

    /// The answer in the model's terms, which are those of the expected one.
    fn check_answer(&mut self, operation: &Operation, expected: &Answer, answer: &Response) -> Answer {
        match answer.status {
            404 => return Answer::Missing,
            409 => return Answer::Conflict,
            200 | 201 | 204 => {}
            _ => panic!("{operation:?} was answered {answer}"),
        }
        let body = if answer.body.is_empty() { Value::Null } else { answer.json() };
        let count = |field: &str| body[field].as_u64().unwrap() as usize;
        if matches!(body["outcome"].as_str(), Some("created" | "replaced")) {
            let revision = body["revision"].as_u64().unwrap();
            // A failure that is known already changes nothing, so it has no revision of its own.
            let repeated = matches!(operation, Operation::Write(Item { value: None, order: None, .. }));
            assert!(revision > self.revision || repeated, "{revision} was given out before: {operation:?}");
            self.revision = self.revision.max(revision);
        }
        match expected {
            Answer::Written(_) => {
                let outcomes = ["created", "replaced", "superseded", "no-value"];
                let outcome = outcomes.into_iter().find(|one| body["outcome"] == **one).unwrap();
                assert_eq!(answer.status == 201, outcome == "created", "{answer}");
                Answer::Written(outcome)
            }
            Answer::Batch(_) => Answer::Batch(["created", "replaced", "superseded"].map(count)),
            Answer::Deleted(_) => Answer::Deleted(count("deleted")),
            Answer::Changed(_) => Answer::Changed(count("changed")),
            Answer::Done | Answer::Missing | Answer::Conflict => Answer::Done,
        }
    }

    fn read_all(&mut self) -> Response {
        let names: Vec<String> = (0..NAMES).map(|name| self.name(name)).collect();
        let answer = self.http.get(&format!("/api/data?dataName={}", names.join(","))).expect_status(200);
        let revision = answer.header("estimand-revision").unwrap().parse().unwrap();
        assert!(revision >= self.revision, "revision {revision} after {}", self.revision);
        self.revision = revision;
        answer
    }

    fn seen(&mut self) -> Vec<Seen> {
        let values: Vec<Value> = serde_json::from_slice(&self.read_all().body).unwrap();
        values.iter().map(|value| self.seen_one(value)).collect()
    }

    fn seen_one(&self, value: &Value) -> Seen {
        let name = (0..NAMES).find(|name| value["dataName"] == self.name(*name)).unwrap();
        let node = (0..NODES).find(|node| value["nodeName"] == self.node(*node)).unwrap();
        let states = ["fresh", "failed", "node-lost"];
        let state = states.into_iter().find(|state| value["state"] == **state).unwrap();
        (name, node, value["dataValue"].clone(), state)
    }

    /// Bindings of this case's names, with all that is said of them.
    fn bindings(&self) -> Vec<Value> {
        let all = self.http.get("/api/bindings").expect_status(200);
        let mut all: Vec<Value> = serde_json::from_slice(&all.body).unwrap();
        all.retain(|one| (0..NAMES).any(|name| one["dataName"] == self.name(name)));
        all
    }

    /// A binding in the model's terms.
    fn bound(&self, binding: &Value) -> (Name, Target) {
        let place = |name: &Value| (0..NAMES).find(|place| *name == self.name(*place)).unwrap();
        let field = ["/a", "/a/0"].into_iter().find(|field| binding["field"] == **field);
        assert_eq!(field.is_some(), binding["field"].is_string(), "{binding}");
        (place(&binding["dataName"]), (place(&binding["to"]), field))
    }

    /// Reads value by value what the list showed.
    fn check_each_value(&mut self, model: &Model) -> Result<(), TestCaseError> {
        let seen = model.seen();
        for name in 0..NAMES {
            for node in 0..NODES {
                let answer = self.http.get(&format!("/api/data/{}/{}", self.name(name), self.node(node)));
                let expected = seen.iter().find(|one| (one.0, one.1) == (name, node));
                let shown = (answer.status == 200).then(|| self.seen_one(&answer.json()));
                prop_assert_eq!(shown.as_ref(), expected, "{}", answer);
            }
        }
        Ok(())
    }

    fn item(&self, item: &Item) -> Value {
        let mut body = json!({"dataName": self.name(item.name), "nodeName": self.node(item.node)});
        match &item.value {
            Some(value) => body["dataValue"] = value.clone(),
            None => body["state"] = json!("failed"),
        }
        if let Some((epoch, sequence)) = item.order {
            (body["epoch"], body["sequence"]) = (json!(epoch), json!(sequence));
        }
        body
    }

    fn name(&self, name: Name) -> String {
        format!("case{}_{name}", self.case)
    }

    fn node(&self, node: Node) -> String {
        format!("case{}-{node}", self.case)
    }
}
