//! Commands that start services and agents: their greeting, and what they refuse to begin with.

use std::io::Read;

use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};

use crate::session::{NODE, Session};

/// The standard output of a process, once it ends so.
#[track_caller]
fn greeting(process: &Estimand, end: &str) -> String {
    wait::until_ok(PATIENCE, "the whole greeting", || {
        let text = format!("{}\n{}", process.greeting(), process.stdout_tail());
        if text.trim_end().ends_with(end) { Ok(text) } else { Err(text) }
    })
}

#[test]
fn up_says_where_it_listens_and_what_it_runs() {
    let session = Session::with_node();
    let said = greeting(&session.service, "watch");
    let (address, data) = (session.base_url(), session.folder().canonicalize().unwrap());
    let programs = session.programs().display();
    let expected = format!(
        "listening on {address}\n\
         the dashboard is at {address}/\n\
         storing in sqlite://{}/estimand.db\n\
         values need no token on this machine, nor of those who reach a proxy on it (--require-token)\n\
         running as node {NODE}\n\
         runs what lies in {programs}\n\
         \n\
         Try, in another terminal:\n",
        data.display()
    );
    assert!(said.starts_with(&expected), "{said}");
    let closed = process::estimand().args(["up", "--node", NODE]).start();
    let nothing =
        "runs nothing that is registered, because nothing is allowed: --allow DIR allows a folder\n";
    assert!(greeting(&closed, "watch").contains(nothing), "{}", closed.stdout_tail());
    let without = process::estimand().args(["up", "--no-agent"]).start();
    assert!(!greeting(&without, "watch").contains("runs "), "{}", without.stdout_tail());
}

#[test]
fn an_agent_says_who_it_is_and_whom_it_asks() {
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let folder = tempfile::tempdir().unwrap();
    let allowed = folder.path().display().to_string();
    let agent = |more: &[&str]| -> Estimand {
        let args = ["agent", "--server", &nobody, "--node", "node-2"];
        process::estimand().args([&args, more].concat()).without_http().start()
    };
    // Nobody need be there: it waits.
    let one = agent(&["--allow", &allowed]);
    let expected = format!("running as node node-2 for {nobody}\nruns what lies in {allowed}\n");
    assert_eq!(greeting(&one, &allowed), expected);
    let all = agent(&["--allow-all", "--server", "http://127.0.0.1:9"]);
    let expected =
        format!("running as node node-2 for {nobody}, http://127.0.0.1:9\nruns whatever is registered\n");
    assert_eq!(greeting(&all, "registered"), expected);
    let named = process::estimand().args(["agent"]).env("ESTIMAND_NODE", "node-3").without_http();
    let named = named.env("ESTIMAND_SERVER", &nobody).start();
    assert_eq!(named.greeting(), format!("running as node node-3 for {nobody}"));
}

/// Ends by itself, with this code and these words on standard error and nothing before them.
#[track_caller]
fn refuses(session: &Session, args: &[&str], code: i32, says: &str) {
    let mut command = session.spawn(args);
    let ended = command.wait(PATIENCE);
    let stderr = command.stderr();
    assert_eq!(ended.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.starts_with(&format!("error: {says}")), "{args:?}: {stderr}");
    let mut stdout = String::new();
    command.stdout().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "", "{args:?} said that it has started");
}

#[test]
fn an_agent_does_not_start_where_it_cannot_work() {
    let session = Session::with_node();
    let own = tempfile::tempdir().unwrap();
    let fresh = own.path().join("agent").display().to_string();
    let taken = session.folder().join("agent").canonicalize().unwrap().display().to_string();
    let says = format!("the data folder {taken} is used by another agent, process ");
    refuses(&session, &["agent", "--node", "node-1", "--data-dir", &taken], 1, &says);
    let says = "--allow: cannot allow /does/not/exist: No such file or directory";
    refuses(
        &session,
        &["agent", "--node", "node-2", "--data-dir", &fresh, "--allow", "/does/not/exist"],
        1,
        says,
    );
    let up = own.path().join("up").display().to_string();
    let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", &up, "--allow", "/does/not/exist"];
    let mut process = session.spawn(&up);
    assert_eq!(process.wait(PATIENCE).code(), Some(1));
    let stderr = process.stderr();
    assert!(stderr.contains("error: --allow: cannot allow /does/not/exist: No such file"), "{stderr}");
    // A folder that is a file.
    let file = own.path().join("file");
    std::fs::write(&file, "").unwrap();
    let says = format!("cannot make {}", file.display());
    refuses(&session, &["agent", "--data-dir", &file.display().to_string()], 1, &says);
}

#[test]
fn wrong_usage_is_said_before_anything_starts() {
    let session = Session::start();
    for (args, says) in [
        (&["agent", "--allow", "/", "--allow-all"][..], "the argument '--allow <DIR>' cannot be used with"),
        (&["agent", "--json"], "unexpected argument '--json'"),
        (&["--json", "agent"], "--server and --json belong to the commands that speak to a service"),
        (&["agent", "--node", "a b"], "invalid value 'a b' for '--node <NAME>': `a b` is not a node name"),
        (&["agent", "--label", "zone"], "invalid value 'zone' for '--label <KEY=VALUE>'"),
        (&["agent", "--label", "a=1", "--label", "a=2"], "the label `a` is given twice: `1` and `2`"),
        (&["agent", "--server", "nonsense"], "invalid value 'nonsense' for '--server <URL>'"),
        (&["agent", "--max-runs", "0"], "invalid value '0' for '--max-runs <N>'"),
        (&["agent", "--listen", "127.0.0.1:0"], "unexpected argument '--listen'"),
        (&["up", "--no-agent", "--allow", "/"], "the argument '--no-agent' cannot be used with"),
        (&["manager"], "the following required arguments were not provided"),
        (&["run"], "the following required arguments were not provided"),
        (&["run", "a", "b"], "unexpected argument 'b'"),
        (&["logs", "1a"], "invalid value '1a' for '<NAME>': `1a` is not a data name"),
        (&["instances", "a", "--node", ""], "invalid value '' for '--node <NODE>'"),
        (&["nodes", "drain", "node-1"], "unexpected argument 'node-1'"),
    ] {
        refuses(&session, args, 2, says);
    }
}

/// Nobody may be asked what runs while nobody leads; the list of what is registered is of use all the same.
#[test]
fn a_registry_alone_has_no_instances() {
    let alone = process::estimand().args(["registry"]).start();
    let run = |args: &[&str]| {
        let output = process::command(process::binary())
            .args(["--server", alone.base_url()])
            .args(args)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    run(&["register", "cpu", "--every", "5m", "--", "./cpu"]);
    let (code, stdout, stderr) = run(&["list"]);
    assert_eq!((code, stderr.as_str()), (Some(0), "no manager answers there, so how it runs is not shown\n"));
    assert!(stdout.starts_with("NAME  KIND ") && stdout.contains("./cpu"), "{stdout}");
    for args in [&["nodes"][..], &["instances"], &["logs", "cpu"], &["run", "cpu"]] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.as_str()), (Some(3), ""), "{args:?}: {stderr}");
    }
    let (code, _, hint) = run(&["unregister", "cpu"]);
    assert_eq!((code, hint.as_str()), (Some(0), ""), "without a manager nothing ran");
}
