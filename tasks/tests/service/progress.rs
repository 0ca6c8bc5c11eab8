//! Progress: lines of standard output that say how far a task is, in one order over all tasks, through restarts.

use serde_json::{Value, json};

use crate::support::{Running, World, node, refused, simple, sqlite, texts, with};

on_each_engine!(
    a_task_says_how_far_it_is_also_after_a_crash,
    progress_is_read_in_one_order_by_label,
    lines_that_come_twice_count_once,
    bad_progress_is_told_once_and_stays_a_line,
    a_flood_keeps_its_last_report,
    progress_that_comes_later_is_waited_for,
    the_reports_of_a_deleted_task_are_gone,
);

fn world() -> World {
    World::start(&[node("n1", 4, &json!({}))])
}

fn placed(running: &Running, document: &Value) -> String {
    let id = running.submit(document);
    running.wait_for(&id, "PLACED");
    id
}

fn says(running: &Running, id: &str, first: u64, said: &[&str]) {
    let lines: Vec<String> = said.iter().map(|json| format!("estimand-progress {json}")).collect();
    let lines: Vec<(&str, &str)> = lines.iter().map(|line| ("STDOUT", line.as_str())).collect();
    running.writes(id, 1, first, &lines);
}

fn page(running: &Running, query: &str) -> Value {
    running.get(&format!("/api/tasks/progress?{query}")).expect_status(200).json()
}

/// The reports of a page, each as its task, its revision and its step.
fn told(page: &Value) -> Vec<String> {
    let told = |report: &Value| {
        format!("{} {} {}", report["id"].as_str().unwrap(), report["revision"], report["step"])
    };
    page["reports"].as_array().unwrap().iter().map(told).collect()
}

fn a_task_says_how_far_it_is_also_after_a_crash() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    let id = placed(&running, &simple());
    assert_eq!(running.task(&id).get("progress"), None);
    says(&running, &id, 0, &["{\"step\":1}", "{\"step\":2,\"of\":9,\"values\":{\"accuracy\":0.5}}"]);
    running.writes(&id, 1, 2, &[("STDERR", "estimand-progress {\"step\":8}"), ("STDOUT", "done")]);
    let progress = running.task(&id)["progress"].clone();
    assert_eq!((&progress["step"], &progress["of"]), (&json!(2), &json!(9)));
    assert_eq!((&progress["values"], &progress["attempt"]), (&json!({ "accuracy": 0.5 }), &json!(1)));
    assert!(progress["at"].is_string(), "{progress}");
    assert_eq!(running.get("/api/tasks").expect_status(200).json()["tasks"][0]["progress"], progress);
    assert_eq!(texts(&running.log(&id, "")).len(), 4, "progress is lines of the log");
    let before = page(&running, "");
    running.crash();
    world.elect();

    let running = Running::start(&store, &world);
    assert_eq!(running.task(&id)["progress"], progress);
    assert_eq!(page(&running, ""), before);
    says(&running, &id, 4, &["{\"step\":3}"]);
    running.ends(&id, 1, &json!({ "exit": 0 }));
    // A line after the end is late.
    says(&running, &id, 5, &["{\"step\":4}"]);
    assert_eq!(running.task(&id)["progress"]["step"], 3);
    assert_eq!(told(&page(&running, "after=1")), [format!("{id} 2 2"), format!("{id} 3 3")]);
    running.stop();
}

fn progress_is_read_in_one_order_by_label() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    for (id, study) in [("a", "x"), ("b", "x"), ("c", "y")] {
        placed(&running, &with(&json!({ "id": id, "user": id, "labels": { "study": study } })));
    }
    for (place, id) in ["a", "c", "b", "a"].into_iter().enumerate() {
        says(&running, id, place as u64, &[&format!("{{\"step\":{place}}}")]);
    }
    let all = page(&running, "limit=3");
    assert_eq!(told(&all), ["a 1 0", "c 2 1", "b 3 2"]);
    assert_eq!((&all["next"], &all["revision"]), (&json!(3), &json!(4)));
    assert_eq!(told(&page(&running, "after=3")), ["a 4 3"]);
    let of_study = page(&running, "labels=study%3Dx&limit=2");
    assert_eq!(
        (told(&of_study), &of_study["next"]),
        (vec!["a 1 0".to_owned(), "b 3 2".to_owned()], &json!(3))
    );
    assert_eq!(told(&page(&running, "user=c")), ["c 2 1"]);
    assert_eq!(told(&page(&running, "id=b")), ["b 3 2"]);
    assert_eq!(told(&page(&running, "id=a*&after=1")), ["a 4 3"]);
    assert_eq!(told(&page(&running, "id=none")), [""; 0]);
    assert!(refused(running.get("/api/tasks/progress?after=5"), 410).contains("newest is 4"));
    for (query, field) in [("state=RUNNING", "state"), ("after=x", "after"), ("labels=%3D", "labels")] {
        let answer = running.get(&format!("/api/tasks/progress?{query}")).expect_status(400).json();
        assert_eq!(answer["errors"][0]["field"], field);
    }
    let reserved = running.post("/api/tasks", &with(&json!({ "id": "progress" }))).expect_status(400).json();
    assert_eq!(reserved["errors"][0]["field"], "id");
    running.stop();
}

fn lines_that_come_twice_count_once() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    let id = placed(&running, &simple());
    says(&running, &id, 0, &["{\"step\":1}", "{\"step\":2}"]);
    says(&running, &id, 1, &["{\"step\":2}", "{\"step\":3}"]);
    says(&running, &id, 0, &["{\"step\":1}"]);
    assert_eq!(told(&page(&running, "")), [1, 2, 3].map(|step| format!("{id} {step} {step}")));
    assert_eq!(running.task(&id)["progress"]["step"], 3);
    running.stop();
}

fn bad_progress_is_told_once_and_stays_a_line() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    let id = placed(&running, &simple());
    says(&running, &id, 0, &["{\"step\":1}", "{\"step\":", "{\"steps\":1}"]);
    let task = running.task(&id);
    let problem = task["progressProblem"].as_str().unwrap();
    assert!(
        problem.starts_with("line 1 is no JSON: ") && problem.ends_with("; it is no progress"),
        "{problem}"
    );
    assert_eq!(task["progress"]["step"], 1);
    assert_eq!(texts(&running.log(&id, "")).len(), 3);
    assert_eq!(told(&page(&running, "")), [format!("{id} 1 1")]);
    running.stop();
}

fn a_flood_keeps_its_last_report() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    let id = placed(&running, &simple());
    let all: Vec<String> = (0..20_000).map(|step| format!("{{\"step\":{step}}}")).collect();
    for (place, some) in all.chunks(2_000).enumerate() {
        let said: Vec<&str> = some.iter().map(String::as_str).collect();
        says(&running, &id, place as u64 * 2_000, &said);
    }
    let (mut count, mut missing, mut last, mut after) = (0, 0, Value::Null, json!(0));
    loop {
        let page = page(&running, &format!("limit=1000&after={after}"));
        for report in page["reports"].as_array().unwrap() {
            count += 1;
            missing += report["missing"].as_u64().unwrap_or(0);
            last = report["step"].clone();
        }
        after = page["next"].clone();
        if after == page["revision"] {
            break;
        }
    }
    assert_eq!((last, &running.task(&id)["progress"]["step"]), (json!(19_999), &json!(19_999)));
    assert_eq!(count + missing, 20_000, "it says how many are missing");
    assert!((320..=640).contains(&count), "{count}");
    running.stop();
}

fn progress_that_comes_later_is_waited_for() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    let (one, other) = (placed(&running, &simple()), placed(&running, &simple()));
    std::thread::scope(|scope| {
        let all = scope.spawn(|| page(&running, "waitMs=60000"));
        let of_one = scope.spawn(|| page(&running, &format!("waitMs=60000&id={one}")));
        says(&running, &other, 0, &["{\"step\":1}"]);
        assert_eq!(told(&all.join().unwrap()), [format!("{other} 1 1")]);
        says(&running, &one, 0, &["{\"step\":2}"]);
        assert_eq!(told(&of_one.join().unwrap()), [format!("{one} 2 2")]);
    });
    running.stop();
}

fn the_reports_of_a_deleted_task_are_gone() {
    let world = world();
    let (_folder, store) = sqlite();
    let running = Running::start(&store, &world);
    let (kept, deleted) = (placed(&running, &simple()), placed(&running, &simple()));
    says(&running, &kept, 0, &["{\"step\":1}"]);
    says(&running, &deleted, 0, &["{\"step\":2}", "{\"step\":3}"]);
    running.ends(&deleted, 1, &json!({ "exit": 0 }));
    running.serving.http.request("DELETE", &format!("/api/tasks/{deleted}"), &[], b"").expect_status(204);
    let left = page(&running, "");
    assert_eq!((told(&left), &left["next"]), (vec![format!("{kept} 1 1")], &json!(3)));
    running.crash();
    world.elect();
    // Revisions are not given again, though the newest report is gone.
    let running = Running::start(&store, &world);
    let left = page(&running, "");
    assert_eq!(
        (told(&left), &left["next"], &left["revision"]),
        (vec![format!("{kept} 1 1")], &json!(3), &json!(3))
    );
    let over = page(&running, "after=1");
    assert_eq!((told(&over), &over["next"]), (vec![], &json!(3)));
    says(&running, &kept, 1, &["{\"step\":4}"]);
    assert_eq!(told(&page(&running, "after=3")), [format!("{kept} 4 4")]);
    running.stop();
}
