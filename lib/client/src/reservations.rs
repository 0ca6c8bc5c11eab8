//! Reservations, prices and credits: the part of the client for those who plan ahead.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::{Answer, Client, Error, PageQuery, Payload, Repeat};
use estimand_api::headers::IDEMPOTENCY_KEY_HEADER;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::reservation::{
    CreditAccount, CreditAccounts, CreditGrant, CreditJournal, PriceCurve, PriceQuote, PriceQuotes,
    ReservationPage, ReservationRecord, ReservationsMade,
};

/// The prices that are asked for.
#[derive(Debug, Clone, Default)]
pub struct PriceQuery {
    /// Such as `cpu=4,memory=8GiB`.
    pub resources: String,
    pub duration: String,
    /// A number.
    pub width: Option<String>,
    pub class: Option<String>,
    /// Instants, or durations from now.
    pub from: Option<String>,
    pub by: Option<String>,
}

impl Client {
    /// The price that a reservation would have now.
    pub async fn quote(&self, document: &Map<String, Value>) -> Result<PriceQuote, Error> {
        self.read(&self.ask_dry(&["api", "reservations"], document).await?)
    }

    /// The prices that a list of requests would have now.
    pub async fn quote_list(&self, list: &Map<String, Value>) -> Result<PriceQuotes, Error> {
        self.read(&self.ask_dry(&["api", "reservations", "lists"], list).await?)
    }

    /// The price that a change would have now.
    pub async fn quote_change(&self, id: &str, change: &Map<String, Value>) -> Result<PriceQuote, Error> {
        self.read(&self.ask_dry(&["api", "reservations", id, "change"], change).await?)
    }

    async fn ask_dry(&self, path: &[&str], body: &Map<String, Value>) -> Result<Answer, Error> {
        let mut body = body.clone();
        body.insert("dryRun".to_owned(), json!(true));
        let body = Bytes::from(Value::Object(body).to_string());
        self.send(Method::POST, self.url(path, &[]), Some(body), Repeat::Safe).await
    }

    /// Reserves all of a list, or none. Sent again with the same key they are the same reservations.
    pub async fn reserve_list(
        &self,
        list: &Map<String, Value>,
        key: &str,
    ) -> Result<ReservationsMade, Error> {
        let answer = self.post_keyed(self.url(&["api", "reservations", "lists"], &[]), list, key).await?;
        self.read(&answer)
    }

    /// Changes the window, the width, the length or the value of a reservation. The same change again changes nothing.
    pub async fn change_reservation(
        &self,
        id: &str,
        change: &Map<String, Value>,
    ) -> Result<ReservationRecord, Error> {
        let url = self.url(&["api", "reservations", id, "change"], &[]);
        let body = Bytes::from(Value::Object(change.clone()).to_string());
        let answer = self.send(Method::POST, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Reserves. Sent again with the same key it is the same reservation, so it is sent until there is an answer.
    pub async fn reserve(
        &self,
        document: &Map<String, Value>,
        key: &str,
    ) -> Result<ReservationRecord, Error> {
        let answer = self.post_keyed(self.url(&["api", "reservations"], &[]), document, key).await?;
        self.read(&answer)
    }

    /// A page of reservations, the newest first.
    pub async fn reservations(&self, query: &PageQuery) -> Result<ReservationPage, Error> {
        self.read(&self.get(query.url(self, &["api", "reservations"])).await?)
    }

    pub async fn reservation(&self, id: &str) -> Result<ReservationRecord, Error> {
        let answer = self.get(self.url(&["api", "reservations", id], &[])).await?;
        self.read(&answer)
    }

    pub async fn cancel_reservation(&self, id: &str) -> Result<ReservationRecord, Error> {
        let url = self.url(&["api", "reservations", id, "cancel"], &[]);
        let answer = self.send(Method::POST, url, None, Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Another value, in credits such as `40` or `2.5`.
    pub async fn rebid(&self, id: &str, value: &str) -> Result<ReservationRecord, Error> {
        let url = self.url(&["api", "reservations", id, "bid"], &[]);
        let body = Bytes::from(json!({ "value": value }).to_string());
        let answer = self.send(Method::POST, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    pub async fn prices(&self, query: &PriceQuery) -> Result<PriceCurve, Error> {
        let mut pairs = vec![("resources", query.resources.as_str())];
        pairs.extend(Some(("duration", query.duration.as_str())).filter(|(_, text)| !text.is_empty()));
        let given =
            [("width", &query.width), ("class", &query.class), ("from", &query.from), ("by", &query.by)];
        pairs.extend(given.iter().filter_map(|(name, text)| Some((*name, text.as_deref()?))));
        let answer = self.get(self.url(&["api", "reservations", "prices"], &pairs)).await?;
        self.read(&answer)
    }

    /// The balances of all users, or of one.
    pub async fn credits(&self, user: Option<&str>) -> Result<CreditAccounts, Error> {
        let pairs: Vec<(&str, &str)> = user.map(|user| ("user", user)).into_iter().collect();
        let answer = self.get(self.url(&["api", "credits"], &pairs)).await?;
        self.read(&answer)
    }

    /// A page of the journal, the newest entries first.
    pub async fn credit_journal(
        &self,
        user: Option<&str>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<CreditJournal, Error> {
        let (before, limit) = (before.map(|before| before.to_string()), limit.to_string());
        let mut pairs = vec![("limit", limit.as_str())];
        pairs.extend(user.map(|user| ("user", user)));
        pairs.extend(before.as_deref().map(|before| ("before", before)));
        let answer = self.get(self.url(&["api", "credits", "journal"], &pairs)).await?;
        self.read(&answer)
    }

    /// Grants credits. Sent again with the same key, nothing more is granted.
    pub async fn grant_credits(&self, grant: &CreditGrant, key: &str) -> Result<CreditAccount, Error> {
        let answer = self.post_keyed(self.url(&["api", "credits", "grants"], &[]), grant, key).await?;
        self.read(&answer)
    }

    /// A request of somebody else, passed on as it is: the status and the body of its answer. It is sent until there is an
    /// answer, so it is one that may be sent twice, or has a key.
    pub async fn exchange(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<Bytes>,
        key: Option<&str>,
    ) -> Result<(u16, Bytes), Error> {
        let header = key.map(key_header).transpose()?;
        let payload = Payload { header, ..body.map(Payload::json).unwrap_or_default() };
        let answer = self.send_payload(method, self.url(path, query), Some(payload), Repeat::Safe).await?;
        Ok((answer.status.as_u16(), answer.body))
    }

    pub(crate) async fn post_keyed(
        &self,
        url: Url,
        body: &impl Serialize,
        key: &str,
    ) -> Result<Answer, Error> {
        let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        let payload = Payload { header: Some(key_header(key)?), ..Payload::json(body) };
        self.send_payload(Method::POST, url, Some(payload), Repeat::Safe).await
    }
}

fn key_header(key: &str) -> Result<(HeaderName, HeaderValue), Error> {
    let wrong = |_| {
        let error = FieldError::new("Idempotency-Key", "is no key");
        Box::new(Problem::invalid_field(error.expected("visible ASCII characters")))
    };
    Ok((HeaderName::from_static(IDEMPOTENCY_KEY_HEADER), HeaderValue::from_str(key).map_err(wrong)?))
}
