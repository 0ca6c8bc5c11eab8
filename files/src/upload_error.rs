//! The reasons why a piece of a file is not taken.

use std::io;

use estimand_api::problem::Problem;
use estimand_api::registration::Sha256;

use crate::root;

#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("another request is sending it")]
    Busy,
    #[error("too many files are being sent")]
    TooMany,
    #[error("too many files of tasks of its user are being sent")]
    TooManyOfTasks { most: usize },
    #[error("{0}")]
    Share(Box<Problem>),
    #[error("the piece does not begin where the upload ends")]
    WrongOffset { received: u64 },
    #[error("there is more of it than its size says")]
    TooLong,
    #[error("its digest differs")]
    DigestDiffers { found: Sha256 },
    #[error("a folder has this name")]
    IsFolder,
    #[error("a file or a link is in the place of one of its folders")]
    IsInFile,
    #[error("the disk has no room for it")]
    NoRoom,
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for UploadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => UploadError::NoRoom,
            io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty => UploadError::IsFolder,
            _ if root::leads_nowhere(&error) => UploadError::IsInFile,
            _ => UploadError::Io(error),
        }
    }
}

impl From<Problem> for UploadError {
    fn from(problem: Problem) -> Self {
        UploadError::Share(Box::new(problem))
    }
}

impl From<rustix::io::Errno> for UploadError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}
