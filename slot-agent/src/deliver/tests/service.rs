//! A data service that does as it is told: it speaks just enough HTTP, keeps values by the same rule of order
//! as the real one, and may refuse, hang, or break off before or after it has stored a batch.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use estimand_api::problem::Problem;
use estimand_api::write::{Order, Write};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The answer to a batch.
pub enum Reply {
    Take,
    /// Store it, then close the connection.
    TakeAndClose,
    /// Store it, then answer with this.
    TakeAndSay(Problem),
    Say(Problem),
    Close,
    /// Never answer.
    Hang,
}

type Script = dyn FnMut(&[Write]) -> Reply + Send;

struct Model {
    script: Box<Script>,
    /// The order of the latest value of each slot.
    latest: HashMap<(String, String), Option<Order>>,
    /// Everything that was not superseded, as a history would have it.
    history: Vec<(String, u64)>,
    /// How many items each request had.
    requests: Vec<usize>,
}

pub struct Service {
    pub address: String,
    model: Arc<Mutex<Model>>,
    task: JoinHandle<()>,
}

impl Service {
    pub async fn start(script: impl FnMut(&[Write]) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let model = Model {
            script: Box::new(script),
            latest: HashMap::new(),
            history: Vec::new(),
            requests: Vec::new(),
        };
        let model = Arc::new(Mutex::new(model));
        let shared = model.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let model = shared.clone();
                connections.spawn(async move {
                    // A connection that breaks off is the client's doing, or part of the script.
                    let _ = serve(stream, &model).await;
                });
            }
        });
        Service { address, model, task }
    }

    /// From now on it does something else.
    pub fn now(&self, script: impl FnMut(&[Write]) -> Reply + Send + 'static) {
        self.model.lock().unwrap().script = Box::new(script);
    }

    /// The sequences that took effect for a name, in the order in which they did.
    pub fn history(&self, name: &str) -> Vec<u64> {
        let model = self.model.lock().unwrap();
        model.history.iter().filter(|(of, _)| of == name).map(|(_, sequence)| *sequence).collect()
    }

    /// How many items each request so far had.
    pub fn requests(&self) -> Vec<usize> {
        self.model.lock().unwrap().requests.clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Model {
    fn store(&mut self, writes: &[Write]) {
        for write in writes {
            let slot = (write.data_name.to_string(), write.node_name.to_string());
            let name = slot.0.clone();
            let latest = self.latest.entry(slot).or_default();
            if write.order > *latest {
                *latest = write.order;
                self.history.push((name, write.order.unwrap().sequence));
            }
        }
    }
}

async fn serve(stream: TcpStream, model: &Mutex<Model>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let body = read_request(&mut stream).await?;
        let writes = Write::parse_batch(&body).unwrap();
        let reply = {
            let mut model = model.lock().unwrap();
            model.requests.push(writes.len());
            let reply = (model.script)(&writes);
            if matches!(reply, Reply::Take | Reply::TakeAndClose | Reply::TakeAndSay(_)) {
                model.store(&writes);
            }
            reply
        };
        let (status, kind, body) = match reply {
            Reply::Take => {
                let written =
                    json!({ "created": 0, "replaced": writes.len(), "superseded": 0, "revision": 1 });
                (200, "application/json", written.to_string())
            }
            Reply::Say(problem) | Reply::TakeAndSay(problem) => {
                (problem.status, "application/problem+json", problem.to_json())
            }
            Reply::Close | Reply::TakeAndClose => return Ok(()),
            Reply::Hang => std::future::pending().await,
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    }
}

/// Reads a request to its end and returns its body.
async fn read_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("post /api/data/batch http/1.1\r\n"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await?;
    Ok(body)
}
