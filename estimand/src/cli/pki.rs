//! The commands that make a private authority and its certificates.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use estimand_api::duration::Span;
use estimand_api::identity::Identity;
use estimand_api::names::{DataName, NodeName};

const PKI_EXAMPLES: &str = "\
A cluster's services, nodes and operators know each other by certificates of an authority of their own. Its key
stays where `estimand pki` made it; whoever has that key can be anybody.

Examples:
  estimand pki init
  estimand pki issue plane --service --address 10.0.0.1 --address plane.example
  estimand up --listen 10.0.0.1:7070 --tls ~/.local/share/estimand/pki
  estimand token create rack-1 --role join        # for `estimand agent --join`
  estimand pki issue alice --operator --valid-for 90d --out alice";

#[derive(Debug, Args)]
#[command(after_help = PKI_EXAMPLES)]
pub struct PkiArgs {
    #[command(subcommand)]
    pub what: PkiCommand,
}

#[derive(Debug, Subcommand)]
pub enum PkiCommand {
    /// Make an authority
    Init(InitArgs),
    /// Make a certificate and its key
    Issue(IssueArgs),
    /// Make a key that signs files which agents are to run
    UploadKey(UploadKeyArgs),
    /// Sign a file with it, and print the signature
    Sign(SignArgs),
}

#[derive(Debug, Args)]
pub struct UploadKeyArgs {
    /// Where to put it and its public half [default: the folder pki in the data folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print what was made, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SignArgs {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The key [default: upload.key in the folder pki in the data folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// Print what was made, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// The folder of the authority [default: the folder pki in the data folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Print what was made, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct IssueArgs {
    /// Identity that it names
    name: String,
    #[command(flatten)]
    kind: Kind,
    /// An IP address or DNS name by which others reach the service; may be repeated
    #[arg(long = "address", id = "addresses", value_name = "IP-OR-NAME")]
    pub addresses: Vec<String>,
    /// How long it is valid
    #[arg(long, value_name = "DURATION", default_value = "90d")]
    pub valid_for: Span,
    /// The folder of the authority [default: the folder pki in the data folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Where to write it, its key and the authority's certificate [default: the authority's folder for a service,
    /// else a folder NAME in that one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print what was made, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Kind {
    /// For a service: the plane's parts know each other by it, and everybody else knows them
    #[arg(long)]
    service: bool,
    /// For a person or program that may do everything
    #[arg(long)]
    operator: bool,
    /// For the agent of a node; those that join get theirs by themselves
    #[arg(long)]
    node: bool,
}

impl IssueArgs {
    /// The identity that the certificate names; the error says what is wrong with the name.
    pub fn who(&self) -> Result<Identity, String> {
        let name = &self.name;
        let data_name = || {
            DataName::parse(name).map_err(|_| format!("`{name}` is no name; expected {}", DataName::EXPECTED))
        };
        match () {
            () if self.kind.service => data_name().map(Identity::Service),
            () if self.kind.operator => data_name().map(Identity::Operator),
            () => NodeName::parse(name)
                .map(Identity::Node)
                .map_err(|_| format!("`{name}` is no node name; expected {}", NodeName::EXPECTED)),
        }
    }
}
