//! Where the images of a job lie: a folder, or a folder of an HDFS (feature `hdfs`).
//!
//! An image is named by its path below that place; a name that leads out of it is refused. Reading takes no more
//! than [`MAX_IMAGE_BYTES`] and waits for nothing that isn't a plain file. Writing is for images that are made.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

#[cfg(feature = "hdfs")]
mod hdfs;

/// Of one image's file.
pub const MAX_IMAGE_BYTES: u64 = 64 << 20;
const HDFS_SCHEME: &str = "hdfs://";

pub enum Images {
    Folder(PathBuf),
    #[cfg(feature = "hdfs")]
    Hdfs(hdfs::Hdfs),
}

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("{}: {cause}; expected a folder of images", path.display())]
    NoFolder { path: PathBuf, cause: String },
    #[error("{url}: {cause}")]
    Hdfs { url: String, cause: String },
}

/// Why an image's bytes could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("its name is no path below the folder of images")]
    InvalidName,
    #[error("it is no plain file")]
    NotAFile,
    #[error("it has more than {MAX_IMAGE_BYTES} bytes")]
    TooLarge,
    #[error("it can't be read: {0}")]
    Read(String),
    /// Nothing is known of the image, and something may be later.
    #[error("the place of the images doesn't answer: {0}")]
    Unavailable(String),
}

impl Images {
    /// A folder's path, or a URL `hdfs://namenode:port/folder`.
    pub fn at(place: &str) -> Result<Self, PlaceError> {
        if place.starts_with(HDFS_SCHEME) {
            return Self::in_hdfs(place);
        }
        let path = PathBuf::from(place);
        let no_folder = |cause: String| PlaceError::NoFolder { path: path.clone(), cause };
        let metadata = path.metadata().map_err(|error| no_folder(error.to_string()))?;
        match metadata.is_dir() {
            true => Ok(Images::Folder(path)),
            false => Err(no_folder("it is no folder".to_owned())),
        }
    }

    #[cfg(feature = "hdfs")]
    fn in_hdfs(url: &str) -> Result<Self, PlaceError> {
        let hdfs = hdfs::Hdfs::at(url).map_err(|cause| PlaceError::Hdfs { url: url.to_owned(), cause })?;
        Ok(Images::Hdfs(hdfs))
    }

    #[cfg(not(feature = "hdfs"))]
    fn in_hdfs(url: &str) -> Result<Self, PlaceError> {
        let cause = "this worker was built without the feature `hdfs`".to_owned();
        Err(PlaceError::Hdfs { url: url.to_owned(), cause })
    }

    /// A place that may not be there yet: it is made.
    pub fn make(place: &str) -> Result<Self, PlaceError> {
        if !place.starts_with(HDFS_SCHEME) {
            let made = fs::create_dir_all(place);
            made.map_err(|error| PlaceError::NoFolder { path: place.into(), cause: error.to_string() })?;
        }
        let images = Self::at(place)?;
        #[cfg(feature = "hdfs")]
        if let Images::Hdfs(hdfs) = &images {
            hdfs.make().map_err(|cause| PlaceError::Hdfs { url: place.to_owned(), cause })?;
        }
        Ok(images)
    }

    /// Writes one image, in the place of one of that name. `copies` is for an HDFS, which has a number of its own
    /// otherwise.
    pub fn write(&self, name: &str, bytes: &[u8], copies: Option<u32>) -> Result<(), String> {
        match self {
            Images::Folder(folder) => {
                let _ = copies;
                fs::write(folder.join(name), bytes).map_err(|error| format!("{name}: {error}"))
            }
            #[cfg(feature = "hdfs")]
            Images::Hdfs(hdfs) => hdfs.write(name, bytes, copies),
        }
    }

    /// The bytes of one image.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, ReadError> {
        if !is_below(name) {
            return Err(ReadError::InvalidName);
        }
        match self {
            Images::Folder(folder) => read_file(&folder.join(name)),
            #[cfg(feature = "hdfs")]
            Images::Hdfs(hdfs) => hdfs.read(name),
        }
    }
}

fn is_below(name: &str) -> bool {
    !name.contains('\0') && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// A plain file, whole.
pub fn read_file(path: &Path) -> Result<Vec<u8>, ReadError> {
    let failed = |error: std::io::Error| ReadError::Read(error.to_string());
    // Opening a pipe would wait for a writer.
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(ReadError::NotAFile);
    }
    let mut bytes = Vec::with_capacity(metadata.len().min(MAX_IMAGE_BYTES) as usize + 1);
    File::open(path).map_err(failed)?.take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > MAX_IMAGE_BYTES {
        true => Err(ReadError::TooLarge),
        false => Ok(bytes),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/a.jpg"), b"bytes").unwrap();
        let images = Images::at(folder.path().join("inner").to_str().unwrap()).unwrap();
        assert_eq!(images.read("a.jpg").unwrap(), b"bytes");
        let absolute = folder.path().join("inner/a.jpg");
        for name in ["../inner/a.jpg", absolute.to_str().unwrap(), "", ".", "a.jpg/", "x//a.jpg", "a\0.jpg"] {
            assert_eq!(images.read(name), Err(ReadError::InvalidName), "{name:?}");
        }
        assert!(matches!(images.read("b.jpg"), Err(ReadError::Read(_))));
    }

    #[test]
    fn only_plain_files_are_images() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a.jpg")).unwrap();
        let images = Images::at(folder.path().to_str().unwrap()).unwrap();
        assert_eq!(images.read("a.jpg"), Err(ReadError::NotAFile));
        assert!(matches!(Images::at("/no/such/place"), Err(PlaceError::NoFolder { .. })));
    }
}
