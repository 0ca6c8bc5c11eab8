//! Registrations: the registry's half of the client.

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Map, Value};

use crate::{Client, Error, Repeat};
use estimand_api::names::DataName;
use estimand_api::registration::{Change, Registered, Registration};

impl Client {
    /// Registers; a taken name is a problem with status 409.
    pub async fn register(&self, registration: &Registration) -> Result<Registered, Error> {
        self.register_map(registration.to_map()).await
    }

    /// Registers a map in the format of the wire.
    pub async fn register_map(&self, map: Map<String, Value>) -> Result<Registered, Error> {
        self.submit(Method::POST, map, Repeat::OnlyIfNotTaken).await
    }

    /// Replaces the registration of the same name; 404 if there is none.
    pub async fn replace_map(&self, map: Map<String, Value>) -> Result<Registered, Error> {
        self.submit(Method::PUT, map, Repeat::Safe).await
    }

    async fn submit(
        &self,
        method: Method,
        map: Map<String, Value>,
        repeat: Repeat,
    ) -> Result<Registered, Error> {
        let body = Bytes::from(Value::Object(map).to_string());
        let answer = self.send(method, self.url(&["api", "registry"], &[]), Some(body), repeat).await?;
        registered(self.read(&answer)?)
    }

    /// Stops it everywhere and forgets it; 404 if there is none. The returned hint says what could not be
    /// confirmed: a node that is not heard of stops it when it is back.
    pub async fn unregister(&self, name: &DataName) -> Result<Option<String>, Error> {
        let url = self.url(&["api", "registry", name.as_str()], &[]);
        let answer = self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await?;
        Ok(answer.hint)
    }

    pub async fn registrations(&self) -> Result<Vec<Registered>, Error> {
        let answer = self.get(self.url(&["api", "registry"], &[])).await?;
        self.read::<Vec<Map<String, Value>>>(&answer)?.into_iter().map(registered).collect()
    }

    /// The same with the values of secrets, for the processes that run them.
    pub async fn registrations_with_secrets(&self) -> Result<Vec<Registered>, Error> {
        let answer = self.get(self.url(&["api", "secrets"], &[])).await?;
        self.read::<Vec<Map<String, Value>>>(&answer)?.into_iter().map(registered).collect()
    }

    pub async fn registration(&self, name: &DataName) -> Result<Registered, Error> {
        let answer = self.get(self.url(&["api", "registry", name.as_str()], &[])).await?;
        registered(self.read(&answer)?)
    }

    /// The audit trail of a name, newest first.
    pub async fn registration_history(&self, name: &DataName) -> Result<Vec<Change>, Error> {
        let answer = self.get(self.url(&["api", "registry", name.as_str(), "history"], &[])).await?;
        self.read(&answer)
    }
}

fn registered(map: Map<String, Value>) -> Result<Registered, Error> {
    Registered::from_map(map).map_err(|problem| Error::Problem(Box::new(problem)))
}
