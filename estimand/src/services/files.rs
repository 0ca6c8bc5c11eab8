//! The file service in the binary.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, FromArgMatches as _, ValueHint};
use estimand_access::Access;
use estimand_files::{FileService, FileServiceOptions};
use estimand_web::ServedPart;

use super::{Host, ServiceHandle, ServiceKind, ServiceOptions};

pub static KIND: ServiceKind = ServiceKind {
    command: "file-service",
    about: "Start the file service alone: it keeps files of people and of tasks",
    examples: None,
    owner: None,
    makes_tokens: false,
    keeps_files: true,
    on_platform: false,
    peers: |command| command,
    terms: FilesTerms::augment_args,
    options: |matches, _| Ok(Box::new(FilesTerms::from_arg_matches(matches)?)),
};

#[derive(Debug, Args)]
struct FilesTerms {
    /// Keep files in this folder, which may be on any disk that is mounted [default: files in the data folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    files: Option<PathBuf>,
}

impl ServiceOptions for FilesTerms {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let folder = self.files.clone().unwrap_or_else(|| host.options.data_dir.join("files"));
        let failed = format!("cannot keep files in {}", folder.display());
        let options = FileServiceOptions { folder, stop: host.stop.clone(), users: host.users.clone() };
        Ok(Box::new(FileService::start(options, &host.tasks).context(failed)?))
    }
}

impl ServiceHandle for FileService {
    fn parts(&self, _: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.clone())]
    }
}
