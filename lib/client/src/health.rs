//! The health of one service, asked of it alone: is it ready, what does its clock say, and its figures.

use chrono::{DateTime, Utc};
use estimand_api::problem::{FieldError, Problem};
use reqwest::{Method, Response, StatusCode, header};

use crate::{Client, Error, Repeat, is_problem};

/// The answer of one service to the question whether it is ready.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Health {
    /// The parts that are not ready, each with the reason. None: it is ready.
    pub unready: Vec<FieldError>,
    /// Its clock, to the second, as the header `Date` has it.
    pub clock: Option<DateTime<Utc>>,
}

impl Client {
    /// Asks this service and none of the others, once.
    pub async fn health(&self) -> Result<Health, Error> {
        let url = self.url(&["readyz"], &[]);
        let shown = url.to_string();
        let request = self.http.client().get(url).timeout(self.options.total_timeout);
        let response = request.send().await.map_err(|error| self.no_answer(shown.clone(), &error))?;
        let (status, clock, problem) = (response.status(), clock_of(&response), is_problem(&response));
        let body = response.bytes().await.map_err(|error| self.no_answer(shown.clone(), &error))?;
        if status.is_success() {
            return Ok(Health { unready: Vec::new(), clock });
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if status == StatusCode::SERVICE_UNAVAILABLE && !problem.errors.is_empty() => {
                Ok(Health { unready: problem.errors, clock })
            }
            Ok(answer) if problem => Err(Box::new(answer).into()),
            _ => Err(Error::Unexpected { url: shown, cause: format!("status {status}") }),
        }
    }

    /// The figures of this service and of none of the others, as text for Prometheus.
    pub async fn figures(&self) -> Result<String, Error> {
        let alone = self.alone();
        let url = alone.url(&["metrics"], &[]);
        let answer = alone.send(Method::GET, url, None, Repeat::Safe).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// True if this service lets the caller read, as it does here without a token unless it is told otherwise.
    pub async fn may_read(&self) -> bool {
        let request =
            self.http.client().head(self.url(&["metrics"], &[])).timeout(self.options.total_timeout);
        request.send().await.is_ok_and(|response| response.status().is_success())
    }

    /// This client without those of further services.
    fn alone(&self) -> Client {
        Client { others: std::sync::Arc::default(), ..self.clone() }
    }
}

fn clock_of(response: &Response) -> Option<DateTime<Utc>> {
    let text = response.headers().get(header::DATE)?.to_str().ok()?;
    Some(DateTime::parse_from_rfc2822(text).ok()?.with_timezone(&Utc))
}
