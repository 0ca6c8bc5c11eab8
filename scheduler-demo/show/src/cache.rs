//! The inputs of a run that are made only once: a network and pictures.
//!
//! The worker makes network and pictures in the user's cache, under another name first: a file under its own name is
//! complete.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// Changes when the worker makes other ones.
const EDITION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("`{command}` failed: {why}")]
    Made { command: String, why: String },
}

/// The user's cache of things made by a worker.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    worker: PathBuf,
}

impl Cache {
    pub fn new(worker: &Path) -> Result<Cache, CacheError> {
        let given = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
        let cache = match (given("XDG_CACHE_HOME"), given("HOME")) {
            (Some(cache), _) => PathBuf::from(cache),
            (None, Some(home)) => PathBuf::from(home).join(".cache"),
            (None, None) => std::env::temp_dir(),
        };
        let folder = cache.join("estimand-demo");
        fs::create_dir_all(&folder).map_err(|cause| CacheError::File { path: folder.clone(), cause })?;
        Ok(Cache { folder, worker: worker.to_owned() })
    }

    /// A network; `said` is called if it has to be made.
    pub async fn model(&self, said: impl Fn(&str)) -> Result<PathBuf, CacheError> {
        let args = ["make-model"];
        self.made(&format!("alexnet-{EDITION}.onnx"), &args, || said("making a network (AlexNet, 244 MB)"))
            .await
    }

    /// A folder of so many pictures.
    pub async fn pictures(&self, count: usize, said: impl Fn(&str)) -> Result<PathBuf, CacheError> {
        let (name, number) = (format!("images-{EDITION}-{count}"), count.to_string());
        self.made(&name, &["make-images", "--count", &number], || said(&format!("making {count} images")))
            .await
    }

    async fn made(&self, name: &str, args: &[&str], said: impl Fn()) -> Result<PathBuf, CacheError> {
        let path = self.folder.join(name);
        if path.exists() {
            return Ok(path);
        }
        self.sweep(name);
        said();
        let unready = self.folder.join(format!("{name}.{}", std::process::id()));
        let at = |cause| CacheError::File { path: unready.clone(), cause };
        run(&self.worker, args, unready.as_os_str()).await?;
        match fs::rename(&unready, &path) {
            // Another demo was faster.
            Err(_) if path.exists() => remove(&unready),
            renamed => renamed.map_err(at)?,
        }
        Ok(path)
    }

    /// Removes unfinished files of demos that have ended.
    fn sweep(&self, name: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let number = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('.'));
            if number.is_some_and(|number| !Path::new("/proc").join(number).exists()) {
                remove(&entry.path());
            }
        }
    }
}

fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Lets the worker make something at `out`.
pub async fn run(worker: &Path, args: &[&str], out: &OsStr) -> Result<(), CacheError> {
    let mut command = Command::new(worker);
    command.args(args).arg("--out").arg(out).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let failed = |why: String| {
        let command = format!("{} {} --out {}", worker.display(), args.join(" "), out.display());
        CacheError::Made { command, why }
    };
    let output = command.output().await.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(failed(format!("{}; {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end())))
        }
    }
}
