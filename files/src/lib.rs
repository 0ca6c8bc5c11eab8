//! Files of people and of tasks, sent and fetched in pieces.
//!
//! The service keeps them as files in one folder, which may be on any disk that is mounted; there is no table of them, so
//! whatever puts a file there by other means is seen as well. `root` reaches nothing outside of the folder, `home`
//! is a user's part of it, `shared_folders` are those that users give others to read, `uploads` takes pieces at a `pace`,
//! `places` are those at the disk, `listing` finds, `digests` remembers, `grants` are the rights of
//! nodes to the files of their tasks, and `http` has the handlers.
//!
//! Invariants: a file has its name only when all of it is on disk, and then replaces the one before as a whole; a piece
//! that was acknowledged is on disk; a file whose digest was given has that digest.

mod digests;
mod grants;
mod home;
mod http;
mod listing;
mod owner;
mod pace;
mod places;
mod root;
mod shared_folders;
mod unfinished;
mod upload_error;
mod uploads;
mod usage;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_runtime::metrics::{Counter, Exposition, Kind};
use estimand_runtime::{Next, Rounds, Stop, Tasks, Work};
use estimand_web::{Role, Routes, ServedPart, ShareReport, Users};
use tokio::task::spawn_blocking;

use digests::Digests;
use grants::Grants;
use http::{content, entries, granted, sharing, socket, upload};
use places::Places;
use root::Root;
use shared_folders::SharedFolders;
use unfinished::MAX_SENT;
use uploads::Uploads;
use usage::Usage;

/// How often it is looked for uploads that nobody goes on with.
const CLEAR_EVERY: Duration = Duration::from_secs(60 * 60);
/// How many pieces are written at the same time, and how many of them of one owner.
const MAX_WRITTEN: usize = 64;
const MAX_WRITTEN_BY_ONE: usize = 8;
/// How many files are read at the same time for their digests.
const MAX_DIGESTED: usize = 4;
const MAX_DIGESTED_BY_ONE: usize = 1;

/// The needs of a file service.
pub struct FileServiceOptions {
    /// The folder of all files. It is made if it is missing.
    pub folder: PathBuf,
    /// The server's stop: long answers end then.
    pub stop: Stop,
    /// With their limits.
    pub users: Users,
}

/// A file service that runs. Clones are the same one.
#[derive(Clone)]
pub struct FileService(Arc<Inner>);

struct Inner {
    root: Arc<Root>,
    uploads: Arc<Uploads>,
    usage: Arc<Usage>,
    digests: Digests,
    writing: Places,
    digesting: Places,
    grants: Grants,
    shared_folders: SharedFolders,
    figures: Figures,
    stop: Stop,
}

#[derive(Default)]
struct Figures {
    received_bytes: Counter,
    files_received: Counter,
    sent_bytes: Counter,
}

impl FileService {
    pub fn start(options: FileServiceOptions, tasks: &Tasks) -> io::Result<Self> {
        let FileServiceOptions { folder, stop, users } = options;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let root = Root::open(&folder)?;
        root.close_to_others(&folder)?;
        let root = Arc::new(root);
        let usage = Arc::new(Usage::new(users));
        let uploads = Arc::new(Uploads::open(Arc::clone(&root), Arc::clone(&usage))?);
        let (to_clear, drivers) = (Arc::clone(&uploads), tasks.clone());
        tasks.spawn("files", move |stop| {
            let mut work = Clearing(Arc::clone(&to_clear));
            let mut driver = drivers.driver("files", "clearing uploads").every(CLEAR_EVERY);
            async move { driver.run(&mut work, &Rounds::new(), stop.requested()).await }
        });
        let writing = Places::new(MAX_WRITTEN, MAX_WRITTEN_BY_ONE);
        let digesting = Places::new(MAX_DIGESTED, MAX_DIGESTED_BY_ONE);
        let (digests, figures) = (Digests::default(), Figures::default());
        let grants = Grants::new().ok_or_else(|| io::Error::other("the system gives no random numbers"))?;
        let shared_folders = SharedFolders::open(&root)?;
        let inner = Inner {
            root,
            uploads,
            usage,
            digests,
            writing,
            digesting,
            grants,
            shared_folders,
            figures,
            stop,
        };
        Ok(FileService(Arc::new(inner)))
    }

    fn figures(&self) -> &Figures {
        &self.0.figures
    }

    fn grants(&self) -> &Grants {
        &self.0.grants
    }

    fn shared_folders(&self) -> &SharedFolders {
        &self.0.shared_folders
    }

    fn digesting(&self) -> &Places {
        &self.0.digesting
    }

    fn writing(&self) -> &Places {
        &self.0.writing
    }

    /// Does something with files, beside the threads that answer requests.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let inner = Arc::clone(&self.0);
        spawn_blocking(move || work(&inner)).await.map_err(|_| Problem::internal())
    }
}

/// Removes uploads that nobody goes on with, and counts what users have.
struct Clearing(Arc<Uploads>);

impl Work for Clearing {
    type Error = io::Error;

    async fn round(&mut self) -> Result<Next, io::Error> {
        let uploads = Arc::clone(&self.0);
        let work = move || uploads.clear().and_then(|()| uploads.count());
        spawn_blocking(work).await.map_err(io::Error::other)??;
        Ok(Next::Period)
    }
}

impl ServedPart for FileService {
    /// Reading takes a user, too: nobody who can merely connect sees files.
    fn routes(&self) -> Routes {
        Routes::new("files")
            .add(Role::User, content::get, content::__path_get)
            .add(Role::User, upload::put, upload::__path_put)
            .add(Role::User, upload::progress, upload::__path_progress)
            .add(Role::User, entries::list, entries::__path_list)
            .add(Role::User, entries::get, entries::__path_get)
            .add(Role::User, entries::delete, entries::__path_delete)
            .add(Role::User, sharing::list, sharing::__path_list)
            .add(Role::User, sharing::share, sharing::__path_share)
            .add(Role::User, sharing::unshare, sharing::__path_unshare)
            .add(Role::User, socket::open, socket::__path_open)
            .add(Role::Service, granted::grant, granted::__path_grant)
            .add(Role::Node, granted::read, granted::__path_read)
            .add(Role::Node, granted::write, granted::__path_write)
            .add(Role::Node, granted::entry, granted::__path_entry)
            .add(Role::Node, granted::progress, granted::__path_progress)
            .share(self.clone())
    }

    fn report_shares(&self, report: &mut ShareReport) {
        report.bound(ShareKind::Uploads, MAX_SENT as u64);
        self.0.usage.report(&self.0.root, report);
    }

    fn write_figures(&self, text: &mut String) {
        let Figures { received_bytes, files_received, sent_bytes } = self.figures();
        let mut exposition = Exposition::new(text);
        for (name, help, figure) in [
            ("estimand_files_received_bytes_total", "Bytes of files that came.", received_bytes),
            ("estimand_files_received_total", "Files that came whole.", files_received),
            ("estimand_files_sent_bytes_total", "Bytes of files that were asked for.", sent_bytes),
        ] {
            exposition.single(name, Kind::Counter, help, figure.get() as f64);
        }
        let help = "Uploads that are not finished.";
        let unfinished = self.0.uploads.unfinished() as f64;
        exposition.single("estimand_files_uploads_unfinished", Kind::Gauge, help, unfinished);
    }
}
