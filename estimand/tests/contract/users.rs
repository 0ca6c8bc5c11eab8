//! Users: each sees and touches tasks and files of their own, and operators those of all. A request for what is another
//! user's is answered as if that were not there.

use std::collections::BTreeSet;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::access::token_with;
use crate::answers::{problem, wrong_field};
use crate::progress;
use crate::target::Target;

on_every_target!(each_request_gives_users_what_is_theirs, a_token_is_for_one_user);

type Check = fn(&Users<'_>);

/// Every request about tasks and files that a user may make.
const REQUESTS: [(&str, &str, Check); 27] = [
    ("post", "/api/tasks", a_new_task_is_its_submitters),
    ("get", "/api/tasks", a_list_of_tasks_has_their_own),
    ("get", "/api/tasks/{id}", |users| users.of_one_task("GET", "", 200, false)),
    ("get", "/api/tasks/{id}/logs", |users| {
        for query in ["", "?format=raw", "?tail=3"] {
            users.of_one_task("GET", &format!("/logs{query}"), 200, false);
        }
    }),
    ("post", "/api/tasks/{id}/cancel", |users| users.of_one_task("POST", "/cancel", 200, false)),
    ("post", "/api/tasks/{id}/yield", |users| users.of_one_task("POST", "/yield", 200, false)),
    ("delete", "/api/tasks/{id}", |users| users.of_one_task("DELETE", "", 204, true)),
    // That it leads to the task is tried in `tasks/ports`.
    ("get", "/api/tasks/{id}/tunnel", |users| users.of_one_task("GET", "/tunnel", 400, false)),
    ("get", "/api/tasks/{id}/web/{rest}", |users| users.of_one_task("GET", "/web/a", 409, false)),
    ("post", "/api/tasks/{id}/web/{rest}", |users| users.of_one_task("POST", "/web/", 409, false)),
    ("put", "/api/tasks/{id}/web/{rest}", |users| users.of_one_task("PUT", "/web/a/b", 409, false)),
    ("patch", "/api/tasks/{id}/web/{rest}", |users| users.of_one_task("PATCH", "/web/a", 409, false)),
    ("delete", "/api/tasks/{id}/web/{rest}", |users| users.of_one_task("DELETE", "/web/a", 409, false)),
    ("get", "/api/tasks/events", events_are_those_of_their_tasks),
    ("get", "/api/tasks/progress", |users| progress::of_users(users.target, &users.alice, &users.bob)),
    ("get", "/api/tasks/watch", a_watch_shows_their_tasks),
    ("get", "/api/usage", |users| crate::usage::a_user_sees_their_own(users.target)),
    ("get", "/api/files", a_list_of_files_has_their_own),
    ("put", "/api/files/content", equal_paths_are_different_files),
    ("get", "/api/files/content", |users| users.of_one_file("GET", "/content", 200)),
    ("get", "/api/files/entry", |users| users.of_one_file("GET", "/entry", 200)),
    ("delete", "/api/files", |users| users.of_one_file("DELETE", "", 204)),
    ("get", "/api/files/upload", an_upload_is_its_senders),
    ("put", "/api/files/shares", a_folder_is_its_owners_to_share),
    ("get", "/api/files/shares", shared_folders_are_seen_by_those_who_are_named),
    ("delete", "/api/files/shares", a_folder_is_its_owners_to_share),
    // Its messages are tried in `files/web_socket`.
    ("get", "/api/files/socket", |users| {
        wrong_field(&users.alice.files.get("/api/files/socket"), "Upgrade");
    }),
];

/// Those that are no users' requests.
const OF_AGENTS: [(&str, &str); 10] = [
    ("post", "/api/tasks/news"),
    // They are tried in `tasks/files`.
    ("post", "/api/tasks/{id}/files"),
    ("get", "/api/tasks/tunnels"),
    ("get", "/api/tasks/tunnels/{number}"),
    ("post", "/api/tasks/tunnels/{number}"),
    ("post", "/api/files/grants"),
    ("get", "/api/files/granted/content"),
    ("put", "/api/files/granted/content"),
    ("get", "/api/files/granted/entry"),
    ("get", "/api/files/granted/upload"),
];

fn each_request_gives_users_what_is_theirs(target: &Target) {
    let mut described = BTreeSet::new();
    for http in [&target.tasks, &target.files] {
        let document = http.get("/openapi.json").expect_status(200).json();
        for (path, operations) in document["paths"].as_object().unwrap() {
            let methods = operations.as_object().unwrap().keys();
            let is_ours =
                ["/api/tasks", "/api/files", "/api/usage"].iter().any(|begin| path.starts_with(begin));
            described.extend(methods.filter(|_| is_ours).map(|method| (method.clone(), path.clone())));
        }
    }
    let checked = REQUESTS.map(|(method, path, _)| (method, path)).into_iter().chain(OF_AGENTS);
    let checked: BTreeSet<_> = checked.map(|(method, path)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(described, checked, "each request needs a check");
    let users = Users::of(target);
    REQUESTS.iter().for_each(|(_, _, check)| check(&users));
}

fn a_token_is_for_one_user(target: &Target) {
    let (name, user) = (target.name("laptop"), target.name("user"));
    let make = |body: &Value| target.registry.send_json("POST", "/api/tokens", body);
    let named = make(&json!({ "name": name, "role": "user" })).expect_status(201).json();
    assert_eq!((&named["user"], &named["role"]), (&json!(name), &json!("user")), "{named}");
    let body = json!({ "name": target.name("laptop"), "role": "user", "user": user });
    assert_eq!(make(&body).expect_status(201).json()["user"], user.as_str());
    wrong_field(&make(&json!({ "name": target.name("x"), "role": "read", "user": user })), "user");
    wrong_field(&make(&json!({ "name": target.name("x"), "role": "user", "user": "../x" })), "user");
    // Values stay readable, and are not written.
    let one = Caller::of(target, &user);
    let data = Http::new(&format!("http://{}", target.data_address)).showing(one.token.as_deref());
    data.get("/api/data?dataName=*").expect_status(200);
    let tokens = Http::new(&format!("http://{}", target.registry_address)).showing(one.token.as_deref());
    problem(&tokens.get("/api/tokens"), 403);
}

/// Somebody with a token.
pub struct Caller {
    pub name: String,
    token: Option<String>,
    pub tasks: Http,
    files: Http,
    pub reservations: Http,
    pub tuning: Http,
}

impl Caller {
    pub fn of(target: &Target, user: &str) -> Caller {
        let token = Some(token_with(target, &json!({ "role": "user", "user": user })));
        let to = |http: &Http| Http::new(&format!("http://{}", http.authority())).showing(token.as_deref());
        let (tasks, files, reservations) = (to(&target.tasks), to(&target.files), to(&target.reservations));
        let tuning = to(&target.tuning);
        Caller { name: user.to_owned(), token, tasks, files, reservations, tuning }
    }

    /// A task that no node takes.
    fn submit(&self, fields: &Value) -> String {
        submit(&self.tasks, fields).expect_status(201).json()["id"].as_str().unwrap().to_owned()
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        put(&self.files, path, bytes).expect_status(200);
    }
}

fn submit(http: &Http, fields: &Value) -> Response {
    let mut document = fields.clone();
    document["command"] = json!("/bin/true");
    document["nodes"] = json!("nowhere=1");
    http.send_json("POST", "/api/tasks", &document)
}

fn put(http: &Http, path: &str, bytes: &[u8]) -> Response {
    http.request("PUT", &format!("/api/files/content?path={path}"), &[], bytes)
}

/// Two users of a target, whose own client is an operator's.
struct Users<'t> {
    target: &'t Target,
    alice: Caller,
    bob: Caller,
}

impl<'t> Users<'t> {
    fn of(target: &'t Target) -> Self {
        let [alice, bob] = ["alice", "bob"].map(|name| Caller::of(target, &target.name(name)));
        Users { target, alice, bob }
    }

    /// A request about a task: its user and operators have it answered, and to others the task is not there.
    fn of_one_task(&self, method: &str, suffix: &str, status: u16, over: bool) {
        let Users { target, alice, bob } = self;
        let ask = |http: &Http, id: &str| http.request(method, &format!("/api/tasks/{id}{suffix}"), &[], b"");
        let state = |id: &str| {
            let task = target.tasks.get(&format!("/api/tasks/{id}")).expect_status(200).json();
            (task["state"].clone(), task["transitions"].clone())
        };
        let nobodys = submit(&target.tasks, &json!({})).expect_status(201).json()["id"].clone();
        let nobodys = nobodys.as_str().unwrap().to_owned();
        let ids = [alice.submit(&json!({})), alice.submit(&json!({})), nobodys];
        if over {
            for id in &ids {
                let cancel = format!("/api/tasks/{id}/cancel");
                target.tasks.request("POST", &cancel, &[], b"").expect_status(200);
            }
        }
        let array = alice.submit(&json!({ "count": 2 }));
        for id in ids.iter().chain([&array, &format!("{array}.1")]) {
            let before = (*id != array).then(|| state(id));
            as_if_not_there(&ask(&bob.tasks, id), id, |missing| ask(&bob.tasks, missing));
            assert_eq!((*id != array).then(|| state(id)), before, "{method} {suffix} changes nothing");
        }
        problem(&ask(&alice.tasks, &ids[2]), 404);
        ask(&alice.tasks, &ids[0]).expect_status(status);
        ask(&target.tasks, &ids[1]).expect_status(status);
        ask(&target.tasks, &ids[2]).expect_status(status);
    }

    /// The same for a file.
    fn of_one_file(&self, method: &str, suffix: &str, status: u16) {
        let Users { target, alice, bob } = self;
        let ask = |http: &Http, path: &str| {
            http.request(method, &format!("/api/files{suffix}?path={path}"), &[], b"")
        };
        for asked_by_alice in [true, false] {
            let path = target.name("folder") + "/file";
            alice.put(&path, b"hers");
            let place = format!("users/{}/{path}", alice.name);
            for named in [&path, &place] {
                as_if_not_there(&ask(&bob.files, named), named, |missing| ask(&bob.files, missing));
            }
            // To her, too, all paths begin in her own folder.
            problem(&ask(&alice.files, &place), 404);
            problem(&ask(&target.files, &path), 404);
            assert_eq!(fs_content(&target.files, &place), b"hers");
            match asked_by_alice {
                true => ask(&alice.files, &path).expect_status(status),
                false => ask(&target.files, &place).expect_status(status),
            };
        }
    }
}

fn fs_content(http: &Http, path: &str) -> Vec<u8> {
    http.get(&format!("/api/files/content?path={path}")).expect_status(200).body
}

/// Checks that an answer about something is the one about what never was.
pub fn as_if_not_there(answer: &Response, name: &str, ask: impl Fn(&str) -> Response) {
    let missing = "never-was";
    let (given, expected) = (problem(answer, 404), problem(&ask(missing), 404));
    let detail = given["detail"].as_str().unwrap().replace(name, missing);
    assert_eq!((detail.as_str(), &given["type"]), (expected["detail"].as_str().unwrap(), &expected["type"]));
}

fn share(http: &Http, folder: &str, with: &str) -> Response {
    http.send_json("PUT", "/api/files/shares", &json!({ "folder": folder, "with": [with] }))
}

fn a_folder_is_its_owners_to_share(Users { target, alice, bob }: &Users<'_>) {
    let folder = target.name("shared");
    alice.put(&format!("{folder}/file"), b"hers");
    let place = format!("users/{}/{folder}", alice.name);
    for named in [&folder, &place] {
        as_if_not_there(&share(&bob.files, named, &bob.name), named, |missing| {
            share(&bob.files, missing, &bob.name)
        });
    }
    share(&alice.files, &folder, &bob.name).expect_status(200);
    let unshare = |http: &Http, folder: &str| {
        http.request("DELETE", &format!("/api/files/shares?folder={folder}"), &[], b"")
    };
    for named in [&folder, &place] {
        as_if_not_there(&unshare(&bob.files, named), named, |missing| unshare(&bob.files, missing));
    }
    unshare(&alice.files, &folder).expect_status(204);
    // An operator may do so for her.
    share(&target.files, &place, &bob.name).expect_status(200);
    unshare(&target.files, &place).expect_status(204);
}

fn shared_folders_are_seen_by_those_who_are_named(Users { target, alice, bob }: &Users<'_>) {
    let folder = target.name("given");
    alice.put(&format!("{folder}/file"), b"hers");
    share(&alice.files, &folder, &target.name("carol")).expect_status(200);
    let seen = |http: &Http, part: &str| {
        let all = http.get("/api/files/shares").expect_status(200).json();
        all[part].to_string().contains(&folder)
    };
    assert!(seen(&alice.files, "own") && !seen(&bob.files, "own") && !seen(&bob.files, "others"));
    share(&alice.files, &folder, &bob.name).expect_status(200);
    assert!(seen(&bob.files, "others") && !seen(&bob.files, "own"));
}

fn a_new_task_is_its_submitters(Users { target, alice, bob }: &Users<'_>) {
    let made = submit(&alice.tasks, &json!({})).expect_status(201).json();
    assert_eq!(made["document"]["user"], alice.name.as_str(), "{made}");
    alice.submit(&json!({ "user": alice.name }));
    let forged = submit(&alice.tasks, &json!({ "user": bob.name }));
    assert_eq!(problem(&forged, 403)["errors"][0]["field"], "user", "{forged}");
    // An operator may do so.
    let given = submit(&target.tasks, &json!({ "user": bob.name })).expect_status(201).json();
    let path = format!("/api/tasks/{}", given["id"].as_str().unwrap());
    bob.tasks.get(&path).expect_status(200);
    problem(&alice.tasks.get(&path), 404);

    // Nothing comes after what is not there.
    let (theirs, never) = (bob.submit(&json!({})), target.name("never"));
    let follow = |id: &str| problem(&submit(&alice.tasks, &json!({ "after": [id] })), 409)["detail"].clone();
    let detail = follow(&theirs).as_str().unwrap().replace(&theirs, &never);
    assert_eq!(follow(&never), detail.as_str());
    bob.submit(&json!({ "after": [theirs] }));
    problem(&submit(&alice.tasks, &json!({ "id": theirs })), 409);

    // The keys of two users have nothing to do with each other.
    let key = target.name("key");
    let send = |http: &Http, key: &str| {
        let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
        let body = json!({ "command": "/bin/true", "nodes": "nowhere=1" }).to_string();
        http.request("POST", "/api/tasks", &headers, body.as_bytes())
    };
    let ids = [&alice.tasks, &bob.tasks, &target.tasks].map(|http| {
        let id = send(http, &key).expect_status(201).json()["id"].clone();
        assert_eq!(send(http, &key).expect_status(200).json()["id"], id);
        id.to_string()
    });
    assert_eq!(BTreeSet::from(ids).len(), 3);
    send(&alice.tasks, &(target.name("k") + &"x".repeat(170))).expect_status(201);
    wrong_field(&send(&alice.tasks, &"x".repeat(200)), "Idempotency-Key");
}

fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

fn a_list_of_tasks_has_their_own(Users { target, alice, bob }: &Users<'_>) {
    let mark = target.name("mark");
    let labels = json!({ "labels": { "of": mark } });
    let (first, between, last) = (alice.submit(&labels), bob.submit(&labels), alice.submit(&labels));
    let list = |http: &Http, query: &str| {
        http.get(&format!("/api/tasks?labels=of%3D{mark}{query}")).expect_status(200).json()
    };
    assert_eq!(ids(&list(&alice.tasks, "")), [last.as_str(), &first]);
    assert_eq!(ids(&list(&bob.tasks, "")), [between.as_str()]);
    assert_eq!(ids(&list(&target.tasks, "")), [last.as_str(), &between, &first]);
    assert!(ids(&list(&bob.tasks, &format!("&user={}", alice.name))).is_empty());
    assert_eq!(ids(&list(&target.tasks, &format!("&user={}", bob.name))), [between.as_str()]);
    // No page ends with the name of another's task.
    let page = list(&alice.tasks, "&limit=1");
    assert_eq!((ids(&page), &page["next"]), (vec![last.as_str()], &json!(last)));
    let page = alice.tasks.get(&format!("/api/tasks?labels=of%3D{mark}&before={last}&limit=1"));
    assert_eq!(ids(&page.expect_status(200).json()), [first.as_str()]);
    let array = alice.submit(&json!({ "count": 2 }));
    for (parameter, id) in [("array", &array), ("before", &first)] {
        let ask = |id: &str| bob.tasks.get(&format!("/api/tasks?{parameter}={id}"));
        as_if_not_there(&ask(id), id, ask);
    }
}

fn events_are_those_of_their_tasks(Users { target, alice, bob }: &Users<'_>) {
    let list = target.tasks.get("/api/tasks?limit=1").expect_status(200);
    let begin = list.header("estimand-revision").unwrap().to_owned();
    let (hers, theirs) = (alice.submit(&json!({})), bob.submit(&json!({})));
    let seen = |http: &Http| -> BTreeSet<String> {
        let page = http.get(&format!("/api/tasks/events?after={begin}&limit=1000")).expect_status(200).json();
        let events = page["events"].as_array().unwrap();
        events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(seen(&alice.tasks), BTreeSet::from([hers.clone()]));
    assert_eq!(seen(&bob.tasks), BTreeSet::from([theirs.clone()]));
    assert!(seen(&target.tasks).is_superset(&BTreeSet::from([hers.clone(), theirs])));
    let page = bob.tasks.get(&format!("/api/tasks/events?after={begin}&id={hers}&user={}", alice.name));
    assert_eq!(page.expect_status(200).json()["events"], json!([]));
}

fn a_watch_shows_their_tasks(Users { target, alice, bob }: &Users<'_>) {
    let list = target.tasks.get("/api/tasks?limit=1").expect_status(200);
    let begin = list.header("estimand-revision").unwrap().to_owned();
    let hers = alice.submit(&json!({}));
    let theirs = bob.submit(&json!({}));
    for (caller, own) in [(alice, hers), (bob, theirs)] {
        let mut watch = caller.tasks.sse("/api/tasks/watch", &[("Last-Event-ID", &begin)]);
        let event = watch.next_news(PATIENCE);
        assert_eq!((event.event.as_str(), &event.json()["id"]), ("change", &json!(own)));
    }
}

fn equal_paths_are_different_files(Users { target, alice, bob }: &Users<'_>) {
    let path = target.name("same");
    alice.put(&path, b"hers");
    bob.put(&path, b"his");
    put(&target.files, &path, b"the operator's").expect_status(200);
    assert_eq!(fs_content(&alice.files, &path), b"hers");
    assert_eq!(fs_content(&bob.files, &path), b"his");
    assert_eq!(fs_content(&target.files, &path), b"the operator's");
    assert_eq!(fs_content(&target.files, &format!("users/{}/{path}", bob.name)), b"his");
    let entry = alice.files.get(&format!("/api/files/entry?path={path}")).expect_status(200).json();
    assert_eq!(entry["path"], path.as_str());
}

fn a_list_of_files_has_their_own(Users { target, alice, bob: _ }: &Users<'_>) {
    let paths = |http: &Http, query: &str| -> Vec<String> {
        let page = http.get(&format!("/api/files{query}")).expect_status(200).json();
        let files = page["files"].as_array().unwrap();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    let folder = target.name("listed");
    alice.put(&format!("{folder}/one"), b"1");
    let in_it = format!("?folder={folder}");
    assert_eq!(paths(&alice.files, &in_it), [format!("{folder}/one")]);
    assert_eq!(paths(&alice.files, &format!("?contains={folder}/ONE")), [format!("{folder}/one")]);
    // The name of the user is in no path.
    assert!(paths(&alice.files, &format!("?contains={}", alice.name)).is_empty());
    // One who has sent nothing has nothing.
    let carol = Caller::of(target, &target.name("carol"));
    assert!(paths(&carol.files, "?recursive=true").is_empty());
    let ask = |folder: &str| carol.files.get(&format!("/api/files?folder={folder}"));
    as_if_not_there(&ask(&folder), &folder, ask);
    problem(&ask("users"), 404);
    let of_operators = format!("?folder=users/{}/{folder}", alice.name);
    assert_eq!(paths(&target.files, &of_operators), [format!("users/{}/{folder}/one", alice.name)]);
}

fn an_upload_is_its_senders(Users { target, alice, bob }: &Users<'_>) {
    let path = target.name("piece");
    let piece = format!("/api/files/content?path={path}&size=6&offset=0");
    alice.files.request("PUT", &piece, &[], b"abc").expect_status(202);
    let received = |http: &Http| {
        let progress = http.get(&format!("/api/files/upload?path={path}&size=6")).expect_status(200).json();
        progress["received"].as_u64().unwrap()
    };
    assert_eq!([&alice.files, &bob.files, &target.files].map(received), [3, 0, 0]);
}
