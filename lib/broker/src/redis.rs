//! A connection to Redis, over which messages are put into lists.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

/// How long an answer may take, and so may connecting.
const WITHIN: Duration = Duration::from_secs(5);
/// Puts a message into a list and leaves a mark, both or none; with the mark there already it gives what the mark says.
/// KEYS: the mark, the list. ARGV: what the mark says, how many seconds it stays, the message.
const PUSH_ONCE: &str = "local known = redis.call('GET', KEYS[1]) \
    if known then return known end \
    redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) \
    redis.call('LPUSH', KEYS[2], ARGV[3]) \
    return false";

/// The address of a Redis. Shown without its password.
#[derive(Clone)]
pub struct RedisUrl {
    text: String,
    client: Client,
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address of Redis is not valid: {0}; expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss://…"
)]
pub struct RedisUrlError(String);

impl FromStr for RedisUrl {
    type Err = RedisUrlError;

    fn from_str(text: &str) -> Result<Self, RedisUrlError> {
        let client = Client::open(text).map_err(|error| RedisUrlError(error.to_string()))?;
        let info = client.get_connection_info();
        let shown = format!("{}/{}", info.addr(), info.redis_settings().db());
        Ok(RedisUrl { text: text.to_owned(), client, shown })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.shown)
    }
}

impl PartialEq for RedisUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RedisUrl {}

/// Why Redis does not have a message.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    #[error("Redis at {url} cannot be connected to: {source}")]
    Connect { url: String, source: redis::RedisError },
    #[error("Redis did not do it: {0}")]
    Failed(#[from] redis::RedisError),
}

/// A connection. Clones are the same one.
#[derive(Clone)]
pub struct Connection(MultiplexedConnection);

impl Connection {
    pub async fn open(url: &RedisUrl) -> Result<Self, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(WITHIN))
            .set_response_timeout(Some(WITHIN));
        let opened = url.client.get_multiplexed_async_connection_with_config(&config).await;
        opened.map(Connection).map_err(|source| RedisError::Connect { url: url.to_string(), source })
    }

    /// The text of a mark, if it is there.
    pub async fn mark(&self, mark: &str) -> Result<Option<String>, RedisError> {
        let mut connection = self.0.clone();
        Ok(redis::cmd("GET").arg(mark).query_async(&mut connection).await?)
    }

    /// Puts a message into a list, and leaves a mark that says something and stays for so many seconds: both or none. If the mark
    /// is there already nothing is done, and what it says comes back.
    pub async fn push_once(
        &self,
        mark: &str,
        says: &str,
        seconds: u64,
        list: &str,
        message: &[u8],
    ) -> Result<Option<String>, RedisError> {
        let mut connection = self.0.clone();
        let mut script = redis::cmd("EVAL");
        script.arg(PUSH_ONCE).arg(2).arg(mark).arg(list).arg(says).arg(seconds).arg(message);
        Ok(script.query_async(&mut connection).await?)
    }

    /// A list has such a message.
    pub async fn has(&self, list: &str, message: &[u8]) -> Result<bool, RedisError> {
        let mut connection = self.0.clone();
        let place: Option<u64> =
            redis::cmd("LPOS").arg(list).arg(message).query_async(&mut connection).await?;
        Ok(place.is_some())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url: RedisUrl = "redis://me:hidden@cache.example:6380/3".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "cache.example:6380/3 RedisUrl(cache.example:6380/3)");
        let error = "http://me:hidden@cache".parse::<RedisUrl>().unwrap_err().to_string();
        assert!(error.contains("expected redis://") && !error.contains("hidden"), "{error}");
    }
}
