//! The services and an agent for each node, as processes of their own.
//!
//! Starts them, and ends them in order: the agents first, so that their last values arrive.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use estimand_api::access::Token;
use estimand_client::{Client, Credentials, Options};

use crate::brake::Brakes;
use crate::child::ChildProcess;
use crate::folder::Folder;
use crate::host::HOST;
use crate::nodes::Node;
use crate::{Error, brake};

/// This program, also when its file was replaced: a host is another process of it.
const OWN: &str = "/proc/self/exe";
/// The beginning of the binary's first line.
const GREETING: &str = "listening on ";
const RANDOM: &str = "/dev/urandom";
/// How long the services may take to be ready, on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Processes that run, the services first.
#[derive(Debug, Default)]
pub struct Cluster {
    running: Vec<ChildProcess>,
    /// The token of all its parts, made for this cluster.
    token: Option<Token>,
}

impl Cluster {
    /// Adds another process of the cluster.
    pub fn keep(&mut self, process: ChildProcess) {
        self.running.push(process);
    }

    /// Starts the services. Returns their address and a client.
    pub async fn start_services(
        &mut self,
        program: &Path,
        folder: &Folder,
    ) -> Result<(String, Client), Error> {
        let data = folder.sub("services").map_err(|cause| Error::file(folder.path(), cause))?;
        let words = ["up", "--no-agent", "--defaults", "none", "--listen", "127.0.0.1:0", "--data-dir"];
        let words = words.into_iter().map(OsString::from).chain([data.into_os_string()]);
        let args = hosted(&[], program, words);
        let log = folder.path().join("services.log");
        let token = random_token().map_err(|cause| Error::file(Path::new(RANDOM), cause))?;
        self.running.push(ChildProcess::start("estimand up", Path::new(OWN), args, Some(&token), log)?);
        let Some(services) = self.running.last_mut() else { return Err(Error::ProcessGone) };
        let line = services.line().await?;
        let address = line.strip_prefix(GREETING).ok_or_else(|| Error::TimedOut {
            what: "the address of the services".to_owned(),
            last: line.clone(),
        })?;
        let credentials = Credentials { token: Some(token.clone()), ..Credentials::default() };
        let asking =
            Options { attempts: u32::MAX, retry_within: READY_WITHIN, credentials, ..Options::default() };
        let client = Client::with_options(address, asking)?;
        // It listens a moment before it is ready; the client asks again until then.
        client.nodes().await?;
        let address = address.to_owned();
        self.token = Some(token);
        Ok((address, client))
    }

    /// Starts a node: its host, busy as the node is, and the agent inside.
    pub async fn start_node(
        &mut self,
        program: &Path,
        folder: &Folder,
        node: &Node,
        brakes: &Brakes,
        server: &str,
        allowed: &[&Path],
    ) -> Result<(), Error> {
        let data = folder
            .sub(&format!("agents/{}", node.name))
            .map_err(|cause| Error::file(folder.path(), cause))?;
        let words = ["agent", "--server", server, "--node", node.name, "--no-cgroups", "--data-dir"];
        let words = words.into_iter().map(OsString::from).chain([data.into_os_string()]);
        // The workers' logs, and the HDFS of the show.
        let bounds = ["--allow-net", "127.0.0.1", "--allow-read"].map(OsString::from);
        let words = words.chain(bounds).chain([folder.path().join("logs").into_os_string()]);
        let allowed = allowed.iter().flat_map(|path| [OsString::from("--allow"), path.into()]);
        let mut args = hosted(&brakes.entries(node.name), program, words.chain(allowed));
        if let Some(cpu) = brakes.cpu(node.name) {
            args.splice(1..1, ["--cpu".into(), cpu.to_string().into()]);
        }
        let log = folder.path().join(format!("{}.log", node.name));
        self.running.push(ChildProcess::start(node.name, Path::new(OWN), args, self.token.as_ref(), log)?);
        let Some(host) = self.running.last_mut() else { return Err(Error::ProcessGone) };
        if brakes.is_real() {
            host.tell(&format!("load {:.4}", node.cores * node.busy)).await?;
        }
        host.line().await?;
        Ok(())
    }

    /// Ends everything. Names what had to be ended by force.
    pub async fn end(&mut self) -> Vec<String> {
        let mut forced = Vec::new();
        // Each agent has its own time, and they take it together.
        self.running.iter_mut().skip(1).for_each(ChildProcess::let_go);
        while let Some(mut process) = self.running.pop() {
            if !process.end().await {
                forced.push(process.name().to_owned());
            }
        }
        forced
    }
}

/// The arguments of a host that runs this program with these words.
fn hosted(join: &[PathBuf], program: &Path, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args = vec![OsString::from(HOST)];
    args.extend(join.iter().flat_map(|file| [OsString::from("--join"), file.into()]));
    args.extend([OsString::from("--"), program.into()]);
    args.extend(words);
    args
}

/// True if a process can enter groups by these files.
pub fn enters(files: &[PathBuf]) -> bool {
    let joins = files.iter().flat_map(|file| [OsString::from("--join"), file.into()]);
    let mut command = std::process::Command::new(OWN);
    command.arg(HOST).args(joins).args(["--try", "--"]);
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Brakes for the nodes.
pub fn brakes(nodes: &[Node], folder: &Folder, groups: bool) -> std::io::Result<Brakes> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    brake::Brakes::find(nodes, cores, folder.path(), groups, enters)
}

fn random_token() -> io::Result<Token> {
    let mut random = [0; 32];
    File::open(RANDOM)?.read_exact(&mut random)?;
    Ok(Token::of(&random))
}
