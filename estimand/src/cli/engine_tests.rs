use clap::{Command, FromArgMatches};

use super::*;
use crate::options::JoinToken;
use crate::services::SERVICES;

/// The command alone, as it will be among the others.
fn command<A: Args>(name: &'static str) -> Command {
    A::augment_args(Command::new(name)).term_width(100)
}

fn parse<A: Args + FromArgMatches>(line: &str) -> Result<A, clap::Error> {
    let matches = command::<A>("x").try_get_matches_from(line.split(' '))?;
    A::from_arg_matches(&matches)
}

fn agent(line: &str) -> Result<AgentOptions, clap::Error> {
    parse::<AgentArgs>(line)?.options()
}

#[track_caller]
fn wrong<T>(parsed: Result<T, clap::Error>, expected: &str) {
    let Err(error) = parsed else { panic!("was taken") };
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn help_reads_well() {
    command::<UpArgs>("up").debug_assert();
    let manager = SERVICES.into_iter().find(|kind| kind.command == "manager").unwrap().definition();
    let manager = manager.name("estimand manager").term_width(100);
    for (name, mut command) in
        [("help_agent", command::<AgentArgs>("estimand agent")), ("help_manager", manager)]
    {
        command.clone().debug_assert();
        insta::assert_snapshot!(name, command.render_help());
    }
}

#[test]
fn an_agent_is_what_its_options_say() {
    let options = agent(
        "agent --server http://a:1 --server https://b --join a-token --authority /a.pem --node n1 --label zone=a --label gpu= --device gpu=GPU-a,GPU-b --device gpu=/dev/xdma0 --allow /x --allow y --allow-env PGPASSWORD --allow-read /l --allow-net db:5432 --allow-uploads --upload-key /k --docker --allow-image a:1 --allow-image b/* --allow-volume /v \
         --run-as nobody:adm --run-as-range 200000-200999 --task-memory 2GiB --task-processes 100 --keep-capability cap_net_raw --data-dir /d --slots-dir /s --reserve 8 --max-runs 3 --spool-mib 2 --no-cgroups",
    );
    let labels = [("gpu", ""), ("zone", "a")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let expected = AgentOptions {
        servers: vec!["http://a:1".to_owned(), "https://b".to_owned()],
        join: Some(JoinToken::Given("a-token".to_owned())),
        authority: Some(PathBuf::from("/a.pem")),
        node: NodeName::parse("n1").unwrap(),
        renamed: false,
        labels: BTreeMap::from(labels),
        devices: BTreeMap::from([(
            "gpu".to_owned(),
            ["GPU-a", "GPU-b", "/dev/xdma0"].map(str::to_owned).to_vec(),
        )]),
        allow: AllowedPrograms::Folders(vec![PathBuf::from("/x"), PathBuf::from("y")]),
        allow_env: vec!["PGPASSWORD".parse().unwrap()],
        allow_read: vec![PathBuf::from("/l")],
        allow_net: vec!["db:5432".parse().unwrap()],
        allow_uploads: true,
        upload_key: Some(PathBuf::from("/k")),
        docker: Some(PathBuf::from("/var/run/docker.sock")),
        allow_images: ["a:1", "b/*"].map(|image| image.parse().unwrap()).to_vec(),
        allow_volumes: vec![PathBuf::from("/v")],
        run_as: Some("nobody:adm".to_owned()),
        run_as_range: Some("200000-200999".parse().unwrap()),
        allow_users_as_agent: false,
        task_memory: Some(2 << 30),
        task_processes: Some(100),
        keep: vec!["cap_net_raw".to_owned()],
        data_dir: PathBuf::from("/d"),
        slots_dir: Some(PathBuf::from("/s")),
        reserve_mib: Some(8),
        task_files_mib: None,
        max_runs: Some(3),
        max_spool_bytes: Some(2 << 20),
        cgroups: false,
    };
    assert_eq!(options.unwrap(), expected);
    let plain = agent("agent --node n1").unwrap();
    assert_eq!((plain.allow, plain.run_as, plain.keep), (AllowedPrograms::Folders(vec![]), None, vec![]));
    assert_eq!((plain.max_runs, plain.max_spool_bytes, plain.cgroups), (None, Some(256 << 20), true));
    assert!(plain.data_dir.ends_with("estimand/agent"), "{}", plain.data_dir.display());
    assert_eq!(agent("agent --node n1 --allow-all").unwrap().allow, AllowedPrograms::Everything);
    let json = parse::<AgentArgs>("agent --log-format json").unwrap();
    assert_eq!(json.log().format, telemetry::Format::Json);
}

#[test]
fn what_is_wrong_with_an_agent_is_said() {
    wrong(agent("agent --node a/b"), "is not a node name");
    wrong(agent("agent --docker --allow-image a;b"), "is no name of images");
    wrong(agent("agent --allow-image a"), "--docker");
    wrong(agent("agent --label zone"), "expected KEY=VALUE, such as zone=a");
    wrong(agent("agent --label .z=a"), "`.z` is not a label key: a letter or digit");
    wrong(agent("agent --label z=a,b"), "`a,b` is not a label value: at most 253");
    wrong(agent("agent --label node=n2"), "`node` is the label that every node has with its name");
    wrong(agent("agent --node n --label z=a --label z=b"), "the label `z` is given twice: `a` and `b`");
    wrong(agent("agent --node n --device gpu"), "expected gpu=ID,ID");
    wrong(agent("agent --node n --device gpu=A,,B"), "an id is empty");
    wrong(agent("agent --node n --device fpga=A"), "only of `gpu`");
    wrong(agent("agent --node n --device gpu=A --device gpu=B,A"), "the device `A` of `gpu` is given twice");
    wrong(agent("agent --node n --device gpu=A --label gpu=2"), "counts more than the 1 devices");
    wrong(agent("agent --server localhost:7070"), "expected http://HOST:PORT");
    wrong(agent("agent --upload-key /k"), "--allow-uploads");
    wrong(agent("agent --allow-env A=B"), "is no variable");
    wrong(agent("agent --max-runs 0"), "0 is not in 1..");
    wrong(agent("agent --allow /x --allow-all"), "cannot be used with");
    wrong(node_of_host("my host"), "this machine's host name, `my host`, is not a node name");
}

#[test]
fn up_has_an_agent_unless_it_shall_not() {
    let up = |line: &str| Ok(parse::<UpArgs>(line).and_then(UpArgs::options)?.agent);
    let agent = up("up --data-dir /d --node n1 --allow /x").unwrap().unwrap();
    assert_eq!((agent.data_dir, agent.servers), (PathBuf::from("/d/agent"), vec![]));
    assert_eq!(agent.allow, AllowedPrograms::Folders(vec![PathBuf::from("/x")]));
    wrong(up("up --no-agent --run-as nobody"), "cannot be used with");
    assert!(up("up --no-agent").unwrap().is_none());
    wrong(up("up --no-agent --label a=b"), "cannot be used with");
}
