//! Agents: in a data folder that was another node's, and as root.

use estimand_testkit::process;

use crate::refused;

#[test]
fn an_agent_in_another_nodes_folder_is_refused_unless_told() {
    let folder = tempfile::tempdir().unwrap();
    let services = process::estimand().args(["up", "--no-agent"]).start();
    let agent = |more: &[&str]| {
        let args = ["agent", "--server", services.base_url(), "--node"];
        process::estimand().args(args).args(more).without_http().data_dir(folder.path().join("agent"))
    };
    agent(&["n1"]).start().terminate();
    let said = refused(agent(&["n2"]));
    assert!(
        said.contains("the one of the node n1, and this is the node n2") && said.contains("--renamed"),
        "{said}"
    );
    agent(&["n1"]).start().terminate();
    agent(&["n2", "--renamed"]).start().terminate();
    let said = refused(agent(&["n1"]));
    assert!(said.contains("the one of the node n2"), "{said}");
}

#[test]
fn an_agent_of_roots_says_what_its_runs_may_do() {
    let is_root = rustix::process::geteuid().is_root();
    let services = process::estimand().args(["up", "--no-agent"]).start();
    for (allow, says) in [(&["--allow", "/bin"][..], is_root), (&[], false)] {
        let args = [&["agent", "--server", services.base_url(), "--node", "n1"], allow].concat();
        let mut agent = process::estimand().args(args).without_http().start();
        agent.terminate();
        let log = agent.stderr_tail();
        let has =
            log.contains("what runs here runs as root") && log.contains("--run-as USER keeps it from both");
        assert_eq!(has, says, "{allow:?}: {log}");
    }
}
