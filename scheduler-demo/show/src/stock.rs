//! What a run works with and need not be made each time: the worker's program, a network, pictures.
//!
//! The network and the pictures are made by the worker, into the user's cache, under another name first: what is there
//! under its own name is whole.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

const WORKER: &str = "estimand-worker";
/// Changes when the worker makes other ones.
const EDITION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum StockError {
    #[error(
        "there is no {WORKER} beside this program, on PATH or among what is built here; build it in the project's \
         folder with\n  cargo build --release --manifest-path scheduler-demo/worker/Cargo.toml --target-dir target/worker\n\
         or say where it is with --worker"
    )]
    NoWorker,
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("`{command}` failed: {why}")]
    Made { command: String, why: String },
}

/// The worker: as given, or wherever it usually is.
pub fn worker(given: Option<&Path>, program: &Path) -> Result<PathBuf, StockError> {
    let at =
        |path: &Path| path.canonicalize().map_err(|cause| StockError::File { path: path.to_owned(), cause });
    if let Some(path) = given {
        return at(path);
    }
    let beside = program.parent().map(|folder| folder.join(WORKER));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(WORKER));
    let built = ["target/worker/release", "target/worker/debug", "scheduler-demo/worker/target/release"];
    let built = built.iter().map(|folder| Path::new(folder).join(WORKER));
    let mut places = beside.into_iter().chain(on_path).chain(built);
    places.find(|path| path.is_file()).ok_or(StockError::NoWorker).and_then(|path| at(&path))
}

/// The user's cache of things made by a worker.
#[derive(Debug)]
pub struct Stock {
    folder: PathBuf,
    worker: PathBuf,
}

impl Stock {
    pub fn new(worker: &Path) -> Result<Stock, StockError> {
        let given = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
        let cache = match (given("XDG_CACHE_HOME"), given("HOME")) {
            (Some(cache), _) => PathBuf::from(cache),
            (None, Some(home)) => PathBuf::from(home).join(".cache"),
            (None, None) => std::env::temp_dir(),
        };
        let folder = cache.join("estimand-demo");
        fs::create_dir_all(&folder).map_err(|cause| StockError::File { path: folder.clone(), cause })?;
        Ok(Stock { folder, worker: worker.to_owned() })
    }

    /// A network; `said` is told if it has to be made.
    pub async fn model(&self, said: impl Fn(&str)) -> Result<PathBuf, StockError> {
        let args = ["make-model"];
        self.made(&format!("alexnet-{EDITION}.onnx"), &args, || said("making a network (AlexNet, 244 MB)"))
            .await
    }

    /// A folder of so many pictures.
    pub async fn pictures(&self, count: usize, said: impl Fn(&str)) -> Result<PathBuf, StockError> {
        let (name, number) = (format!("images-{EDITION}-{count}"), count.to_string());
        self.made(&name, &["make-images", "--count", &number], || said(&format!("making {count} images")))
            .await
    }

    async fn made(&self, name: &str, args: &[&str], said: impl Fn()) -> Result<PathBuf, StockError> {
        let path = self.folder.join(name);
        if path.exists() {
            return Ok(path);
        }
        self.sweep(name);
        said();
        let unready = self.folder.join(format!("{name}.{}", std::process::id()));
        let at = |cause| StockError::File { path: unready.clone(), cause };
        run(&self.worker, args, unready.as_os_str()).await?;
        match fs::rename(&unready, &path) {
            // Another demo was faster.
            Err(_) if path.exists() => remove(&unready),
            renamed => renamed.map_err(at)?,
        }
        Ok(path)
    }

    /// Removes what was not finished because its demo ended.
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
pub async fn run(worker: &Path, args: &[&str], out: &OsStr) -> Result<(), StockError> {
    let mut command = Command::new(worker);
    command.args(args).arg("--out").arg(out).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let failed = |why: String| {
        let command = format!("{} {} --out {}", worker.display(), args.join(" "), out.display());
        StockError::Made { command, why }
    };
    let output = command.output().await.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(failed(format!("{}; {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end())))
        }
    }
}
