//! Access to the services of this process, and the credentials by which they let each other in.

use std::path::{Path, PathBuf};

use anyhow::bail;
use estimand_access::{Access, Openness};
use estimand_api::access::{Grant, Token};
use estimand_api::names::NodeName;
use estimand_client::{self as client, Client, Credentials};
use estimand_runtime::{Readiness, Tasks};
use estimand_store::StoreUrl;
use estimand_web::Users;

use crate::options::Options;
use crate::tls::ServiceTls;
use estimand_cli::credentials::TOKEN_FILE;

const ALONE: &str = "services that run apart speak to each other with certificates (--tls DIR), or with a token: give the \
    same one to all of them in ESTIMAND_TOKEN, e.g. `export ESTIMAND_TOKEN=$(head -c 32 /dev/urandom | base64 | tr -d \
    '=+/')`";

/// Checks that the services of this process can show others who they are.
pub fn check(options: &Options, secure: Option<&ServiceTls>) -> anyhow::Result<()> {
    let given = Credentials::of_environment()?.token;
    let has_certificate = secure.is_some_and(ServiceTls::is_known_to_others);
    let speaks_to_others = options.services.iter().any(|service| service.speaks_to_others());
    if given.is_none() && !has_certificate && speaks_to_others && !options.insecure {
        bail!(ALONE);
    }
    Ok(())
}

/// True if the operator's token is given, and none is made.
pub fn is_given_a_token() -> bool {
    Credentials::of_environment().is_ok_and(|given| given.token.is_some())
}

/// The access of this process, and the credentials of its own parts.
pub struct Guard {
    pub access: Access,
    kept_in: Option<PathBuf>,
    /// For this process itself.
    own: Token,
    /// Given from outside, so that others know it as well.
    given: Option<Token>,
    secure: Option<ServiceTls>,
    /// Where it listens, as soon as it does.
    address: Option<String>,
}

impl Guard {
    pub fn start(
        options: &Options,
        secure: Option<ServiceTls>,
        store: &StoreUrl,
        users: &Users,
        tasks: &Tasks,
        readiness: &Readiness,
    ) -> anyhow::Result<Guard> {
        let given = Credentials::of_environment()?.token;
        let keeps = given.is_none() && options.has(|kind| kind.makes_tokens);
        let kept_in = keeps.then(|| options.data_dir.join(TOKEN_FILE));
        let access = Access::start(
            estimand_access::Options {
                store: store.clone(),
                clock: std::sync::Arc::new(estimand_runtime::SystemClock),
                openness: openness(options),
                is_local: options.is_local(),
                kept_in: kept_in.clone(),
                users: users.clone(),
            },
            tasks,
            readiness,
        );
        if let Some(secure) = &secure {
            secure.sign_with(&access)?;
        }
        let own = match &given {
            Some(token) => {
                access.admit_token(token.clone(), "ESTIMAND_TOKEN", Grant::Operate, None);
                token.clone()
            }
            None => access.admit("estimand", Grant::Operate, None),
        };
        Ok(Guard { access, kept_in, own, given, secure, address: None })
    }

    /// Says at which address this process itself is asked.
    pub fn listens_at(&mut self, address: &str) {
        self.address = Some(address.to_owned());
    }

    /// The file with the operator's token, if this process makes one.
    pub fn kept_in(&self) -> Option<&Path> {
        self.kept_in.as_deref()
    }

    /// A client for a part of this process.
    pub fn client(&self, address: &str, mut options: client::Options) -> Result<Client, client::Error> {
        options.credentials = match self.address.as_deref() == Some(address) {
            true => self.own(self.own.clone()),
            false => self.others(),
        };
        Client::with_options(address, options)
    }

    /// A client of this process itself for somebody who shows a token.
    pub fn client_of(&self, address: &str, token: Option<Token>) -> Result<Client, client::Error> {
        let trust = self.secure.as_ref().map(ServiceTls::trust_itself);
        let credentials = Credentials { token, trust, identity: None };
        Client::with_options(address, client::Options { credentials, ..client::Options::default() })
    }

    /// Credentials for requests to this process itself.
    fn own(&self, token: Token) -> Credentials {
        let trust = self.secure.as_ref().map(ServiceTls::trust_itself);
        Credentials { token: Some(token), trust, identity: None }
    }

    /// Credentials for requests to other processes: a token that only this one knows is nothing to them.
    fn others(&self) -> Credentials {
        let token = self.given.clone();
        match &self.secure {
            Some(secure) => secure.for_others(token),
            None => Credentials { token, ..Credentials::default() },
        }
    }

    /// Credentials of the agent of this process: it speaks for its node like any other.
    pub fn of_agent(&self, node: &NodeName) -> Credentials {
        let token = self.access.admit(&format!("agent of {node}"), Grant::Node, Some(node.as_str()));
        self.own(token)
    }
}

fn openness(options: &Options) -> Openness {
    match () {
        () if options.insecure => Openness::Everything,
        () if options.is_open_here() => Openness::Values,
        () => Openness::Nothing,
    }
}
