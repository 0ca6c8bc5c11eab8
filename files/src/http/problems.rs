//! Failures of files and uploads, as problems.

use std::fmt::Display;
use std::io;

use estimand_api::problem::{FieldError, Problem, kind};

use crate::root;
use crate::upload_error::UploadError;
use crate::uploads::Upload;

pub fn of_upload(error: UploadError, upload: &Upload) -> Problem {
    let path = &upload.path;
    match error {
        UploadError::Busy => Problem::conflict(format!("another request is sending `{path}`")),
        UploadError::TooMany => {
            Problem::unavailable(format!("too many files are being sent; nothing of `{path}` was taken"), 1)
        }
        UploadError::TooManyOfTasks { most } => Problem::unavailable(
            format!(
                "{most} files of tasks of this user are being sent, the most at once; nothing of `{path}` was taken"
            ),
            1,
        ),
        UploadError::Share(problem) => *problem,
        UploadError::WrongOffset { received } => Problem::conflict(format!(
            "{received} bytes of `{path}` are here: go on with `offset={received}`, or begin again with `offset=0`"
        )),
        UploadError::TooLong => {
            let size = upload.size.unwrap_or_default();
            let error = FieldError::new("body", "is longer than what is missing of the file");
            Problem::invalid_field(error.expected(format!("{size} bytes in all, as `size` says")))
        }
        UploadError::DigestDiffers { found } => {
            let error = FieldError::new("sha256", "is not the digest of what came, which was removed");
            let given = upload.sha256.map(|sha256| sha256.to_string()).unwrap_or_default();
            Problem::invalid_field(error.given(given).expected(found.to_string()))
        }
        UploadError::IsFolder => Problem::conflict(format!("`{path}` is a folder")),
        UploadError::IsInFile => {
            Problem::conflict(format!("one of the folders of `{path}` is a file, or leads elsewhere"))
        }
        UploadError::NoRoom => {
            let detail = format!("the disk has no room for `{path}`; what has come of it stays for a day");
            Problem::new(507, kind::NO_ROOM, "There is no room", detail)
        }
        UploadError::Io(error) => of_io(&error, path.as_str()),
    }
}

/// The failure of something that was to be done with a file or folder.
pub fn of_file(error: &io::Error, path: &impl Display) -> Problem {
    match error.kind() {
        io::ErrorKind::IsADirectory => Problem::conflict(format!("`{path}` is a folder")),
        io::ErrorKind::DirectoryNotEmpty => {
            Problem::conflict(format!("the folder `{path}` is not empty: remove what is in it first"))
        }
        _ if root::leads_nowhere(error) => Problem::not_found(format!("there is no file `{path}`")),
        _ => of_io(error, &path.to_string()),
    }
}

pub fn of_io(error: &io::Error, path: &str) -> Problem {
    tracing::error!(%error, path, "a file cannot be read or written");
    Problem::new(500, kind::UNREADABLE, "The disk does not do it", format!("`{path}`: {}", error.kind()))
}
