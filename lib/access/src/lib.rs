//! Access control. Tokens are kept by their digests; admission looks each one up in memory, so that no request waits
//! for a database; each change is stored with its entry in the audit trail.
//!
//! Every service has an [`Access`] of its own on the database that they share. One that serves the registry also
//! makes tokens, lists and revokes them ([`Access::tokens`]); the others look for changes every two seconds. Only its
//! holder knows a token, with one exception: the operator's first token is kept in the data folder, for the users who
//! may read that.
//!
//! The limits of users travel with the tokens: stored by operators, read by every service.
//!
//! Admission lets a request go on to a route. The data service decides which nodes' values a node may write.

mod admission;
mod audit;
mod digest;
mod http;
mod joining;
mod limits;
mod operator_token;
mod tokens;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use estimand_api::access::{Grant, NewToken, Token};
use estimand_api::problem::Problem;
use estimand_runtime::{Clock, Next, PartReady, Readiness, Rounds, Tasks, Work};
use estimand_store::{AuditRow, Error, StoreUrl, TokenRow, UserLimitRow, Worker};
use estimand_web::{Admission, LabelGrant, Role, Routes, ServedPart, Users};
use tokio::sync::watch;

pub use admission::Openness;
pub use joining::Signer;
use tokens::{Credential, CredentialKind, Tokens};

/// The time between two looks for changes by other services.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The options of a guard.
pub struct Options {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    pub openness: Openness,
    /// Only this machine reaches the service, so requests name this machine as their host.
    pub is_local: bool,
    /// Where the operator's first token is kept; none: this process makes none.
    pub kept_in: Option<PathBuf>,
    /// Is told the limits of users, for all services of this process.
    pub users: Users,
}

/// The access of one process. Clones are the same.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    worker: Worker,
    clock: Arc<dyn Clock>,
    openness: Openness,
    is_local: bool,
    kept_in: Option<PathBuf>,
    users: Users,
    tokens: ArcSwap<Tokens>,
    /// Tells long-running responses that the tokens are other ones.
    changed: watch::Sender<()>,
    /// Tokens of this process alone.
    own: Mutex<Vec<(Token, Credential)>>,
    /// Signs the certificates of nodes, where that is done.
    signer: OnceLock<Signer>,
    /// Held while tokens are changed, or loaded and published: otherwise tokens that were read earlier would replace
    /// newer ones.
    turn: tokio::sync::Mutex<()>,
}

impl Access {
    /// Starts looking for tokens. Until the first look has succeeded only [`Access::admit`]ted ones let in.
    pub fn start(options: Options, tasks: &Tasks, readiness: &Readiness) -> Access {
        let access = Access(Arc::new(Inner {
            worker: Worker::start(options.store, "access"),
            clock: options.clock,
            openness: options.openness,
            is_local: options.is_local,
            kept_in: options.kept_in,
            users: options.users,
            tokens: ArcSwap::default(),
            changed: watch::Sender::new(()),
            own: Mutex::default(),
            signer: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
        }));
        let (looking, ready) = (access.clone(), readiness.part("tokens"));
        let driving = tasks.clone();
        tasks.spawn("tokens", move |stop| {
            let driver = driving.driver("tokens", "reading the tokens").every(LOOK_EVERY);
            let mut driver = driver.pauses(FIRST_PAUSE, LONGEST_PAUSE);
            let mut look = Look { access: looking.clone(), ready: ready.clone() };
            async move { driver.run(&mut look, &Rounds::new(), stop.requested()).await }
        });
        access
    }

    /// A token that is known to this process alone, for as long as it lives: with it the parts speak to each other.
    pub fn admit(&self, name: &str, grant: Grant, node: Option<&str>) -> Token {
        let token = digest::random_token();
        self.admit_token(token.clone(), name, grant, node);
        token
    }

    /// Admits a token that was made elsewhere, such as one that all services of a cluster are given.
    pub fn admit_token(&self, token: Token, name: &str, grant: Grant, node: Option<&str>) {
        let (name, node) = (name.into(), node.map(Into::into));
        let kind = CredentialKind::Token(digest::of(token.expose()));
        // The agent of this process is the operator's own.
        let labels = LabelGrant::Claimed;
        let (user, expires_at, is_used) = (None, None, false);
        let credential = Credential { kind, name, grant, node, user, expires_at, is_used, labels };
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.push((token, credential));
        let rows = self.0.tokens.load().stored().cloned();
        self.open(Tokens::new(rows, &own));
    }

    /// From now on nodes can join here. Only the first call counts.
    pub fn sign_with(&self, signer: Signer) {
        let _ = self.0.signer.set(signer);
    }

    /// Decides about every request.
    pub fn admission(&self) -> Arc<dyn Admission> {
        Arc::new(admission::TokenAdmission::new(self.clone()))
    }

    /// The part that makes, lists and revokes tokens.
    pub fn tokens(&self) -> impl ServedPart + use<> {
        TokenRoutes(self.clone())
    }

    /// The part that agents ask for certificates, wherever a manager is.
    pub fn joining(&self) -> impl ServedPart + use<> {
        JoiningRoutes(self.clone())
    }

    /// Reads the tokens. The first time the operator's is made if there is none, before any of them lets anybody in.
    async fn look(&self) -> Result<(), LookError> {
        let _turn = self.0.turn.lock().await;
        if self.0.tokens.load().stored().is_none()
            && let Some(place) = self.0.kept_in.clone()
        {
            let ((stored, _), now) = (self.read().await?, self.0.clock.now_micros());
            let by = operator_token::author(&place);
            let kept = tokio::task::spawn_blocking(move || operator_token::keep(&place, &stored, now));
            let rows = kept.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
            if !rows.is_empty() {
                self.put(vec![], rows, &by).await?;
            }
        }
        Ok(self.load().await?)
    }

    /// Reads the stored tokens and limits and shows them. The caller holds the turn.
    async fn load(&self) -> Result<(), Error> {
        let (rows, limits) = self.read().await?;
        self.0.users.set_limits(limits::of_rows(&limits));
        let own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.tokens.load().stored().is_none_or(|known| **known != rows) {
            self.open(Tokens::new(Some(Arc::new(rows)), &own));
        }
        Ok(())
    }

    async fn read(&self) -> Result<(Vec<TokenRow>, Vec<UserLimitRow>), Error> {
        // Once: a migration takes the writers' turn, however little there is to do.
        let first = self.0.tokens.load().stored().is_none();
        let rows = self.0.worker.run(move |connection| {
            if first {
                connection.migrate()?;
            }
            Ok((connection.load_tokens()?, connection.load_user_limits()?))
        });
        rows.await
    }

    /// These decide from now on.
    fn open(&self, tokens: Tokens) {
        self.0.tokens.store(Arc::new(tokens));
        self.0.changed.send_replace(());
    }

    /// Makes a token durable. The token itself is nowhere but in the answer.
    async fn create(&self, new: &NewToken, by: &str) -> Result<(Token, TokenRow), Problem> {
        let _turn = self.0.turn.lock().await;
        self.load().await.map_err(|error| unreachable(&error))?;
        let now = self.0.clock.now_micros();
        self.0.tokens.load().check_new(new, now)?;
        let token = digest::random_token();
        let row = tokens::row_of(new, &token, by, now);
        self.store(vec![(row.clone(), "created")], by).await.map_err(|error| unreachable(&error))?;
        Ok((token, row))
    }

    async fn revoke(&self, name_or_id: &str, by: &str, own_name: &str) -> Result<TokenRow, Problem> {
        let _turn = self.0.turn.lock().await;
        self.load().await.map_err(|error| unreachable(&error))?;
        let now = self.0.clock.now_micros();
        let tokens = self.0.tokens.load_full();
        let key = name_or_id.strip_prefix(KEY_DIGEST).and_then(digest::from_hex);
        let row = match key {
            Some(key) => tokens.revoked_key(&key, by, now),
            None => tokens.revoked(name_or_id, own_name, now)?,
        };
        self.store(vec![(row.clone(), "revoked")], by).await.map_err(|error| unreachable(&error))?;
        Ok(row)
    }

    /// Stores tokens with their entries in the audit trail, and shows them. The caller holds the turn.
    async fn store(&self, rows: Vec<(TokenRow, &'static str)>, by: &str) -> Result<(), Error> {
        self.store_unless_revoked(vec![], rows, by).await.map(drop)
    }

    /// The same, unless one of the `live` tokens was revoked elsewhere in the meantime. Returns true if it was stored.
    async fn store_unless_revoked(
        &self,
        live: Vec<String>,
        rows: Vec<(TokenRow, &'static str)>,
        by: &str,
    ) -> Result<bool, Error> {
        let stored = self.put(live, rows, by).await?;
        self.load().await?;
        Ok(stored)
    }

    /// Stores them, and does not show them yet.
    async fn put(
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
                    detail: Some(tokens::detail(&row).to_string()),
                };
                (row, told)
            })
            .unzip();
        self.0.worker.run(move |connection| connection.put_tokens(&live, &rows, &told)).await
    }
}

struct TokenRoutes(Access);

impl ServedPart for TokenRoutes {
    fn routes(&self) -> Routes {
        Routes::new("access")
            .share(self.0.clone())
            .add(Role::Operate, http::create, http::__path_create)
            .add(Role::Operate, http::list, http::__path_list)
            .add(Role::Operate, http::revoke, http::__path_revoke)
            .add(Role::Operate, limits::list, limits::__path_list)
            .add(Role::Operate, limits::get, limits::__path_get)
            .add(Role::Operate, limits::change, limits::__path_change)
            .add(Role::Operate, limits::reset, limits::__path_reset)
            .add(Role::Operate, audit::list, audit::__path_list)
    }
}

struct JoiningRoutes(Access);

impl ServedPart for JoiningRoutes {
    fn routes(&self) -> Routes {
        let routes = Routes::new("certificates").share(self.0.clone());
        routes.add(Role::Join, joining::certificate, joining::__path_certificate)
    }
}

/// Looks for tokens that others have changed.
struct Look {
    access: Access,
    ready: PartReady,
}

impl Work for Look {
    type Error = LookError;

    // A crash between its steps leaves nothing that the next start does not make good, so neither does a stop.
    async fn round(&mut self) -> Result<Next, LookError> {
        if let Err(error) = self.access.look().await {
            if self.access.0.tokens.load().stored().is_none() {
                self.ready.not_ready(&error);
            }
            return Err(error);
        }
        self.ready.ready();
        Ok(Next::Period)
    }
}

/// The tokens could not be read.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    Kept(#[from] operator_token::KeptError),
}

/// The beginning of the SHA-256 of a certificate's public key, where it is given in place of a name.
const KEY_DIGEST: &str = "sha256:";

fn unreachable(error: &Error) -> Problem {
    tracing::warn!(%error, "a request about tokens cannot be answered");
    Problem::unavailable("the database in which tokens are kept does not answer", 1)
}
