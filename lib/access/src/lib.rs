//! Who may do what. Tokens are kept by their digests; the policy looks each one up in memory, so that no request waits
//! for a database; what changes is stored with its entry in the audit trail.
//!
//! Every service has an [`Access`] of its own on the database that they share. One that serves the registry also
//! makes tokens, lists and revokes them ([`Access::routes`]); the others look for changes every two seconds. What a
//! token says is known to nobody but its holder, with one exception: the operator's first token, which is kept in
//! the data folder for whoever may read that.
//!
//! This crate decides who comes in. Which node's values a node may write is decided where the values are.

mod audit;
mod book;
mod digest;
mod handlers;
mod joining;
mod keep;
mod policy;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use estimand_api::access::{Grant, NewToken, Token};
use estimand_api::problem::Problem;
use estimand_runtime::{Clock, PartReady, Readiness, Stop, Tasks};
use estimand_store::{AuditRow, Error, StoreUrl, TokenRow, Worker};
use estimand_web::{Policy, Role, Routes};
use tokio::sync::watch;

use book::{Book, By, Known};
pub use joining::Signer;
pub use policy::Openness;

/// Between two looks at what others have changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How to guard a service.
pub struct Options {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    pub openness: Openness,
    /// Where the operator's first token is kept; none: this process makes none.
    pub kept_in: Option<PathBuf>,
}

/// The access of one process. Clones are the same.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    worker: Worker,
    clock: Arc<dyn Clock>,
    openness: Openness,
    kept_in: Option<PathBuf>,
    book: ArcSwap<Book>,
    /// Says that the book is another one, to whatever was let in and goes on.
    changed: watch::Sender<()>,
    /// Tokens of this process alone.
    own: Mutex<Vec<(Token, Known)>>,
    /// What signs the certificates of nodes, where that is done.
    signer: OnceLock<Signer>,
    /// Whoever changes what is stored or shows what was loaded: one after the other, or what is newer would be
    /// replaced by what was read before it.
    turn: tokio::sync::Mutex<()>,
}

impl Access {
    /// Starts looking for tokens. Until the first look has succeeded only [`Access::admit`]ted ones let in.
    pub fn start(options: Options, tasks: &Tasks, readiness: &Readiness) -> Access {
        let access = Access(Arc::new(Inner {
            worker: Worker::start(options.store, "access"),
            clock: options.clock,
            openness: options.openness,
            kept_in: options.kept_in,
            book: ArcSwap::default(),
            changed: watch::Sender::new(()),
            own: Mutex::default(),
            signer: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
        }));
        let (looking, ready) = (access.clone(), readiness.part("tokens"));
        tasks.spawn("tokens", move |stop| {
            let (access, ready) = (looking.clone(), ready.clone());
            async move { access.look_until(&stop, &ready).await }
        });
        access
    }

    /// A token that is known to this process alone, for as long as it lives: with it the parts speak to each other.
    pub fn admit(&self, name: &str, grant: Grant, node: Option<&str>) -> Token {
        let token = digest::random_token();
        self.admit_token(token.clone(), name, grant, node);
        token
    }

    /// Lets a token in that somebody else has made, such as one that all services of a cluster are given.
    pub fn admit_token(&self, token: Token, name: &str, grant: Grant, node: Option<&str>) {
        let (name, node) = (name.into(), node.map(Into::into));
        let by = By::Token(digest::of(token.expose()));
        let known = Known { by, name, grant, node, expires_at: None, is_used: false };
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.push((token, known));
        let rows = self.0.book.load().stored().cloned();
        self.open(Book::new(rows, &own));
    }

    /// From now on nodes can join here. Only the first call counts.
    pub fn sign_with(&self, signer: Signer) {
        let _ = self.0.signer.set(signer);
    }

    /// Decides about every request.
    pub fn policy(&self) -> Arc<dyn Policy> {
        Arc::new(policy::Tokens::new(self.clone()))
    }

    /// What only the process answers that makes tokens.
    pub fn routes(&self) -> Routes {
        Routes::new("access")
            .share(self.clone())
            .add(Role::Operate, handlers::create, handlers::__path_create)
            .add(Role::Operate, handlers::list, handlers::__path_list)
            .add(Role::Operate, handlers::revoke, handlers::__path_revoke)
            .add(Role::Operate, audit::list, audit::__path_list)
    }

    /// What is answered wherever agents ask.
    pub fn agent_routes(&self) -> Routes {
        Routes::new("certificates").share(self.clone()).add(
            Role::Join,
            joining::certificate,
            joining::__path_certificate,
        )
    }

    async fn look_until(&self, stop: &Stop, ready: &PartReady) {
        let mut pause = Duration::from_millis(50);
        let mut told = false;
        loop {
            // A crash between its steps leaves nothing that the next start does not make good, so neither does a stop.
            let looked = tokio::select! {
                () = stop.requested() => return,
                looked = self.look() => looked,
            };
            let wait = match looked {
                Ok(()) => {
                    ready.ready();
                    (pause, told) = (Duration::from_millis(50), false);
                    LOOK_EVERY
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "the tokens cannot be read; those that are known go on");
                        told = true;
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    pause
                }
            };
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        let _turn = self.0.turn.lock().await;
        self.load().await?;
        match &self.0.kept_in {
            Some(place) if self.0.book.load().is_new(place) => keep::operator(self, place).await,
            _ => Ok(()),
        }
    }

    /// Reads what is stored. Whoever calls this has the turn.
    async fn load(&self) -> Result<(), Error> {
        // Once: a migration takes the writers' turn, however little there is to do.
        let first = self.0.book.load().stored().is_none();
        let rows = self.0.worker.run(move |connection| {
            if first {
                connection.migrate()?;
            }
            connection.load_tokens()
        });
        let rows = rows.await?;
        let own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.book.load().stored().is_none_or(|known| **known != rows) {
            self.open(Book::new(Some(Arc::new(rows)), &own));
        }
        Ok(())
    }

    /// From now on this one decides.
    fn open(&self, book: Book) {
        self.0.book.store(Arc::new(book));
        self.0.changed.send_replace(());
    }

    /// Makes a token durable. What it says is nowhere but in the answer.
    async fn create(&self, new: &NewToken, by: &str) -> Result<(Token, TokenRow), Problem> {
        let _turn = self.0.turn.lock().await;
        self.load().await.map_err(|error| unreachable(&error))?;
        let now = self.0.clock.now_micros();
        self.0.book.load().check_new(new, now)?;
        let token = digest::random_token();
        let row = book::row_of(new, &token, by, now);
        self.store(vec![(row.clone(), "created")], by).await.map_err(|error| unreachable(&error))?;
        Ok((token, row))
    }

    async fn revoke(&self, which: &str, by: &str, own_name: &str) -> Result<TokenRow, Problem> {
        let _turn = self.0.turn.lock().await;
        self.load().await.map_err(|error| unreachable(&error))?;
        let now = self.0.clock.now_micros();
        let book = self.0.book.load_full();
        let key = which.strip_prefix(KEY_DIGEST).and_then(digest::from_hex);
        let row = match key {
            Some(key) => book.revoked_key(&key, by, now),
            None => book.revoked(which, own_name, now)?,
        };
        self.store(vec![(row.clone(), "revoked")], by).await.map_err(|error| unreachable(&error))?;
        Ok(row)
    }

    /// Stores tokens with what the trail is told of them, and shows them. Whoever calls this has the turn.
    async fn store(&self, rows: Vec<(TokenRow, &'static str)>, by: &str) -> Result<(), Error> {
        self.store_unless_revoked(vec![], rows, by).await.map(drop)
    }

    /// The same, unless somebody has revoked one of these meanwhile, elsewhere; whether it was stored.
    async fn store_unless_revoked(
        &self,
        live: Vec<String>,
        rows: Vec<(TokenRow, &'static str)>,
        by: &str,
    ) -> Result<bool, Error> {
        let (at, actor) = (self.0.clock.now_micros(), estimand_store::actor(by));
        let (rows, told): (Vec<TokenRow>, Vec<AuditRow>) = rows
            .into_iter()
            .map(|(row, action)| {
                let told = AuditRow {
                    at,
                    id: digest::random_id(),
                    kind: "token".to_owned(),
                    subject: row.name.clone(),
                    action: action.to_owned(),
                    actor: actor.clone(),
                    detail: Some(book::detail(&row).to_string()),
                };
                (row, told)
            })
            .unzip();
        let stored = self.0.worker.run(move |connection| connection.put_tokens(&live, &rows, &told)).await?;
        self.load().await?;
        Ok(stored)
    }
}

/// With it begins, in place of a name, the SHA-256 of the public key of a certificate.
const KEY_DIGEST: &str = "sha256:";

fn unreachable(error: &Error) -> Problem {
    tracing::warn!(%error, "a request about tokens cannot be answered");
    Problem::unavailable("the database in which tokens are kept does not answer", 1)
}
