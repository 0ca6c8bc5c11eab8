//! The lines of an agent to a keeper on its standard input: its [`KeeperOptions`], and then a [`KeeperOrder`] for each attempt.

use std::io;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;

use super::super::order::{KeeperOptions, KeeperOrder};

pub struct Input {
    pipe: BufReader<Receiver>,
    /// The line that is being read.
    line: Vec<u8>,
}

impl Input {
    pub fn of_this_process() -> io::Result<Self> {
        let pipe = Receiver::from_owned_fd(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?)?;
        Ok(Input { pipe: BufReader::new(pipe), line: Vec::new() })
    }

    /// None: the agent died before it had said it.
    pub async fn options(&mut self) -> io::Result<Option<KeeperOptions>> {
        match self.next().await {
            Some(line) => Ok(Some(serde_json::from_slice(&line)?)),
            None => Ok(None),
        }
    }

    /// The order for the next attempt; none when no more come. May be dropped and called again.
    pub async fn order(&mut self) -> io::Result<Option<KeeperOrder>> {
        match self.next().await {
            Some(line) => KeeperOrder::of_line(&line),
            None => Ok(None),
        }
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        // The bytes read before the call was dropped are in `line` already.
        self.pipe.read_until(b'\n', &mut self.line).await.ok()?;
        let mut line = std::mem::take(&mut self.line);
        // A line without an end was not said to its end.
        (line.pop() == Some(b'\n')).then_some(line)
    }
}
