//! An agent in a data folder that was another node's.

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
