//! The commands about files.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use estimand_api::file::FilePath;
use estimand_api::file_share::ReadPath;
use estimand_api::names::UserName;

use super::{Remote, Remotely};

const FILES_EXAMPLES: &str = "\
A transfer that breaks off goes on where it was when the same command is given again.

Examples:
  estimand files put train.tar.gz data/mnist/train.tar.gz
  estimand files list data --recursive
  estimand files list --contains mnist
  estimand files get models/mnist.onnx
  estimand files remove data/mnist/train.tar.gz
  estimand files share data/mnist --with bob,eve
  estimand files list /users/alice/data/mnist";

#[derive(Debug, Args)]
#[command(after_help = FILES_EXAMPLES)]
pub struct FilesArgs {
    #[command(subcommand)]
    pub action: Option<FilesAction>,
}

#[derive(Debug, Subcommand)]
pub enum FilesAction {
    /// Send a file
    Put(Remotely<PutFileArgs>),
    /// Fetch a file
    Get(Remotely<GetFileArgs>),
    /// List files and folders
    List(Remotely<ListFilesArgs>),
    /// Show a file's size, time and digest
    Show(Remotely<FileArgs>),
    /// Remove files, and folders that are empty
    Remove(Remotely<RemoveFilesArgs>),
    /// Give other users a folder to read
    Share(Remotely<ShareFolderArgs>),
    /// List the folders that are shared
    Shares(Remotely<SharesArgs>),
    /// Share a folder with nobody any more
    Unshare(Remotely<UnshareFolderArgs>),
}

#[derive(Debug, Args)]
pub struct PutFileArgs {
    /// The file here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Its path there, such as data/train.csv; one that ends in `/` is a folder [default: the file's own name]
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
}

#[derive(Debug, Args)]
pub struct GetFileArgs {
    /// Its path there
    pub path: ReadPath,
    /// The file here, which is replaced; `-`: standard output [default: its own name, in the working folder]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
pub struct ListFilesArgs {
    /// Only what is in this folder
    #[arg(value_name = "FOLDER")]
    pub folder: Option<ReadPath>,
    /// Also what is in its folders
    #[arg(long, short)]
    pub recursive: bool,
    /// Only those with this text in their path, in all folders
    #[arg(long, value_name = "TEXT")]
    pub contains: Option<String>,
}

#[derive(Debug, Args)]
pub struct FileArgs {
    /// Its path there
    pub path: ReadPath,
}

#[derive(Debug, Args)]
pub struct ShareFolderArgs {
    /// The folder; for an operator users/NAME/FOLDER
    #[arg(value_name = "FOLDER")]
    pub folder: FilePath,
    /// The users who may read it from now on, and no others
    #[arg(long, value_name = "USERS", value_delimiter = ',', value_parser = UserName::parse, required_unless_present = "all")]
    pub with: Vec<UserName>,
    /// All users may read it
    #[arg(long, conflicts_with = "with")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct UnshareFolderArgs {
    /// The folder
    #[arg(value_name = "FOLDER")]
    pub folder: FilePath,
}

#[derive(Debug, Args)]
pub struct SharesArgs {}

#[derive(Debug, Args)]
pub struct RemoveFilesArgs {
    /// Their paths there
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<FilePath>,
    /// Also all that is in folders
    #[arg(long, short)]
    pub recursive: bool,
}

impl FilesArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            FilesAction::Put(args) => &args.remote,
            FilesAction::Get(args) => &args.remote,
            FilesAction::List(args) => &args.remote,
            FilesAction::Show(args) => &args.remote,
            FilesAction::Remove(args) => &args.remote,
            FilesAction::Share(args) => &args.remote,
            FilesAction::Shares(args) => &args.remote,
            FilesAction::Unshare(args) => &args.remote,
        })
    }
}
