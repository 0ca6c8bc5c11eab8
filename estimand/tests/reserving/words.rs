//! Refusals of wrong requests say what would be right; and the command line.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::lines::Connection;
use crate::plane::Plane;

#[test]
fn what_is_refused_says_what_would_do() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "0.5");
    let refused = |more: serde_json::Value, status: u16, kind: &str, part: &str| {
        let mut asked = json!({ "resources": { "cpu": cpu }, "duration": 60, "value": 1000, "user": "ada" });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let problem = plane.reserve(&asked).expect_problem(status);
        assert_eq!(problem["type"], kind, "{more}: {problem}");
        assert!(problem.to_string().contains(part), "{more}: {problem}");
    };
    let (infeasible, invalid) = ("infeasible", "invalid-input");
    refused(json!({ "value": 0 }), 409, "price-above-value", "at least ");
    refused(json!({ "duration": 1800 }), 409, "too-few-credits", "`ada` has 0.5 credits");
    refused(json!({ "by": "30s" }), 409, infeasible, "the earliest deadline that would do is ");
    refused(json!({ "width": 2 }), 409, infeasible, "all nodes of the class together have ");
    refused(json!({ "resources": { "fpga": 1 } }), 400, invalid, "`fpga`, which no node has");
    refused(json!({ "class": "fast" }), 400, invalid, "no node of class `fast`");
    refused(json!({ "duration": "2h" }), 400, invalid, "is longer than prices reach");
    refused(json!({ "by": "3h" }), 400, invalid, "is later than prices reach");
    refused(json!({ "from": "2020-01-01T00:00:00Z" }), 400, invalid, "is over");
    refused(json!({ "from": "2h", "by": "1h" }), 400, invalid, "the window is empty");
    refused(json!({ "duration": 0 }), 400, invalid, "it must be at least a second");
    refused(json!({ "value": "NaN" }), 400, invalid, "is not an amount of credits");
    refused(json!({ "value": -3 }), 400, invalid, "is negative");
    refused(json!({ "value": 1e300 }), 400, invalid, "is not an amount of credits");
    refused(json!({ "width": 1_u64 << 63 }), 400, invalid, "width");
    let grant = |amount: serde_json::Value| {
        plane.http.send_json("POST", "/api/credits/grants", &json!({ "user": "ada", "amount": amount }))
    };
    grant(json!(0)).expect_problem(400);
    grant(json!("-1")).expect_problem(400);
    grant(json!("9223372036854.775807")).expect_problem(409);
    plane.http.get("/api/reservations/r99").expect_problem(404);
    plane.http.get("/api/reservations?state=LATE").expect_problem(400);
    plane.http.get("/api/reservations/prices?duration=1h").expect_problem(400);
    plane.check_money();
}

/// The request is as right as ever, so nothing is said of its fields.
#[test]
fn a_request_while_no_node_is_heard_of_is_told_to_ask_again() {
    let plane = Plane::start();
    plane.processors();
    plane.agent.pause();
    let asked = json!({ "resources": { "cpu": 0.01 }, "duration": 1, "value": 9, "dryRun": true });
    let problem = wait::until_ok(PATIENCE, "the node not to be heard of", || {
        let answer = plane.reserve(&asked);
        if answer.status == 200 { Err(answer) } else { Ok(answer) }
    });
    let detail = problem.expect_problem(503)["detail"].clone();
    assert_eq!(detail, "no node takes promises now");
}

/// A wrong task is said when it is reserved, not when its time has come: nothing is promised, and no credits move.
#[test]
fn a_wrong_task_is_refused_before_money_moves() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "100");
    let asked = json!({ "resources": { "cpu": 0.1 }, "duration": 60, "from": "10m", "value": 50, "user": "ada",
        "task": { "commnd": "x", "retries": "often", "environment": ["A"], "count": 2 } });
    let quoted = json!({ "dryRun": true });
    let mut dry = asked.clone();
    dry.as_object_mut().unwrap().extend(quoted.as_object().unwrap().clone());
    let in_list = json!({ "resources": { "cpu": 0.1 }, "duration": 60, "task": asked["task"] });
    let list = json!({ "allOrNone": [in_list], "value": 50, "user": "ada" });
    let check = |problem: &serde_json::Value, place: &str| {
        let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("{problem}"));
        let fields: Vec<&str> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
        let expected = ["count", "environment", "retries", "command", "commnd"];
        assert_eq!(fields, expected.map(|field| format!("{place}task.{field}")), "{problem}");
        assert_eq!(errors[4]["expected"], "`command`?", "{problem}");
    };
    check(&plane.reserve(&asked).expect_problem(400), "");
    check(&plane.reserve(&dry).expect_problem(400), "");
    check(
        &plane.http.send_json("POST", "/api/reservations/lists", &list).expect_problem(400),
        "allOrNone[0].",
    );

    let mut connection = Connection::of_operator(&plane);
    for (line, place) in [
        (json!({ "reserve": asked, "key": "k" }), ""),
        (json!({ "quote": asked }), ""),
        (json!({ "reserveList": list, "key": "l" }), "allOrNone[0]."),
    ] {
        connection.say(&line);
        let answer = connection.hear();
        assert_eq!(answer["status"], 400, "{answer}");
        check(&answer["body"], place);
    }

    let wanted = ["reserve", "--cpu", "0.1", "--for", "1m", "--value", "5", "--user", "ada", "--", "echo 'x"];
    let ran = plane.cli(&wanted).output().unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(5) && error.contains("task.command: "), "{:?}: {error}", ran.status);

    let promises = plane.http.get("/api/capacity/promises").expect_status(200).json();
    assert_eq!(promises["promises"], json!([]), "{promises}");
    let reservations = plane.http.get("/api/reservations").expect_status(200).json();
    assert_eq!(reservations["reservations"], json!([]), "{reservations}");
    let journal = plane.http.get("/api/credits/journal").expect_status(200).json();
    assert_eq!(journal["entries"].as_array().unwrap().len(), 1, "only the grant: {journal}");
    plane.check_money();
}

/// The reservation service submits tasks as nobody, so a user's priority is compared with their highest when they reserve.
#[test]
fn a_users_task_has_at_most_their_highest_priority() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "100");
    let token = plane.token(&json!({ "name": "ada", "role": "user" }));
    let ada = plane.client(&token);
    let one = |priority: i32| {
        json!({ "resources": { "cpu": 0.1 }, "duration": 60, "from": "10m",
            "task": { "command": "/bin/true", "priority": priority } })
    };
    let asked = |priority: i32| {
        let mut asked = one(priority);
        asked["value"] = json!(50);
        asked
    };
    let list = |priority: i32| json!({ "allOrNone": [one(0), one(priority)], "value": 50 });
    let dry = |mut asked: serde_json::Value| {
        asked["dryRun"] = json!(true);
        asked
    };
    let check = |problem: &serde_json::Value, place: &str| {
        let error = &problem["errors"][0];
        assert_eq!(error["field"], format!("{place}task.priority"), "{problem}");
        let expected = error["expected"].as_str().unwrap();
        assert!(
            expected.contains("at most 0") && expected.contains("users set ada --priority 1"),
            "{problem}"
        );
    };
    for (path, body, place) in [
        ("", asked(1), ""),
        ("", dry(asked(1)), ""),
        ("/lists", list(1), "allOrNone[1]."),
        ("/lists", dry(list(1)), "allOrNone[1]."),
    ] {
        check(&ada.send_json("POST", &format!("/api/reservations{path}"), &body).expect_problem(400), place);
    }
    let mut connection = Connection::showing(&plane, &token);
    for (line, place) in [
        (json!({ "reserve": asked(1), "key": "k" }), ""),
        (json!({ "quote": asked(1) }), ""),
        (json!({ "reserveList": list(1), "key": "l" }), "allOrNone[1]."),
    ] {
        connection.say(&line);
        let answer = connection.hear();
        assert_eq!(answer["status"], 400, "{answer}");
        check(&answer["body"], place);
    }
    let reservations = plane.http.get("/api/reservations").expect_status(200).json();
    assert_eq!(reservations["reservations"], json!([]), "{reservations}");
    let journal = plane.http.get("/api/credits/journal").expect_status(200).json();
    assert_eq!(journal["entries"].as_array().unwrap().len(), 1, "only the grant: {journal}");

    // Priorities that she may have are reserved, and an operator who reserves for her gives any.
    ada.send_json("POST", "/api/reservations", &asked(0)).expect_status(201);
    ada.send_json("POST", "/api/reservations", &asked(-5)).expect_status(201);
    let mut for_her = asked(9);
    for_her["user"] = json!("ada");
    plane.reserve(&for_her).expect_status(201);
    plane.http.send_json("PATCH", "/api/users/ada", &json!({ "priority": 1 })).expect_status(200);
    wait::until_ok(PATIENCE, "the limit to travel", || {
        let answer = ada.send_json("POST", "/api/reservations", &dry(asked(1)));
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    });
    plane.check_money();
}

#[test]
fn people_reserve_by_the_command_line() {
    let plane = Plane::start();
    plane.processors();
    let run = |args: &[&str]| {
        let ran = plane.cli(args).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, out, _) = run(&["credits", "grant", "ada", "100"]);
    assert_eq!((code, out.as_str()), (Some(0), "`ada` has 100 credits\n"));
    let wanted = ["--cpu", "0.5", "--for", "1m", "--from", "10m", "--by", "20m"];
    let with = |words: &[&'static str], more: &[&'static str]| [words, &wanted, more].concat();
    let (code, picture, error) = run(&with(&["price"], &[]));
    assert!(code == Some(0) && picture.contains("cheapest start: "), "{picture} {error}");
    let (_, table, _) = run(&with(&["price"], &["--table"]));
    assert!(table.lines().count() > 500, "a line a start: {table}");
    let (code, quote, _) = run(&with(&["reserve"], &["--dry-run"]));
    assert!(code == Some(0) && quote.starts_with("it would cost "), "{quote}");
    let (code, made, error) = run(&with(&["reserve"], &["--value", "5", "--user", "ada", "--", "/bin/true"]));
    assert!(code == Some(0) && made.starts_with("reserved `r1` for "), "{made} {error}");
    let (_, list, _) = run(&["reservations"]);
    assert!(list.contains("r1") && list.contains("PROMISED"), "{list}");
    let (_, shown, _) = run(&["reservations", "show", "r1"]);
    assert!(shown.contains("promised") && shown.contains("60 seconds"), "{shown}");
    assert_eq!(run(&["reservations", "bid", "r1", "7"]).0, Some(0));
    let (_, cancelled, _) = run(&["reservations", "cancel", "r1"]);
    assert!(cancelled.contains("`r1` is cancelled; "), "{cancelled}");
    let (_, journal, _) = run(&["credits", "journal", "--user", "ada"]);
    for word in ["grant", "hold r1", "refund r1"] {
        assert!(journal.contains(word), "{journal}");
    }
    let (code, _, error) = run(&with(&["reserve"], &["--value", "0", "--user", "ada"]));
    assert!(code == Some(4) && error.contains("expected at least "), "{code:?} {error}");
    let (_, balances, _) = run(&["credits"]);
    assert!(balances.contains("ada"), "{balances}");
}
