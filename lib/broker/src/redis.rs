//! A connection to Redis, over which messages are put into lists.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisConnectionInfo, RedisResult};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::bounded_replies::BoundedReplies;

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
        let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut).into());
        let opened = timeout(WITHIN, connect(&url.client)).await.unwrap_or_else(late);
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

/// The crate's own way to connect is the same but for the bound of replies.
async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let info = client.get_connection_info();
    let settings = info.redis_settings();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => speak(settings, reach(host, *port).await?).await,
        ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
            let config = ClientConfig::with_platform_verifier().map_err(io::Error::other)?;
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let stream = reach(host, *port).await?;
            speak(settings, TlsConnector::from(Arc::new(config)).connect(name, stream).await?).await
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    }
}

async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn speak(
    settings: &RedisConnectionInfo,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(WITHIN));
    let stream = BoundedReplies::of(stream);
    let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
    // It ends when no clone of the connection is left.
    tokio::spawn(driver);
    Ok(connection)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_says_more_than_was_asked_is_hung_up_on() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: RedisUrl = format!("redis://{}", server.local_addr().unwrap()).parse().unwrap();
        let lying = std::thread::spawn(move || {
            let (mut wire, _) = server.accept().unwrap();
            let _ = wire.read(&mut [0; 1024]);
            let mut said = wire.write(b"$3000000000\r\n").unwrap();
            // It ends when the other side is gone.
            while let Ok(more) = wire.write(&[b'x'; 65_536]) {
                said += more;
            }
            said
        });
        let failed = match Connection::open(&url).await {
            Ok(connection) => connection.mark("m").await.map(|_| ()),
            Err(error) => Err(error),
        };
        failed.unwrap_err();
        // The kernel has taken some of it on the way.
        let said = lying.join().unwrap();
        assert!(said < 16 << 20, "{said} bytes");
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url: RedisUrl = "redis://me:hidden@cache.example:6380/3".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "cache.example:6380/3 RedisUrl(cache.example:6380/3)");
        let error = "http://me:hidden@cache".parse::<RedisUrl>().unwrap_err().to_string();
        assert!(error.contains("expected redis://") && !error.contains("hidden"), "{error}");
    }
}
