//! `tasks forward`: a port of this machine that leads to the port of a task.

use std::net::Ipv4Addr;
use std::time::Duration;

use estimand_client::{Client, is_of_this_user};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::arguments::tasks::ForwardArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::remark;

/// The most connections at once, as many as the service gives a task.
const MAX_CONNECTIONS: usize = 128;
/// The pause after a connection that could not be accepted, as when too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

pub async fn forward(session: &mut Session, args: &ForwardArgs) -> Result<(), Failure> {
    let ForwardArgs { id, local_port } = args;
    let task = session.client.task(id, Duration::ZERO).await?;
    if task.is_array() {
        return Err(Failure::Usage(format!(
            "`{id}` is an array: each of its tasks has a port of its own, such as `{id}.0`"
        )));
    }
    if !task.document.contains_key("port") {
        return Err(Failure::Missing(format!(
            "`{id}` has no port; `--port PORT` of `tasks submit` gives a task one"
        )));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, local_port.unwrap_or(0))).await?;
    let address = listener.local_addr()?;
    session.out.line(&format!("http://{address} leads to `{id}`, until Ctrl-C"))?;
    session.out.flush()?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        () = accept(&listener, &session.client, id) => Ok(()),
    }
}

async fn accept(listener: &TcpListener, client: &Client, id: &str) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok((connection, _)) => {
                    let (client, id) = (client.clone(), id.to_owned());
                    open.spawn(async move { lead(&client, &id, connection).await });
                }
                Err(error) => {
                    remark(&format!("a connection is not taken: {error}"));
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// Leads one connection to the task. What is wrong with it is said, and ends this one alone.
async fn lead(client: &Client, id: &str, connection: TcpStream) {
    // Others on this machine would be let in with this user's token.
    if !is_of_this_user(&connection).await {
        remark("a connection of another user of this machine is refused");
        let _ = connection.set_zero_linger();
        return;
    }
    let _ = connection.set_nodelay(true);
    match client.open_tunnel(id).await {
        // It broke off: whoever made it sees that, too.
        Ok(tunnel) => drop(tunnel.join(connection).await),
        Err(error) => {
            remark(&error.to_string());
            let _ = connection.set_zero_linger();
        }
    }
}
