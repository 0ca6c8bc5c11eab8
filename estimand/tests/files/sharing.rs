//! Folders that users give others to read: by those who are named and nobody else, and to read only.

use std::fs;
use std::os::unix::fs::symlink;

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use serde_json::{Value, json};

use super::run;

struct Users {
    service: Estimand,
    http: Http,
    alice: (String, Http),
    bob: (String, Http),
    carol: (String, Http),
}

fn start() -> Users {
    let service =
        process::estimand().args(["up", "--no-agent", "--defaults", "none"]).port(free_port()).start();
    let http = service.http();
    let user = |name: &str| {
        let asked = json!({ "name": name, "role": "user" });
        let made = http.send_json("POST", "/api/tokens", &asked).expect_status(201).json();
        let token = made["token"].as_str().unwrap().to_owned();
        let http = Http::new(service.base_url()).showing(Some(&token));
        (token, http)
    };
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(user);
    Users { service, http, alice, bob, carol }
}

fn put(http: &Http, path: &str, text: &str) -> u16 {
    http.request("PUT", &format!("/api/files/content?path={path}"), &[], text.as_bytes()).status
}

fn content(http: &Http, path: &str) -> (u16, String) {
    let answer = http.get(&format!("/api/files/content?path={path}"));
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

fn share(http: &Http, body: &Value) -> estimand_testkit::http::Response {
    http.send_json("PUT", "/api/files/shares", body)
}

const TRAIN: &str = "/users/alice/data/mnist/train.csv";

#[test]
fn a_folder_that_is_shared_is_read_by_those_who_are_named() {
    let mut users = start();
    let (alice, bob, carol) = (&users.alice.1, &users.bob.1, &users.carol.1);
    assert_eq!(put(alice, "data/mnist/train.csv", "1,2,3"), 200);
    assert_eq!(put(alice, "data/secret", "s"), 200);
    // A folder of bob's own by nearly the same name is another one.
    assert_eq!(put(bob, "users/alice/data/mnist/train.csv", "own"), 200);
    assert_eq!(content(bob, TRAIN).0, 404);
    let missing = json!({ "folder": "data/none", "with": ["bob"] });
    share(alice, &missing).expect_problem(404);
    let shared = share(alice, &json!({ "folder": "data/mnist/", "with": ["bob"] })).expect_status(200).json();
    let expected = json!({ "folder": "data/mnist", "path": "/users/alice/data/mnist", "owner": "alice", "with": ["bob"] });
    assert_eq!(shared, expected);

    assert_eq!(content(bob, TRAIN), (200, "1,2,3".to_owned()));
    assert_eq!(content(bob, "users/alice/data/mnist/train.csv"), (200, "own".to_owned()));
    let entry = bob.get(&format!("/api/files/entry?path={TRAIN}")).expect_status(200).json();
    assert_eq!(entry["path"], TRAIN);
    // A file that comes there later is shared, too, and listed page by page.
    assert_eq!(put(alice, "data/mnist/z/test.csv", "4"), 200);
    let page = |query: &str| {
        let folder = "/api/files?folder=/users/alice/data/mnist&recursive=true&limit=2";
        bob.get(&format!("{folder}{query}")).expect_status(200).json()
    };
    let first = page("");
    let paths = |page: &Value| -> Vec<String> {
        let files = page["files"].as_array().unwrap();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&first), [TRAIN, "/users/alice/data/mnist/z"]);
    let rest = page(&format!("&after={}", first["next"].as_str().unwrap()));
    assert_eq!(paths(&rest), ["/users/alice/data/mnist/z/test.csv"]);

    // Others find the words of a file that never was, and so does bob outside of the folder.
    let words = |http: &Http, path: &str| {
        let problem = http.get(&format!("/api/files/content?path={path}")).expect_problem(404);
        problem["detail"].as_str().unwrap().replace(path, "PATH")
    };
    let never_was = words(bob, "/users/alice/data/mnist/none");
    assert_eq!(words(carol, TRAIN), never_was);
    assert_eq!(words(bob, "/users/alice/data/secret"), never_was);
    assert_eq!(words(bob, "/users/alice/data/mnist2"), never_was);
    assert_eq!(words(bob, "/users/nobody/data"), never_was);
    for path in ["/users/alice/data/mnist/../secret", "/users/alice", "/etc/passwd"] {
        assert_eq!(content(bob, path).0, 400, "{path}");
    }
    for folder in ["/users/alice/data", "/users/alice/data/mnist/none"] {
        bob.get(&format!("/api/files?folder={folder}")).expect_problem(404);
    }
    carol.get("/api/files?folder=/users/alice/data/mnist").expect_problem(404);

    // Nobody writes there, whether it is shared with them or not.
    for http in [bob, carol] {
        assert_eq!(put(http, TRAIN, "forged"), 403);
        assert_eq!(http.request("DELETE", &format!("/api/files?path={TRAIN}"), &[], b"").status, 403);
        let upload = format!("/api/files/upload?path={TRAIN}&size=3");
        assert_eq!(http.get(&upload).status, 403);
        share(http, &json!({ "folder": TRAIN, "with": ["carol"] })).expect_problem(400);
    }
    share(carol, &json!({ "folder": "data/mnist", "all": true })).expect_problem(404);
    assert_eq!(carol.request("DELETE", "/api/files/shares?folder=data/mnist", &[], b"").status, 404);

    // A link in it leads nowhere.
    let place = users.service.data_dir().join("files/users/alice");
    symlink(place.join("data/secret"), place.join("data/mnist/link")).unwrap();
    symlink(place.join("data"), place.join("data/mnist/up")).unwrap();
    for path in ["link", "up/secret"] {
        assert_eq!(content(bob, &format!("/users/alice/data/mnist/{path}")).0, 404, "{path}");
    }

    let shares = |http: &Http| http.get("/api/files/shares").expect_status(200).json();
    assert_eq!(shares(alice), json!({ "own": [expected], "others": [] }));
    let others = json!([{ "path": "/users/alice/data/mnist", "owner": "alice" }]);
    assert_eq!(shares(bob), json!({ "own": [], "others": others }));
    assert_eq!(shares(carol), json!({ "own": [], "others": [] }));

    // It is shared after a kill, and until it is not any more.
    users.service.kill9();
    users.service.restart_on_same_port();
    let (alice, bob, carol) = (&users.alice.1, &users.bob.1, &users.carol.1);
    assert_eq!((content(bob, TRAIN).0, content(carol, TRAIN).0), (200, 404));
    share(alice, &json!({ "folder": "data/mnist", "all": true })).expect_status(200);
    assert_eq!(content(carol, TRAIN).0, 200);
    // An operator names the same as they do, and shares what is a user's.
    assert_eq!(content(&users.http, TRAIN), content(&users.http, TRAIN.strip_prefix('/').unwrap()));
    share(&users.http, &json!({ "folder": "data", "all": true })).expect_problem(400);
    let by_operator = json!({ "folder": "users/alice/data/mnist", "with": ["carol"] });
    share(&users.http, &by_operator).expect_status(200);
    assert_eq!((content(bob, TRAIN).0, content(carol, TRAIN).0), (404, 200));
    alice.request("DELETE", "/api/files/shares?folder=data/mnist", &[], b"").expect_status(204);
    assert_eq!(content(carol, TRAIN).0, 404);
    // Without a token nobody sees anything.
    let nobody = Http::new(users.service.base_url()).showing(None);
    assert!([401, 403].contains(&nobody.get("/api/files/shares").status));
}

#[test]
fn the_command_line_shares_and_reads() {
    let users = start();
    assert_eq!(put(&users.alice.1, "data/mnist/train.csv", "1,2,3"), 200);
    let cli = |token: &str, args: &[&str]| {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", users.service.base_url()).env("ESTIMAND_TOKEN", token);
        let output = run(command);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let said = cli(&users.alice.0, &["files", "share", "data/mnist", "--with", "bob,carol"]);
    assert_eq!(said.1, "`data/mnist` can be read by bob, carol, as `/users/alice/data/mnist`\n", "{said:?}");
    let said = cli(&users.bob.0, &["files", "shares"]);
    assert!(said.1.contains("/users/alice/data/mnist  alice  you"), "{said:?}");
    let said = cli(&users.bob.0, &["files", "list", "/users/alice/data/mnist"]);
    assert!(said.1.contains(TRAIN), "{said:?}");
    assert_eq!(cli(&users.bob.0, &["files", "get", TRAIN, "-"]).1, "1,2,3");
    let said = cli(&users.bob.0, &["files", "put", "/etc/hostname", "/users/alice/data/mnist/"]);
    assert!(said.0 != Some(0) && said.2.contains("is not the path of a file"), "{said:?}");
    let said = cli(&users.alice.0, &["files", "unshare", "data/mnist", "--json"]);
    assert_eq!(said.0, Some(0), "{said:?}");
    let said = cli(&users.bob.0, &["files", "get", TRAIN, "-"]);
    assert!(said.0 != Some(0) && said.2.contains(&format!("there is no file `{TRAIN}`")), "{said:?}");
    assert!(!fs::exists(users.service.data_dir().join("files/users/bob")).unwrap());
}
