//! The files of tasks: inputs lie there when a task starts, outputs are kept when it has ended; for its user, on its node,
//! and nobody else; also while agents and services are killed, and whatever a task leaves in its folder.

mod interruptions;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::symlink;

use estimand_testkit::docker::{self, IMAGE};
use estimand_testkit::http::Http;
use estimand_testkit::wait::{self, PATIENCE};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::plane::Plane;

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes))
}

fn put(http: &Http, path: &str, bytes: &[u8]) {
    http.request("PUT", &format!("/api/files/content?path={path}"), &[], bytes).expect_status(200);
}

fn content(http: &Http, path: &str) -> Vec<u8> {
    http.get(&format!("/api/files/content?path={path}")).expect_status(200).body
}

fn script(text: &str) -> Value {
    json!(["/bin/sh", "-c", text])
}

/// The paths of what was kept, and what was not with the reason.
fn outputs(task: &Value) -> (Vec<&str>, Vec<String>) {
    let all = |field: &str| task["outputs"][field].as_array().cloned().unwrap_or_default();
    let kept = task["outputs"]["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kept = kept.iter().map(|file| file["path"].as_str().unwrap()).collect();
    let left_out = all("leftOut");
    let text =
        |left: &Value| format!("{}: {}", left["path"].as_str().unwrap(), left["reason"].as_str().unwrap());
    (kept, left_out.iter().map(text).collect())
}

impl Plane {
    /// A token for these services.
    fn token(&self, fields: &Value) -> String {
        let issued = self.http.send_json("POST", "/api/tokens", fields).expect_status(201).json();
        issued["token"].as_str().unwrap().to_owned()
    }

    fn as_user(&self, name: &str) -> Http {
        let token = self.token(&json!({ "name": name, "role": "user" }));
        Http::new(self.services.base_url()).showing(Some(&token))
    }
}

#[test]
fn inputs_are_there_and_outputs_are_kept() {
    let plane = Plane::start(&["n1"]);
    put(&plane.http, "data/train.csv", b"1,2,3\n");
    put(&plane.http, "data/empty", b"");
    let large: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    put(&plane.http, "data/large", &large);
    let run = "cd $ESTIMAND_TASK_FOLDER && cat data/train.csv && sha256sum x && test ! -s data/empty || exit 9; \
               echo model > model.bin; mkdir -p logs/deep; echo a > logs/a; echo b > logs/deep/b; echo no > other; cp x copy";
    let id = plane.submit(&json!({
        "command": script(run),
        "inputs": ["data/train.csv", "data/empty", { "file": "data/large", "as": "x" }],
        "outputs": ["model.bin", "logs/*", "copy", "missing"],
    }));
    let task = plane.over(&id);
    assert_eq!(task["state"], "SUCCEEDED", "{task} {:?}", plane.log(&id));
    assert_eq!(plane.log(&id), ["1,2,3".to_owned(), format!("{}  x", sha256(&large))]);
    let (kept, left_out) = outputs(&task);
    assert_eq!(kept, ["copy", "logs/a", "logs/deep/b", "model.bin"]);
    assert_eq!(left_out, ["missing: there is no such file"]);
    let model = task["outputs"]["files"][3].clone();
    let file = format!("tasks/{id}/model.bin");
    assert_eq!(model, json!({ "path": "model.bin", "file": file, "size": 6, "sha256": sha256(b"model\n") }));
    assert_eq!(content(&plane.http, &file), b"model\n");
    assert!(content(&plane.http, &format!("tasks/{id}/copy")) == large);
    plane.http.get(&format!("/api/files/content?path=tasks/{id}/other")).expect_status(404);
    // It was being prepared before it ran.
    let states: Vec<&str> =
        task["transitions"].as_array().unwrap().iter().map(|one| one["to"].as_str().unwrap()).collect();
    assert!(states.contains(&"PREPARING"), "{states:?}");
    let shown = plane.cli(&["tasks", "outputs", &id]).output().unwrap();
    let (table, notes) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(
        table.contains(&file) && notes.contains("`missing` is not kept: there is no such file"),
        "{shown:?}"
    );
}

#[test]
fn the_command_line_names_inputs_and_outputs() {
    let plane = Plane::start(&["n1"]);
    put(&plane.http, "in", b"hello\n");
    let args = ["run-task", "--id", "copy", "--input", "in:here/in", "--output", "out", "--"];
    let args = [&args[..], &["/bin/sh", "-c", "cat here/in; cp here/in out; exit 4"]].concat();
    let ran = plane.cli(&args).output().unwrap();
    assert_eq!(
        (ran.status.code(), String::from_utf8_lossy(&ran.stdout).as_ref()),
        (Some(4), "hello\n"),
        "{ran:?}"
    );
    // A failed task has outputs, too.
    assert_eq!(content(&plane.http, "tasks/copy/out"), b"hello\n");
}

#[test]
fn a_missing_input_ends_a_task_before_it_begins() {
    let plane = Plane::start(&["n1"]);
    put(&plane.http, "there", b"x");
    let ran = plane.folder.path().join("ran");
    let command = script(&format!("touch {}", ran.display()));
    let id = plane.submit(&json!({
        "command": command, "inputs": ["there", "data/none"], "outputs": ["x"], "retries": 3,
    }));
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("FAILED"), &json!(1)), "{task}");
    assert_eq!(task["ending"], json!({ "inputMissing": "data/none" }));
    assert_eq!(task.get("outputs"), None);
    // A folder is no file.
    put(&plane.http, "folder/file", b"x");
    let id = plane.submit(&json!({ "command": command, "inputs": ["folder"] }));
    let reason = plane.over(&id)["ending"]["notStarted"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("`folder`")), "{reason}");
    assert!(!ran.exists());
    // Wrong ones are not even taken.
    let wrong = json!({ "command": command, "inputs": ["/etc/shadow"], "outputs": ["../x"] });
    let problem = plane.http.send_json("POST", "/api/tasks", &wrong).expect_problem(400);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
}

#[test]
fn uploads_that_crawl_keep_no_task_from_ending() {
    let plane = Plane::start(&["n1"]);
    let alice = plane.token(&json!({ "name": "alice", "role": "user" }));
    let authority = plane.http.authority().to_owned();
    // More than anybody's share, and than there were places of all.
    let begin = |number: usize| {
        let mut wire = TcpStream::connect(&authority).unwrap();
        let head = format!(
            "PUT /api/files/content?path=slow{number} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {alice}\r\n\
             Content-Length: 1000000\r\n\r\nx"
        );
        wire.write_all(head.as_bytes()).unwrap();
        wire
    };
    let _crawling: Vec<TcpStream> = (0..80).map(begin).collect();
    let document = json!({ "command": script("echo o > out"), "outputs": ["out"], "user": "alice" });
    let id = plane.submit(&document);
    let task = plane.over(&id);
    assert_eq!(outputs(&task), (vec!["out"], Vec::new()), "{task}");
    let hers = Http::new(plane.services.base_url()).showing(Some(&alice));
    assert_eq!(content(&hers, &format!("tasks/{id}/out")), b"o\n");
}

#[test]
fn files_are_those_of_the_tasks_user() {
    let plane = Plane::start(&["n1"]);
    let (alice, bob) = (plane.as_user("alice"), plane.as_user("bob"));
    put(&alice, "in", b"of alice");
    put(&bob, "in", b"of bob");
    let submit = |http: &Http, inputs: Value| {
        let document = json!({ "command": script("cat in > out"), "inputs": inputs, "outputs": ["out"] });
        let task = http.send_json("POST", "/api/tasks", &document).expect_status(201).json();
        task["id"].as_str().unwrap().to_owned()
    };
    let id = submit(&alice, json!(["in"]));
    assert_eq!(plane.over(&id)["state"], "SUCCEEDED");
    let path = format!("tasks/{id}/out");
    assert_eq!(content(&alice, &path), b"of alice");
    bob.get(&format!("/api/files/content?path={path}")).expect_status(404);
    assert_eq!(content(&plane.http, &format!("users/alice/{path}")), b"of alice");
    // Nobody gets at others' files by way of a task.
    let stolen = submit(&bob, json!([{ "file": "users/alice/in", "as": "in" }]));
    assert_eq!(plane.over(&stolen)["ending"], json!({ "inputMissing": "users/alice/in" }));
}

/// The token of a node is good for what runs there, and for that alone.
#[test]
fn a_folder_that_another_user_shares_has_inputs() {
    let plane = Plane::start(&["n1"]);
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| plane.as_user(name));
    put(&alice, "data/x", b"alice's");
    put(&alice, "other", b"secret");
    let shared = json!({ "folder": "data", "with": ["bob"] });
    alice.send_json("PUT", "/api/files/shares", &shared).expect_status(200);
    let submit = |http: &Http, input: &Value| {
        let asked = json!({ "command": script("cat $ESTIMAND_TASK_FOLDER/*/x"), "inputs": [input] });
        http.send_json("POST", "/api/tasks", &asked).expect_status(201).json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for input in [json!("/users/alice/data/x"), json!({ "file": "/users/alice/data/x", "as": "in/x" })] {
        let id = submit(&bob, &input);
        let task = plane.over(&id);
        assert_eq!(
            (&task["state"], plane.log(&id)),
            (&json!("SUCCEEDED"), vec!["alice's".to_owned()]),
            "{task}"
        );
        assert_eq!(task["document"]["inputs"], json!([input]));
    }
    put(&carol, "users/alice/data/x", b"carol's own");
    for (http, input) in [(&carol, "/users/alice/data/x"), (&bob, "/users/alice/other")] {
        let task = plane.over(&submit(http, &json!(input)));
        assert_eq!(task["ending"], json!({ "inputMissing": &input[1..] }), "{task}");
    }
}

#[test]
fn a_node_gets_the_files_of_its_tasks_while_they_are_there() {
    let plane = Plane::start(&["n1"]);
    put(&plane.http, "mine", b"of this task");
    put(&plane.http, "other", b"of nobody");
    let id = plane.submit(&json!({
        "command": ["/bin/sleep", "1000"], "inputs": ["mine"], "outputs": ["out"], "onLoss": "wait",
    }));
    wait::until_ok(PATIENCE, "it to run", || match plane.task(&id) {
        task if task["state"] == "RUNNING" => Ok(()),
        task => Err(task),
    });
    let node = |name: &str| {
        let token = plane.token(&json!({ "name": format!("agent-{name}"), "role": "node", "node": name }));
        Http::new(plane.services.base_url()).showing(Some(&token))
    };
    let (own, other) = (node("n1"), node("n2"));
    let ask = |http: &Http, attempt: u32| {
        http.send_json("POST", &format!("/api/tasks/{id}/files"), &json!({ "attempt": attempt }))
    };
    ask(&other, 1).expect_problem(403);
    ask(&own, 2).expect_problem(409);
    own.send_json("POST", "/api/tasks/none/files", &json!({ "attempt": 1 })).expect_problem(404);
    let granted = ask(&own, 1).expect_status(200).json();
    assert_eq!(granted["folder"], format!("tasks/{id}"));
    let (read, write) = (granted["inputs"][0].as_str().unwrap(), granted["outputs"].as_str().unwrap());
    let with = |http: &Http, method: &str, what: &str, grant: &str| {
        http.request(method, &format!("/api/files/granted/{what}"), &[("Estimand-File-Grant", grant)], b"x")
    };
    assert_eq!(with(&own, "GET", "content?path=mine", read).expect_status(200).body, b"of this task");
    for (http, method, what, grant) in [
        (&other, "GET", "content?path=mine", read),
        (&own, "GET", "content?path=other", read),
        (&own, "GET", "entry?path=other", read),
        (&own, "PUT", "content?path=mine", read),
        (&own, "GET", "content?path=mine", write),
        (&own, "PUT", "content?path=mine", write),
        (&own, "PUT", "content?path=tasks/another/out", write),
        (&other, "PUT", &*format!("content?path=tasks/{id}/out"), write),
        (&own, "GET", "content?path=mine", "00.00"),
    ] {
        with(http, method, what, grant).expect_problem(403);
    }
    with(&own, "GET", "upload?path=tasks/none/x&size=1", write).expect_problem(403);
    own.get("/api/files/granted/content?path=mine").expect_problem(400);
    with(&own, "PUT", &format!("content?path=tasks/{id}/out"), write).expect_status(200);
    // Without a grant it is nobody's token, and it makes none.
    own.get("/api/files/content?path=mine").expect_problem(403);
    own.send_json("POST", "/api/files/grants", &json!({ "node": "n1", "read": ["other"] }))
        .expect_problem(403);
    // When the task is over it asks in vain.
    plane.http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200);
    plane.over(&id);
    ask(&own, 1).expect_problem(409);
}

/// A task may leave anything in its folder.
#[test]
fn nothing_is_read_that_the_task_does_not_have() {
    let plane = Plane::with(&["n1"], &["--task-files", "1"]);
    let (secret, outside) = (plane.folder.path().join("secret"), plane.folder.path().join("outside"));
    fs::write(&secret, "of the operator").unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&secret, outside.join("link")).unwrap();
    let run = format!(
        "ln -s {0} link; ln -s {1} folder; ln -s /etc/shadow shadow; mkfifo pipe; mkdir -p deep/er; ln -s / deep/er/root; \
         echo fine > fine; dd if=/dev/zero of=large bs=1024 count=1100 2>/dev/null; truncate -s 1000G holes",
        secret.display(),
        outside.display()
    );
    let id = plane.submit(&json!({ "command": script(&run), "outputs": ["*", "folder/link", "link/x"] }));
    let task = plane.over(&id);
    assert_eq!(task["state"], "SUCCEEDED", "{task}");
    let (kept, left_out) = outputs(&task);
    assert_eq!(kept, ["fine"]);
    let told = left_out.join("\n");
    for part in [
        "link: it is a link",
        "folder: it is a link",
        "shadow: it is a link",
        "pipe: it is no plain file",
        "deep/er/root: it is a link",
        "large: it has 1126400 bytes",
        "holes: it has 1073741824000 bytes",
        "folder/link: there is no such file",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.contains("--task-files"), "{told}");
    let many = script("i=0; while [ $i -lt 1200 ]; do : > f$i; i=$((i+1)); done");
    let id = plane.submit(&json!({ "command": many, "outputs": ["f*"] }));
    let task = plane.over(&id);
    assert_eq!(task["outputs"]["files"].as_array().unwrap().len(), 1_000);
    assert_eq!(task["outputs"]["leftOut"].as_array().unwrap().len(), 100);
    assert_eq!(task["outputs"]["moreLeftOut"], 100);
    // Inputs have the same bound.
    put(&plane.http, "large", &vec![0; (1 << 20) + 1]);
    let id = plane.submit(&json!({ "command": "/bin/true", "inputs": ["large"] }));
    let reason = plane.over(&id)["ending"]["notStarted"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("--task-files")), "{reason}");
}

#[test]
fn a_task_that_waits_for_its_inputs_is_cancelled_at_once() {
    let plane = Plane::start(&["n1"]);
    let place = plane.services.data_dir().join("files");
    fs::File::create(place.join("huge")).unwrap().set_len(8 << 30).unwrap();
    let id = plane.submit(&json!({ "command": "/bin/true", "inputs": ["huge"], "outputs": ["x"] }));
    wait::until_ok(PATIENCE, "it to be prepared", || match plane.task(&id) {
        task if task["state"] == "PREPARING" => Ok(()),
        task => Err(task),
    });
    plane.http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200);
    let task = plane.over(&id);
    assert_eq!(task["state"], "CANCELLED", "{task}");
    wait::until(PATIENCE, "its folder to go", || {
        let folders = fs::read_dir(plane.folder.path().join("n1/tasks")).unwrap().flatten();
        folders.filter(|one| one.path().is_dir()).count().eq(&0).then_some(())
    });
}

#[test]
fn a_container_has_its_files_where_it_runs() {
    let plane = Plane::with(&["n1"], &["--docker", docker::shared().socket().to_str().unwrap()]);
    put(&plane.http, "data/in", b"hello\n");
    let run = "pwd; cat data/in; mkdir out; cp data/in out/copy; ln -s /etc/passwd out/link; echo $ESTIMAND_TASK_FOLDER";
    let id = plane.submit(&json!({
        "image": IMAGE, "command": ["sh", "-c", run], "inputs": ["data/in"], "outputs": ["out"],
    }));
    let task = plane.over(&id);
    assert_eq!(task["state"], "SUCCEEDED", "{task} {:?}", plane.log(&id));
    assert_eq!(plane.log(&id), ["/task", "hello", "/task"]);
    assert_eq!(outputs(&task).0, ["out/copy"]);
    assert_eq!(content(&plane.http, &format!("tasks/{id}/out/copy")), b"hello\n");
}
