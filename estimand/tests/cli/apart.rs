//! One command line for services that run apart: each request goes to the service that serves it.

use std::process::{Command, Output};

use estimand_testkit::plane::Apart;
use estimand_testkit::process::{binary, free_port};
use estimand_testkit::{TOKEN, TOKEN_VARIABLE};

fn run(servers: &[&str], args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(binary());
    command.args(args).env(TOKEN_VARIABLE, TOKEN).env("ESTIMAND_SERVER", servers.join(","));
    let Output { stdout, stderr, status } = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&stdout), text(&stderr), status.code())
}

#[test]
fn services_that_run_apart_are_used_like_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}", folder.path().join("store.db").display());
    let apart = Apart::start_with(|name, service| service.store(&store).data_dir(folder.path().join(name)));
    let away = format!("http://127.0.0.1:{}", free_port());
    let [data, registry, manager] = [&apart.data, &apart.registry, &apart.manager].map(|one| one.base_url());
    let all = [away.as_str(), data, registry, manager];
    for (args, expected) in [
        (["put", "load", "n1", "1"].as_slice(), "is new"),
        (&["get", "load"], "n1"),
        (&["register", "probe", "--every", "5s", "--", "true"], "registered `probe`"),
        (&["list", "pro*"], "0/0"),
        (&["token", "list"], ""),
        (&["bind", "stable", "load"], "`stable` serves"),
        (&["unregister", "probe"], "`probe`"),
    ] {
        let (out, err, code) = run(&all, args);
        assert_eq!(code, Some(0), "{args:?}: {out}{err}");
        assert!(out.contains(expected), "{args:?}: {out}");
    }
    // The services that were asked are named: those that do not serve it, or the one that could have.
    let (_, err, code) = run(&[data, registry], &["nodes"]);
    assert_ne!(code, Some(0));
    assert!(err.contains(data) && err.contains(registry) && err.contains("/api/nodes"), "{err}");
    let (_, err, code) = run(&[data, &away], &["list"]);
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains(&away), "{err}");
}
