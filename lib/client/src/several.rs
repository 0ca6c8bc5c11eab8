//! Several services behind one client: each request goes to the first that serves it.
//!
//! A service says with a problem of its own kind that it does not serve a path, and a manager that it stands by; one that
//! does not answer is passed over, too. A change that a service may have taken is sent to no other one.

use estimand_api::problem::kind;
use reqwest::Method;
use url::Url;

use crate::{Answer, Client, Error, Payload, Repeat, RequestFailure};

impl Client {
    /// The same, with clients of further services: each request goes to the first that serves it. So services that run
    /// apart are used like one, and of several managers the one that leads is found.
    pub fn with_others(self, others: Vec<Client>) -> Self {
        Client { others: others.into(), ..self }
    }

    /// This client and those of further services.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Client> {
        std::iter::once(self).chain(self.others.iter())
    }

    /// A URL of the service of `first` at this one.
    pub(crate) fn rebased(&self, first: &Client, url: &Url) -> Url {
        let below = |base: &Url| base.path().trim_end_matches('/').to_owned();
        let rest = url.path().strip_prefix(below(&first.base).as_str()).unwrap_or(url.path());
        let mut rebased = self.base.clone();
        rebased.set_path(&format!("{}{rest}", below(&self.base)));
        rebased.set_query(url.query());
        rebased
    }

    /// Grows whenever a certificate of one of them has been replaced.
    pub(crate) fn number(&self) -> u64 {
        self.services().map(|service| service.http.number()).sum()
    }

    /// Sends a request once, to the first service that serves it.
    pub(crate) async fn send_to_one(
        &self,
        method: &Method,
        url: &Url,
        body: Option<&Payload>,
        repeat: Repeat,
    ) -> Result<Answer, RequestFailure> {
        let mut failed: Option<RequestFailure> = None;
        for service in self.services() {
            let url = service.rebased(self, url);
            let attempt = match service.send_once(method.clone(), url, body.cloned()).await {
                Ok(answer) => return Ok(answer),
                Err(attempt) => attempt,
            };
            if !attempt.error.is_for_another()
                || (attempt.taken && repeat != Repeat::Safe && !attempt.not_served())
            {
                return Err(attempt);
            }
            // That the right one does not answer says more than that others do not serve it.
            if failed.as_ref().is_none_or(RequestFailure::not_served) {
                failed = Some(attempt);
            }
        }
        let Some(failed) = failed else {
            return Err(RequestFailure { error: Error::Address(String::new()), taken: false, unread: false });
        };
        if failed.not_served() && !self.others.is_empty() {
            let asked: Vec<&str> = self.services().map(|service| service.base.as_str()).collect();
            let cause = format!("none of {} serves {}", asked.join(", "), url.path());
            let url = self.base.to_string();
            return Err(RequestFailure {
                error: Error::Unexpected { url, cause },
                taken: false,
                unread: false,
            });
        }
        Err(failed)
    }
}

impl RequestFailure {
    fn not_served(&self) -> bool {
        matches!(&self.error, Error::Problem(problem) if problem.kind == kind::NOT_SERVED)
    }
}

impl Error {
    /// True if another service may answer: this one does not serve it, stands by, or does not answer.
    pub(crate) fn is_for_another(&self) -> bool {
        match self {
            Error::Problem(problem) => [kind::NOT_SERVED, kind::STANDING_BY].contains(&problem.kind.as_str()),
            Error::Unreachable { .. } => true,
            _ => false,
        }
    }
}
