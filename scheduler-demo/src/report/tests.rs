//! The report of made-up runs.
#![allow(clippy::unwrap_used)]

use chrono::DateTime;
use roxmltree::{Document, Node, ParsingOptions};

use super::*;
use crate::job_plan::PolicyKind;
use crate::run::{NodeRecord, RunEvent, RunEventKind, Span};

fn record(name: &str, capability: f64, seconds: f64, spans: &[(f64, f64, u64)]) -> NodeRecord {
    let did: u64 = spans.iter().map(|(_, _, items)| items).sum();
    NodeRecord {
        name: name.to_owned(),
        capability,
        spread: 0.0,
        state: "fresh".to_owned(),
        held: 50,
        target: did,
        did,
        seconds,
        worked: seconds,
        fps: (seconds > 0.0).then(|| did as f64 / seconds),
        spans: spans.iter().map(|(from, to, items)| Span { from: *from, to: *to, items: *items }).collect(),
        images: (0..did).map(|i| format!("{name}-{i}.jpg")).collect(),
        steps: Vec::new(),
    }
}

fn run(title: &str, policy: PolicyKind, makespan: f64, ideal: Option<f64>, nodes: Vec<NodeRecord>) -> Run {
    Run {
        title: title.to_owned(),
        job: "job".to_owned(),
        policy,
        began: DateTime::from_timestamp(1_795_000_000, 0).unwrap(),
        revision: 12,
        items: 100,
        makespan,
        ideal,
        expected: None,
        startup: 1.5,
        moved: 25,
        fetched: 20,
        duplicates: 1,
        conflicts: None,
        nodes,
        events: Vec::new(),
        notes: Vec::new(),
    }
}

fn runs() -> Vec<Run> {
    let equal =
        vec![record("n1", 1.0, 25.0, &[(0.0, 25.0, 50)]), record("n2", 1.0, 50.0, &[(0.0, 50.0, 50)])];
    let by_history = vec![
        record("n1", 2.0, 33.0, &[(0.0, 10.0, 20), (11.0, 33.0, 47)]),
        record("a-node-with-a-very-long-name <script>", 1.0, 33.5, &[(0.0, 33.5, 33)]),
        record("idle", 0.0, 0.0, &[]),
    ];
    let mut second = run("history & \"more\"", PolicyKind::Dynamic, 33.6, Some(33.0), by_history);
    let event = |at, kind, why: &str| RunEvent { at, node: "n1".to_owned(), kind, why: why.to_owned() };
    second.events =
        vec![event(10.0, RunEventKind::Lost, "its worker ended"), event(11.0, RunEventKind::Back, "")];
    second.notes = vec!["idle is stale: the last that was known counts".to_owned()];
    vec![run("equal", PolicyKind::Static, 50.0, Some(33.3), equal), second]
}

#[test]
fn the_text_has_the_figures_of_each_run() {
    insta::assert_snapshot!(text(&runs()));
}

#[test]
fn all_of_it_is_in_the_json() {
    let json = to_json(&runs());
    assert_eq!(json["runs"][0]["overIdeal"], serde_json::json!(50.0 / 33.3));
    assert_eq!(from_json(&json).unwrap(), runs());
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap()
}

fn of_class<'a>(root: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let is_it = |node: &Node<'_, '_>| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
    };
    root.descendants().filter(is_it).collect()
}

fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

#[test]
fn the_page_draws_every_node_and_every_span() {
    let page = page(&runs());
    let document = parse(&page);
    let drawings: Vec<Node<'_, '_>> =
        document.descendants().filter(|node| node.tag_name().name() == "svg").collect();
    // Times and a timeline for each run, and two for all.
    assert_eq!(drawings.len(), 6);
    let counts = |class: &str| drawings.iter().map(|svg| of_class(*svg, class).len()).collect::<Vec<_>>();
    assert_eq!(counts("bar"), [2, 3, 2, 2, 0, 0]);
    assert_eq!(counts("span"), [0, 0, 0, 0, 2, 3]);
    assert_eq!(counts("event"), [0, 0, 0, 0, 0, 2]);
    // Both runs' times are drawn to one scale: 25 s and 33 s.
    let widths: Vec<f64> =
        drawings[..2].iter().map(|svg| number(&of_class(*svg, "bar")[0], "width")).collect();
    assert!((widths[0] / widths[1] - 25.0 / 33.0).abs() < 0.01, "{widths:?}");
    // Nothing lies outside.
    for svg in &drawings {
        let bottom: f64 = svg.attribute("viewBox").unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        for rect in svg.descendants().filter(|node| node.tag_name().name() == "rect") {
            assert!(number(&rect, "x") + number(&rect, "width") <= 640.0);
            assert!(number(&rect, "y") + number(&rect, "height") <= bottom);
        }
    }
}

#[test]
fn the_page_needs_nothing_else_and_runs_nothing() {
    let page = page(&runs());
    let document = parse(&page);
    for node in document.descendants() {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "image", "use"].contains(&name), "{name}");
        for attribute in node.attributes() {
            let name = attribute.name();
            assert!(!name.starts_with("on") && !["src", "href", "style"].contains(&name), "{name}");
        }
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    assert!(page.contains("history &amp; &quot;more&quot;") && page.contains("prefers-color-scheme: dark"));
}

#[test]
fn runs_with_few_figures_are_drawn_too() {
    parse(&page(&[]));
    let nothing = run("nothing", PolicyKind::Optimal, 0.0, None, vec![record("n", 0.0, 0.0, &[])]);
    let page = page(std::slice::from_ref(&nothing));
    parse(&page);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    assert!(text(&[nothing]).contains('-'));
}

#[test]
fn the_figure_stands_alone() {
    let figure = figure8(&runs());
    let document = Document::parse(&figure).unwrap();
    let words: Vec<&str> =
        document.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect();
    for expected in ["(a) equal", "(b) history & \"more\"", "ideal 33.0 s", "50.0 s"] {
        assert!(words.contains(&expected), "{expected}: {words:?}");
    }
    assert!(Document::parse(&figure8(&[])).is_ok());
}

#[test]
fn a_deliberate_change_gives_the_ideal_two_speeds() {
    let step = |from, to, items| Span { from, to, items };
    let mut slowed = record("n1", 1.0, 30.0, &[(0.0, 30.0, 60)]);
    slowed.steps = vec![step(0.0, 10.0, 40), step(10.0, 30.0, 20)];
    let mut same = record("n2", 1.0, 10.0, &[(0.0, 10.0, 40)]);
    same.steps = vec![step(0.0, 10.0, 40)];
    let mut run = run("changed", PolicyKind::Static, 30.0, None, vec![slowed, same]);
    run.changed(10.0, "n1", "on purpose");
    // 80 in ten seconds, and then five a second.
    assert_eq!(run.ideal, Some(14.0));
    assert!(text(&[run.clone()]).contains("at 10.0 s n1 changed: on purpose"));
    run.changed(60.0, "n1", "too late to matter");
    assert_eq!(run.ideal, Some(100.0 / (2.0 + 4.0)));
}
