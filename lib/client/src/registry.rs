//! Registrations: the registry's half of the client.

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::{Client, Error, Repeat};
use estimand_api::names::DataName;
use estimand_api::registration::{BatchOutcome, Change, Registration, RegistrationRecord};

/// Changes of several registrations that take effect together or not at all.
#[derive(Debug, Clone, Default)]
pub struct RegistryChange {
    /// In the format of the wire; each is registered, or replaces what is there.
    pub registrations: Vec<Map<String, Value>>,
    pub remove: Vec<DataName>,
    /// The set to which belongs what is registered or replaced.
    pub config_set: Option<DataName>,
    /// Nothing is done.
    pub dry_run: bool,
    /// Names are removed also if others need them.
    pub force: bool,
}

/// The answer to a [`RegistryChange`].
#[derive(Debug, Clone)]
pub struct ChangedRegistry {
    pub outcomes: Vec<BatchOutcome>,
    /// The part that could not be confirmed.
    pub hint: Option<String>,
}

impl Client {
    /// Registers; a taken name is a problem with status 409.
    pub async fn register(&self, registration: &Registration) -> Result<RegistrationRecord, Error> {
        self.register_map(registration.to_map()).await
    }

    /// Registers a map in the format of the wire.
    pub async fn register_map(&self, map: Map<String, Value>) -> Result<RegistrationRecord, Error> {
        self.submit(Method::POST, map, Repeat::OnlyIfNotTaken).await
    }

    /// Replaces the registration of the same name; 404 if there is none.
    pub async fn replace_map(&self, map: Map<String, Value>) -> Result<RegistrationRecord, Error> {
        self.submit(Method::PUT, map, Repeat::Safe).await
    }

    async fn submit(
        &self,
        method: Method,
        map: Map<String, Value>,
        repeat: Repeat,
    ) -> Result<RegistrationRecord, Error> {
        let body = Bytes::from(Value::Object(map).to_string());
        let answer = self.send(method, self.url(&["api", "registry"], &[]), Some(body), repeat).await?;
        registered(self.read(&answer)?)
    }

    /// Changes the fields that a JSON merge patch names; 404 if there is no such registration. With the member `version`,
    /// only if that is the current one.
    pub async fn patch_registration(
        &self,
        name: &DataName,
        patch: Map<String, Value>,
    ) -> Result<RegistrationRecord, Error> {
        let body = Bytes::from(Value::Object(patch).to_string());
        let url = self.url(&["api", "registry", name.as_str()], &[]);
        registered(self.read(&self.send(Method::PATCH, url, Some(body), Repeat::Safe).await?)?)
    }

    /// Gives a registration another name. The returned hint says what could not be confirmed, as for
    /// [`unregister`](Self::unregister).
    pub async fn rename_registration(
        &self,
        name: &DataName,
        to: &DataName,
        force: bool,
    ) -> Result<(RegistrationRecord, Option<String>), Error> {
        let url = self.url(&["api", "registry", name.as_str(), "rename"], &flag("force", force));
        let body = Bytes::from(json!({ "to": to }).to_string());
        let answer = self.send(Method::POST, url, Some(body), Repeat::OnlyIfNotTaken).await?;
        Ok((registered(self.read(&answer)?)?, answer.hint))
    }

    /// Changes several registrations, all or nothing; or, dry, says what would change.
    pub async fn change_registrations(&self, change: &RegistryChange) -> Result<ChangedRegistry, Error> {
        let RegistryChange { registrations, remove, config_set, dry_run, force } = change;
        let mut body = json!({ "registrations": registrations, "remove": remove });
        if let Some(set) = config_set {
            body["configSet"] = json!(set);
        }
        let query = [flag("dryRun", *dry_run), flag("force", *force)].concat();
        let url = self.url(&["api", "registry"], &query);
        let body = Bytes::from(body.to_string());
        // A name that is removed cannot be removed again, so an answer that was lost is not asked for twice.
        let repeat = if remove.is_empty() { Repeat::Safe } else { Repeat::OnlyIfNotTaken };
        let answer = self.send(Method::PATCH, url, Some(body), repeat).await?;
        Ok(ChangedRegistry { outcomes: self.read(&answer)?, hint: answer.hint })
    }

    /// Stops it everywhere and forgets it; 404 if there is none, 409 if others need it and it is not forced. The returned
    /// hint says what could not be confirmed: a node that is not heard of stops it when it is back.
    pub async fn unregister(&self, name: &DataName, force: bool) -> Result<Option<String>, Error> {
        let url = self.url(&["api", "registry", name.as_str()], &flag("force", force));
        let answer = self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await?;
        Ok(answer.hint)
    }

    pub async fn registrations(&self) -> Result<Vec<RegistrationRecord>, Error> {
        let answer = self.get(self.url(&["api", "registry"], &[])).await?;
        self.read::<Vec<Map<String, Value>>>(&answer)?.into_iter().map(registered).collect()
    }

    /// The same with the values of secrets, for the processes that run them.
    pub async fn registrations_with_secrets(&self) -> Result<Vec<RegistrationRecord>, Error> {
        let answer = self.get(self.url(&["api", "secrets"], &[])).await?;
        self.read::<Vec<Map<String, Value>>>(&answer)?.into_iter().map(registered).collect()
    }

    pub async fn registration(&self, name: &DataName) -> Result<RegistrationRecord, Error> {
        let answer = self.get(self.url(&["api", "registry", name.as_str()], &[])).await?;
        registered(self.read(&answer)?)
    }

    /// The audit trail of a name, newest first.
    pub async fn registration_history(&self, name: &DataName) -> Result<Vec<Change>, Error> {
        let answer = self.get(self.url(&["api", "registry", name.as_str(), "history"], &[])).await?;
        self.read(&answer)
    }
}

/// A query parameter that is there or not.
pub(super) fn flag(name: &str, given: bool) -> Vec<(&str, &str)> {
    given.then_some((name, "true")).into_iter().collect()
}

fn registered(map: Map<String, Value>) -> Result<RegistrationRecord, Error> {
    RegistrationRecord::from_map(map).map_err(|problem| Error::Problem(Box::new(problem)))
}
