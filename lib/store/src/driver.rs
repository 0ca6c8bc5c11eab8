//! Drives the asynchronous PostgreSQL and MySQL drivers from plain threads.
//!
//! Each connection has its own current-thread runtime, so the thread that uses the connection also does its
//! network work: there is no hop to another thread, and nothing is left behind when the connection goes. Each wait
//! has a deadline, because a server that hangs doesn't close. When it passes, the stack is unwound with a
//! private payload that [`caught`] recognises; no connection is used again after that.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diesel_async::async_connection_wrapper::{AsyncConnectionWrapper, BlockOn};
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Halt;
use crate::error::Cause;
use crate::halt::LAST_MOMENTS;
use crate::tls::Trust;

/// How long a server may take to answer one statement.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one address may take to accept a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Turns that background work gets to say goodbye to the server.
const TURNS_TO_CLOSE: usize = 16;

pub(crate) type PgWrapper = AsyncConnectionWrapper<AsyncPgConnection, Driver>;
pub(crate) type MysqlWrapper = AsyncConnectionWrapper<AsyncMysqlConnection, Driver>;

thread_local! {
    /// `AsyncConnectionWrapper` asks for its runtime without saying for which connection.
    static BEING_WRAPPED: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

#[derive(Clone)]
pub(crate) struct Driver(Arc<Inner>);

struct Inner {
    /// Present until this is dropped.
    runtime: Option<Runtime>,
    deadline_ms: AtomicU64,
    /// Each of these ends a wait, a moment later.
    halts: Vec<Halt>,
}

impl Inner {
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken when this is dropped")
    }
}

/// Every end of a connection comes here, also by unwinding. A wait for the runtime could be one for a name server that
/// hangs.
impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn elapsed(halts: &[Halt]) {
    match halts {
        [] => std::future::pending().await,
        [one] => one.elapsed().await,
        [one, other, ..] => tokio::select! {
            () = one.elapsed() => {}
            () = other.elapsed() => {}
        },
    }
}

/// The payload that unwinds the stack when a deadline passes.
struct TimedOut(Duration);

impl BlockOn for Driver {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let deadline = Duration::from_millis(self.0.deadline_ms.load(Ordering::Relaxed));
        let waited = self.0.runtime().block_on(async {
            tokio::select! {
                biased;
                waited = timeout(deadline, future) => waited.map_err(|_| deadline),
                () = elapsed(&self.0.halts) => Err(LAST_MOMENTS),
            }
        });
        match waited {
            Ok(output) => output,
            // Unlike `panic!`, this tells no panic hook: a slow server is no bug.
            Err(deadline) => resume_unwind(Box::new(TimedOut(deadline))),
        }
    }

    fn get_runtime() -> Self {
        BEING_WRAPPED.take().expect("only `Driver::wrap` makes wrappers")
    }
}

impl Driver {
    /// Once one of `halts` is requested, no wait lasts longer than a moment.
    pub(crate) fn start(halts: Vec<Halt>) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let driver = Self(Arc::new(Inner { runtime: Some(runtime), deadline_ms: AtomicU64::new(0), halts }));
        driver.set_deadline(STATEMENT_TIMEOUT);
        Ok(driver)
    }

    pub(crate) fn set_deadline(&self, deadline: Duration) {
        let millis = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.0.deadline_ms.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn postgres(
        &self,
        config: &tokio_postgres::Config,
        trust: Option<&Trust>,
        halt: &Halt,
    ) -> Result<PgWrapper, Cause> {
        let connection = self.connect(halt, async {
            match trust {
                None => {
                    let (client, driven) = config
                        .connect(tokio_postgres::NoTls)
                        .await
                        .map_err(|error| Cause::of_postgres(&error))?;
                    AsyncPgConnection::try_from_client_and_connection(client, driven).await
                }
                Some(trust) => {
                    let tls = trust.client_config().map_err(|error| Cause::lasting(error.to_string()))?;
                    let (client, driven) = config
                        .connect(MakeRustlsConnect::new(tls))
                        .await
                        .map_err(|error| Cause::of_postgres(&error))?;
                    AsyncPgConnection::try_from_client_and_connection(client, driven).await
                }
            }
            .map_err(|error| Cause::passing(error.to_string()))
        })?;
        Ok(self.wrap(connection))
    }

    pub(crate) fn mysql(&self, opts: &mysql_async::Opts, halt: &Halt) -> Result<MysqlWrapper, Cause> {
        let connection = self.connect(halt, async {
            let connection = timeout(CONNECT_TIMEOUT, mysql_async::Conn::new(opts.clone()))
                .await
                .map_err(|_| Cause::passing(format!("no answer within {CONNECT_TIMEOUT:?}")))?
                .map_err(|error| Cause::of_mysql(&error))?;
            AsyncMysqlConnection::try_from(connection)
                .await
                .map_err(|error| Cause::passing(error.to_string()))
        })?;
        Ok(self.wrap(connection))
    }

    fn connect<C>(
        &self,
        halt: &Halt,
        connecting: impl Future<Output = Result<C, Cause>>,
    ) -> Result<C, Cause> {
        self.block_on(async {
            tokio::select! {
                connected = connecting => connected,
                _ = halt.requested() => Err(Cause::passing("it is not waited for any more".to_owned())),
            }
        })
    }

    fn wrap<C: AsyncConnection>(&self, connection: C) -> AsyncConnectionWrapper<C, Self> {
        BEING_WRAPPED.set(Some(self.clone()));
        AsyncConnectionWrapper::from(connection)
    }

    /// Drops the connection. When nothing is wrong, the server is told, so that it logs no broken connection.
    pub(crate) fn close(self, connection: impl Sized, in_order: bool) {
        {
            // mysql_async starts a task when it is dropped.
            let _inside = self.0.runtime().enter();
            drop(connection);
        }
        if in_order && Handle::try_current().is_err() {
            self.0.runtime().block_on(async {
                for _ in 0..TURNS_TO_CLOSE {
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}

/// How work on a connection ended, when it did not end by returning.
pub(crate) enum Unwound {
    TimedOut(Duration),
    Panicked(Box<dyn Any + Send>),
}

/// Runs `work`, and tells a passed deadline from a panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Unwound> {
    // The state that the work used is never looked at again if it unwinds.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast::<TimedOut>() {
        Ok(timed_out) => Unwound::TimedOut(timed_out.0),
        Err(payload) => Unwound::Panicked(payload),
    })
}
