//! Makes tunnels to the ports of the tasks here: connections that go out from this node to the task service, which joins
//! them with the people who wait for them.
//!
//! While a task here has a port the agent asks the task service which tunnels are waited for; an agent without such tasks asks
//! nothing. The service names an attempt, and the agent alone knows its port, so it leads nobody anywhere else.

mod listener;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use estimand_api::task::TaskWork;
use estimand_api::tunnel::{TunnelOrder, TunnelRefusal};
use estimand_client::{self as client, Client, TunnelQuery};
use estimand_runtime::{Driver, Next, Stop, Work};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout};

use super::folder::AttemptFolder;
use super::{Attempt, Tasks, lock};
use crate::containers::engine::Engine;
use listener::Listener;

/// The most tunnels of this node.
const MAX_TUNNELS: usize = 256;
/// How long the task service may take to say that there is none.
const ASK_FOR: Duration = Duration::from_secs(20);
/// How long a task may take to accept a connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// The file with the port that an attempt was given.
const PORT_FILE: &str = "port";

impl Tasks {
    /// Makes tunnels until it is told to stop; those that are open break off then.
    pub async fn tunnel(
        self: &Arc<Self>,
        client: impl Fn(&str) -> Option<Client> + Send + Sync,
        mut driver: Driver,
        stop: &Stop,
    ) {
        let mut work = Tunneling {
            tasks: Arc::clone(self),
            client,
            after: 0,
            open: JoinSet::new(),
            known: Arc::default(),
        };
        driver.run(&mut work, &self.tunneling, stop.requested()).await;
    }

    fn has_ports(&self) -> bool {
        lock(&self.attempts).values().any(|attempt| attempt.has_port())
    }
}

impl Attempt {
    pub fn has_port(&self) -> bool {
        self.work().is_some_and(|work| work.port.is_some())
    }
}

/// The port that a task is to listen at: its own, or one that is free now. Blocking.
pub fn give_port(work: &TaskWork, folder: &AttemptFolder) -> Result<Option<u16>, String> {
    if work.port.is_none() {
        return Ok(None);
    }
    if let Some(given) = port_of(work, folder) {
        return Ok(Some(given));
    }
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| format!("there is no free port on this node: {error}"))?.port();
    folder
        .write_instant(PORT_FILE, port.into())
        .map_err(|error| format!("the port of the task cannot be written down: {error}"))?;
    Ok(Some(port))
}

fn port_of(work: &TaskWork, folder: &AttemptFolder) -> Option<u16> {
    match work.port? {
        0 => folder.instant(PORT_FILE).and_then(|port| u16::try_from(port).ok()),
        port => Some(port),
    }
}

struct Tunneling<C> {
    tasks: Arc<Tasks>,
    client: C,
    /// The number of the last order that was taken on.
    after: u64,
    open: JoinSet<()>,
    /// The listeners that were found, by attempt.
    known: Known,
}

type Known = Arc<Mutex<HashMap<String, Listener>>>;

impl<C: Fn(&str) -> Option<Client> + Send + Sync> Work for Tunneling<C> {
    type Error = client::Error;

    async fn round(&mut self) -> Result<Next, client::Error> {
        while self.open.try_join_next().is_some() {}
        let server = self.tasks.task_server.borrow().clone();
        let client = server.filter(|_| self.tasks.has_ports()).and_then(|server| (self.client)(&server));
        let Some(client) = client else {
            lock(&self.known).clear();
            return Ok(Next::Period);
        };
        let node = &self.tasks.options.terms.node;
        let query = TunnelQuery { node, after: self.after, wait: ASK_FOR };
        for order in client.tunnel_orders(&query).await?.tunnels {
            self.after = order.number;
            let is_full = self.open.len() >= MAX_TUNNELS;
            let (tasks, client, known) = (Arc::clone(&self.tasks), client.clone(), Arc::clone(&self.known));
            self.open.spawn(async move {
                let found = match is_full {
                    true => Err(format!(
                        "its node has {MAX_TUNNELS} connections to tasks already, which is the most"
                    )),
                    false => connect(&tasks, &known, &order).await,
                };
                make(&client, &order, found).await;
            });
        }
        Ok(Next::At(Instant::now()))
    }
}

/// Joins a connection to a task with whoever waits for it, or tells them why there is none.
async fn make(client: &Client, order: &TunnelOrder, found: Result<TcpStream, String>) {
    let task = &order.id;
    let made = match found {
        Ok(connection) => match client.make_tunnel(order.number).await {
            Ok(tunnel) => {
                if let Err(error) = tunnel.join(connection).await {
                    tracing::debug!(task, %error, "a connection to a task broke off");
                }
                Ok(())
            }
            Err(error) => Err(error),
        },
        Err(reason) => {
            let reason = format!("`{task}` cannot be reached: {reason}");
            client.refuse_tunnel(order.number, &TunnelRefusal { reason }).await
        }
    };
    match made {
        // The one who waited has given up.
        Err(error) if error.status() == Some(404) => {}
        Err(error) => tracing::warn!(task, %error, "a connection to a task cannot be made"),
        Ok(()) => {}
    }
}

/// A connection to the port of an attempt.
async fn connect(tasks: &Tasks, known: &Known, order: &TunnelOrder) -> Result<TcpStream, String> {
    let name = format!("{}.{}", order.id, order.attempt);
    let attempt = lock(&tasks.attempts).get(&name).cloned();
    let attempt = attempt.ok_or_else(|| format!("attempt {} is not on its node", order.attempt))?;
    let work = attempt.accepted.assignment.work.supported().map_err(str::to_owned)?;
    let folder = attempt.folder.clone();
    let steps = folder.steps().map_err(|error| error.to_string())?;
    if folder.end_after(steps.as_ref()).map_err(|error| error.to_string())?.is_some() {
        return Err("it is over".to_owned());
    }
    let port = port_of(work, &folder).filter(|_| steps.is_some_and(|steps| steps.running.is_some()));
    let port = port.ok_or("it does not run yet")?;
    let address = match work.image {
        Some(_) => container_address(&folder, port).await?,
        None => process_address(folder, port, known, name).await?,
    };
    let connected = timeout(CONNECTED_WITHIN, TcpStream::connect(address)).await;
    let connected = connected.map_err(|_| format!("nothing answers at port {port} of it"))?;
    let connection = connected.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("nothing listens at port {port} of it yet"),
        _ => format!("port {port} of it: {error}"),
    })?;
    // Small pieces are passed on at once.
    let _ = connection.set_nodelay(true);
    Ok(connection)
}

async fn process_address(
    folder: AttemptFolder,
    port: u16,
    known: &Known,
    name: String,
) -> Result<SocketAddr, String> {
    let before = lock(known).get(&name).copied();
    let found = spawn_blocking(move || listener::find(&folder, port, before)).await;
    let found = found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    lock(known).insert(name, found);
    Ok(found.address)
}

async fn container_address(folder: &AttemptFolder, port: u16) -> Result<SocketAddr, String> {
    let order = folder.order().map_err(|error| error.to_string())?;
    let place = order.and_then(|order| order.container).ok_or("it has no container")?;
    let asked = async { Engine::connect(&place.socket).await?.address(&place.name).await };
    let ip = timeout(CONNECTED_WITHIN, asked).await.map_err(|_| "the container engine does not answer")?;
    let ip = ip.map_err(|error| error.to_string())?.ok_or("its container has no address")?;
    Ok(SocketAddr::new(ip, port))
}
