//! A second process where one is already: it is refused by the name of the first, which notices nothing.

use std::fs;
use std::path::Path;

use estimand_testkit::databases;
use estimand_testkit::process::{self, Builder, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};

use crate::{put, refused};

fn up() -> Builder {
    process::estimand().args(["up", "--no-agent"])
}

fn named(said: &str, first: &Estimand) {
    let expected = format!("process {} at {}", first.pid(), first.base_url());
    assert!(said.contains(&expected), "{expected} is not named: {said}");
}

fn goes_on(first: &mut Estimand, value: u32) {
    put(&first.http(), "goes_on", value).expect_status(if value == 1 { 201 } else { 200 });
    assert!(first.exited().is_none(), "{}", first.stderr_tail());
}

#[test]
fn a_second_up_in_the_same_folder_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut first = up().data_dir(&data).start();
    goes_on(&mut first, 1);
    named(&refused(up().data_dir(&data)), &first);
    goes_on(&mut first, 2);
    // The port is found taken before anything else is looked at.
    let port = first.base_url().rsplit(':').next().unwrap().parse().unwrap();
    let said = refused(up().data_dir(&data).port(port));
    assert!(said.contains("in use by another process") && said.contains("--listen"), "{said}");
    goes_on(&mut first, 3);
    // Another folder, and the same file under another name.
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(data.join("estimand.db"), &link).unwrap();
    for file in [data.join("estimand.db"), link] {
        for part in ["up", "data", "registry"] {
            let store = format!("sqlite://{}", file.display());
            named(&refused(process::estimand().args([part]).store(store)), &first);
            goes_on(&mut first, 4);
        }
    }
    // A process that is killed holds nothing.
    first.kill9();
    let mut second = up().data_dir(&data).start();
    assert_eq!(second.http().get("/api/data/goes_on/n").expect_status(200).json()["dataValue"], 4);
    second.terminate();
    up().data_dir(&data).start();
}

#[test]
fn wrong_options_touch_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (args, says) in [
        (["--run-as", "nobody-of-that-name"], "nobody-of-that-name"),
        (["--allow", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--keep-capability", "cap_of_no_kind"], "cap_of_no_kind"),
        (["--tls", "/nowhere/at/all"], "/nowhere/at/all"),
    ] {
        let said = refused(process::estimand().args(["up"]).args(args).data_dir(&data));
        assert!(said.contains(says), "{said}");
        assert!(!data.exists(), "{args:?} made {}", data.display());
    }
}

fn second_over_a_database(store: &str) {
    let service = |args: &[&str]| process::estimand().args(args).store(store);
    let mut first = service(&["up", "--no-agent"]).start();
    goes_on(&mut first, 1);
    for part in ["data", "registry", "up"] {
        let said = refused(service(&[part]));
        named(&said, &first);
        assert!(said.contains("--take-over"), "{said}");
        goes_on(&mut first, 2);
    }
    // Told so, one takes over; the first one says who ended it.
    let mut second = service(&["up", "--no-agent", "--take-over"]).start();
    let ended = wait::until(PATIENCE, "the first one to end", || first.exited());
    assert!(ended.code().is_some_and(|code| code != 0), "it ended with {ended}");
    assert!(first.stderr_tail().contains("has taken over this store"), "{}", first.stderr_tail());
    goes_on(&mut second, 3);
    // Neither a killed one nor one that ended is waited for.
    second.restart_on_same_port();
    goes_on(&mut second, 4);
    second.terminate();
    goes_on(&mut service(&["up", "--no-agent"]).start(), 5);
}

#[test]
fn a_second_service_over_one_database_is_refused_unless_told_on_postgres() {
    second_over_a_database(&databases::postgres().fresh_url());
}

#[test]
fn a_second_service_over_one_database_is_refused_unless_told_on_mariadb() {
    second_over_a_database(&databases::mariadb().fresh_url());
}

#[test]
fn another_folder_over_one_database_does_not_end_the_first_ones_token() {
    let store = databases::postgres().fresh_url();
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        up().store(&store).data_dir(folder.path().join(name)).without_token().port(free_port()).start()
    };
    let token = |name: &str| {
        let file = folder.path().join(name).join("token");
        fs::read_to_string(&file).unwrap().trim().to_owned()
    };
    let tokens = |service: &Estimand, name: &str| {
        let http = service.http().showing(Some(&token(name)));
        http.get("/api/tokens").status
    };
    let mut first = start("one");
    let before = token("one");
    assert_eq!(tokens(&first, "one"), 200);
    first.terminate();
    let mut second = start("two");
    assert_eq!((tokens(&second, "one"), tokens(&second, "two")), (200, 200));
    second.terminate();
    let again = start("one");
    assert_eq!(token("one"), before);
    assert_eq!((tokens(&again, "one"), tokens(&again, "two")), (200, 200));
}

#[test]
fn folders_are_closed_to_others_whatever_the_umask_says() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("some/data");
    let script = folder.path().join("lax");
    let text = format!("#!/bin/sh\numask 000\nexec '{}' \"$@\"\n", process::binary().display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let service =
        Estimand::builder(&script).args(["up", "--node", "n1"]).without_token().data_dir(&data).start();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for inside in ["", "agent", "agent/slots"] {
        assert_eq!(mode(&data.join(inside)), 0o700, "{inside:?}");
    }
    for file in
        ["token", "lock", "estimand.db", "estimand.db-data.lock", "estimand.db-registry.lock", "agent/node"]
    {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    drop(service);
}
