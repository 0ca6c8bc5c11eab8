//! Where the checks run: each store behind each deployment, started once when a check first asks for it.
//!
//! The processes die with the test process. Their folders lie below cargo's own folder for tests, named
//! after the process that made them; the next run removes what earlier ones left.

use estimand_testkit::databases;
use estimand_testkit::http::{Http, Response};
use estimand_testkit::plane::{Apart, Plane};
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};

/// A test of each check on each target.
macro_rules! on_every_target {
    ($($check:ident),+ $(,)?) => {$(
        mod $check {
            use crate::target;

            #[test]
            fn sqlite_up() { super::$check(&target::SQLITE_UP); }
            #[test]
            fn sqlite_alone() { super::$check(&target::SQLITE_ALONE); }
            #[test]
            fn postgres_up() { super::$check(&target::POSTGRES_UP); }
            #[test]
            fn postgres_alone() { super::$check(&target::POSTGRES_ALONE); }
            #[test]
            fn mariadb_up() { super::$check(&target::MARIADB_UP); }
            #[test]
            fn mariadb_alone() { super::$check(&target::MARIADB_ALONE); }
        }
    )+};
}

pub static SQLITE_UP: LazyLock<Target> = LazyLock::new(|| Target::up("sqlite-up", Store::Sqlite));
pub static SQLITE_ALONE: LazyLock<Target> = LazyLock::new(|| Target::alone("sqlite-alone", Store::Sqlite));
pub static POSTGRES_UP: LazyLock<Target> = LazyLock::new(|| Target::up("postgres-up", Store::Postgres));
pub static POSTGRES_ALONE: LazyLock<Target> =
    LazyLock::new(|| Target::alone("postgres-alone", Store::Postgres));
pub static MARIADB_UP: LazyLock<Target> = LazyLock::new(|| Target::up("mariadb-up", Store::Mariadb));
pub static MARIADB_ALONE: LazyLock<Target> = LazyLock::new(|| Target::alone("mariadb-alone", Store::Mariadb));

#[derive(Clone, Copy)]
enum Store {
    Sqlite,
    Postgres,
    Mariadb,
}

/// A data service, a registry, a manager, a task service, a file service, a reservation service and a tuning service: one process
/// with an agent in it that may run nothing, or seven without any agent.
pub struct Target {
    pub data: Http,
    pub registry: Http,
    pub manager: Http,
    pub tasks: Http,
    pub files: Http,
    pub reservations: Http,
    pub tuning: Http,
    /// `HOST:PORT`, for checks that speak to the socket themselves.
    pub data_address: String,
    pub registry_address: String,
    pub manager_address: String,
    /// The URL of the database.
    pub store: String,
    names: AtomicU32,
    /// Kept, because they end when they are dropped.
    _processes: Mutex<Vec<Estimand>>,
}

impl Store {
    fn url(self, folder: &Path) -> String {
        match self {
            Store::Sqlite => format!("sqlite://{}", folder.join("store.db").display()),
            Store::Postgres => databases::postgres().fresh_url(),
            Store::Mariadb => databases::mariadb().fresh_url(),
        }
    }
}

impl Target {
    /// Everything in one process.
    fn up(name: &str, store: Store) -> Self {
        let folder = folder(name);
        let url = store.url(&folder);
        let up = process::estimand().store(&url).data_dir(folder.join("up")).start();
        let base = up.base_url();
        let others = [Http::new(base), Http::new(base), Http::new(base), Http::new(base)];
        Target::new(Plane::of(&up), others, url, vec![up])
    }

    /// Each service in a process of its own, over one store.
    fn alone(name: &str, store: Store) -> Self {
        let folder = folder(name);
        let url = store.url(&folder);
        let Apart { registry, data, manager, plane } =
            Apart::start_with(|name, service| service.store(&url).data_dir(folder.join(name)));
        let args = ["task-service", "--manager", manager.base_url(), "--data-service", data.base_url()];
        let tasks = process::estimand().args(args).port(process::free_port()).store(&url);
        let tasks = tasks.data_dir(folder.join("tasks")).start();
        let files = process::estimand().args(["file-service"]).store(&url);
        let files = files.data_dir(folder.join("files")).start();
        let args = ["reservation-service", "--task-service", tasks.base_url()];
        let sale = process::estimand().args(args).store(&url);
        let sale = sale.data_dir(folder.join("reservations")).start();
        let tuning = process::estimand().args(["tuning-service"]).store(&url);
        let tuning = tuning.data_dir(folder.join("tuning")).start();
        let (work, kept) = (Http::new(tasks.base_url()), Http::new(files.base_url()));
        let sold = Http::new(sale.base_url());
        let tuned = Http::new(tuning.base_url());
        let processes = vec![data, registry, manager, tasks, files, sale, tuning];
        Target::new(plane, [work, kept, sold, tuned], url, processes)
    }

    fn new(plane: Plane, others: [Http; 4], store: String, processes: Vec<Estimand>) -> Self {
        let [tasks, files, reservations, tuning] = others;
        // It is ready also while it stands by.
        wait::until_ok(PATIENCE, "the manager to lead", || match plane.manager.get("/api/nodes") {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer.to_string()),
        });
        let address = |http: &Http| http.authority().to_owned();
        let Plane { registry, data, manager } = plane;
        Target {
            data_address: address(&data),
            registry_address: address(&registry),
            manager_address: address(&manager),
            data,
            registry,
            manager,
            tasks,
            files,
            reservations,
            tuning,
            store,
            names: AtomicU32::new(0),
            _processes: Mutex::new(processes),
        }
    }

    pub fn services(&self) -> [&Http; 7] {
        [
            &self.data,
            &self.registry,
            &self.manager,
            &self.tasks,
            &self.files,
            &self.reservations,
            &self.tuning,
        ]
    }

    /// A name, of data or of a node, that nobody else uses.
    pub fn name(&self, stem: &str) -> String {
        format!("{stem}_{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a value, which must be taken.
    #[track_caller]
    pub fn write(&self, name: &str, node: &str, value: impl Into<Value>) -> Value {
        self.put(&json!({"dataName": name, "nodeName": node, "dataValue": value.into()}))
    }

    /// Sends a write as it is; it must be taken.
    #[track_caller]
    pub fn put(&self, write: &Value) -> Value {
        let answer = self.data.send_json("PUT", "/api/data", write);
        assert!(matches!(answer.status, 200 | 201), "{write}: {answer}");
        answer.json()
    }

    /// The value of a name on a node, which must be there.
    #[track_caller]
    pub fn one(&self, name: &str, node: &str) -> Value {
        self.data.get(&format!("/api/data/{name}/{node}")).expect_status(200).json()
    }

    /// The result of a query.
    #[track_caller]
    pub fn query(&self, query: &str) -> Vec<Value> {
        let answer = self.data.get(&format!("/api/data?{query}")).expect_status(200);
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The text values that a query returns, by which checks tell them apart.
    #[track_caller]
    pub fn values(&self, query: &str) -> Vec<Value> {
        self.query(query).into_iter().map(|mut value| value["dataValue"].take()).collect()
    }

    #[track_caller]
    pub fn delete(&self, query: &str) -> Value {
        self.data.request("DELETE", &format!("/api/data?{query}"), &[], b"").expect_status(200).json()
    }

    /// Registers, which must be taken.
    #[track_caller]
    pub fn register(&self, registration: &Value) -> Response {
        self.registry.send_json("POST", "/api/registry", registration).expect_status(201)
    }
}

/// An empty folder for a target.
fn folder(name: &str) -> PathBuf {
    static OF_THIS_PROCESS: OnceLock<PathBuf> = OnceLock::new();
    let parent = OF_THIS_PROCESS.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract");
        remove_what_is_left(&all);
        all.join(std::process::id().to_string())
    });
    let folder = parent.join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Folders are named after processes; those of processes that are gone are nobody's.
fn remove_what_is_left(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(entry.file_name()).exists() {
            // A run beside this one may be removing the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
