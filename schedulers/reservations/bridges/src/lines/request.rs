//! A line as a request to the HTTP interface, and its answer as a line.

use std::time::Duration;

use bytes::Bytes;
use estimand_api::access::Token;
use estimand_api::problem::{FieldError, Problem};
use estimand_client::{Client, Error, Method};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The longest `id` as JSON: every answer repeats it.
const MAX_ID_BYTES: usize = 128;

/// The forms of a line.
const EXPECTED: &str = "one of {\"token\": …}, {\"quote\": {…}}, {\"reserve\": {…}, \"key\": …}, {\"quoteList\": {…}}, \
                        {\"reserveList\": {…}, \"key\": …}, {\"show\": \"r1\"}, {\"change\": \"r1\", \"to\": {…}}, \
                        {\"bid\": \"r1\", \"value\": …}, {\"cancel\": \"r1\"}, {\"list\": {…}}, {\"prices\": {…}}, \
                        each with an `id` if you like";

/// The content of a line, beside its `id`.
pub(super) enum Line {
    Token(Token),
    Request(Request),
}

/// A request to the HTTP interface.
pub(super) struct Request {
    method: Method,
    /// Segments below `/api/reservations`.
    path: Vec<String>,
    query: Vec<(String, String)>,
    body: Option<Value>,
    key: Option<String>,
}

/// Status and body.
type Answer = (u16, Bytes);

impl Line {
    /// The `id` and the rest of a line.
    pub fn parse(line: &[u8]) -> Result<(Value, Line), Problem> {
        let mut map = estimand_api::json::parse_object(line)?;
        let id = map.remove("id").unwrap_or(Value::Null);
        if id.to_string().len() > MAX_ID_BYTES {
            return Err(wrong("id", "is longer than it may be", &format!("at most {MAX_ID_BYTES} bytes")));
        }
        let key = map.remove("key");
        let to = map.remove("to");
        let value = map.remove("value");
        let mut fields = map.into_iter();
        let (Some((name, about)), None) = (fields.next(), fields.next()) else {
            return Err(wrong("line", "has not exactly one request", EXPECTED));
        };
        let line = match (name.as_str(), about, key, to, value) {
            ("token", Value::String(token), None, None, None) => {
                let refused =
                    |error: estimand_api::access::TokenError| wrong("token", &error.to_string(), "a token");
                return Ok((id, Line::Token(Token::parse(&token).map_err(refused)?)));
            }
            ("quote", Value::Object(document), None, None, None) => Request::dry(&[], document),
            ("quoteList", Value::Object(list), None, None, None) => Request::dry(&["lists"], list),
            ("reserve", Value::Object(document), key, None, None) => {
                Request::post(&[], document).keyed(key)?
            }
            ("reserveList", Value::Object(list), key, None, None) => {
                Request::post(&["lists"], list).keyed(key)?
            }
            ("show", Value::String(id), None, None, None) => Request::get(&[&id], Vec::new()),
            ("list", Value::Object(query), None, None, None) => Request::get(&[], parameters(query)?),
            ("prices", Value::Object(query), None, None, None) => {
                Request::get(&["prices"], parameters(query)?)
            }
            ("change", Value::String(id), None, Some(Value::Object(to)), None) => {
                Request::post(&[&id, "change"], to)
            }
            ("bid", Value::String(id), None, None, Some(value @ (Value::String(_) | Value::Number(_)))) => {
                Request::post(&[&id, "bid"], Map::from_iter([("value".to_owned(), value)]))
            }
            ("cancel", Value::String(id), None, None, None) => {
                Request { body: None, ..Request::post(&[&id, "cancel"], Map::new()) }
            }
            _ => return Err(wrong(&name, "is no request", EXPECTED)),
        };
        Ok((id, Line::Request(line)))
    }
}

impl Request {
    /// The cheapest request that a token of any use is good for.
    pub fn check() -> Request {
        Request::get(&[], vec![("limit".to_owned(), "1".to_owned())])
    }

    fn get(path: &[&str], query: Vec<(String, String)>) -> Request {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        Request { method: Method::GET, path, query, body: None, key: None }
    }

    fn post(path: &[&str], body: Map<String, Value>) -> Request {
        Request { method: Method::POST, body: Some(Value::Object(body)), ..Request::get(path, Vec::new()) }
    }

    fn dry(path: &[&str], mut body: Map<String, Value>) -> Request {
        body.insert("dryRun".to_owned(), Value::Bool(true));
        Request::post(path, body)
    }

    /// The request is sent until there is an answer, so it has a key in any case.
    fn keyed(self, key: Option<Value>) -> Result<Request, Problem> {
        let key = match key {
            None => estimand_reservation_service::new_key(),
            Some(Value::String(key)) => key,
            Some(_) => return Err(wrong("key", "is no text", "a key of your own")),
        };
        Ok(Request { key: Some(key), ..self })
    }

    pub async fn perform(self, client: &Client) -> Result<Answer, Problem> {
        let path: Vec<&str> =
            ["api", "reservations"].into_iter().chain(self.path.iter().map(String::as_str)).collect();
        let query: Vec<(&str, &str)> =
            self.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = self.body.map(|body| Bytes::from(body.to_string()));
        client.exchange(self.method, &path, &query, body, self.key.as_deref()).await.map_err(problem_of)
    }
}

/// The fields of an object as parameters of a query.
fn parameters(query: Map<String, Value>) -> Result<Vec<(String, String)>, Problem> {
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        _ => Err(wrong(&name, "is neither a text nor a number", "a text or a number")),
    };
    query.into_iter().map(text).collect()
}

pub(super) fn problem_of(error: Error) -> Problem {
    match error {
        Error::Problem(problem) => *problem,
        error => Problem::outcome_unknown(format!("the service gave no answer: {error}"), 1),
    }
}

/// An answer as a line. Its body is passed on as it came.
pub(super) fn answered(id: &Value, answer: &Answer) -> String {
    let (status, body) = answer;
    match serde_json::from_slice::<&RawValue>(body) {
        Ok(body) => line(id, *status, body.get()),
        Err(error) => {
            refusal(Some(id), &Problem::outcome_unknown(format!("the answer is no JSON: {error}"), 1))
        }
    }
}

/// A problem as the answer to a line, or to none in particular.
pub(super) fn refusal(id: Option<&Value>, problem: &Problem) -> String {
    line(id.unwrap_or(&Value::Null), problem.status, &json!(problem).to_string())
}

fn line(id: &Value, status: u16, body: &str) -> String {
    format!("{{\"id\":{id},\"status\":{status},\"body\":{body}}}\n")
}

pub(super) fn wrong(field: &str, message: &str, expected: &str) -> Problem {
    Problem::invalid_field(FieldError::new(field, message).expected(expected))
}

pub(super) fn late(what: &str, within: Duration) -> Problem {
    let detail = format!("{what} did not come within {} seconds", within.as_secs());
    Problem::new(408, estimand_api::problem::kind::TIMEOUT, "The request took too long to arrive", detail)
}
