//! The other side of reads and writes: the same HTTP server with nothing behind it.
//!
//! One handler for everything, without a route to look up: it gives the bytes it was started with, or parses
//! the body first, as the service does, and then gives them. It starts like the service (same first line,
//! `GET /readyz` is a 200), so that the same process control starts both.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::web::{self, ThinData};
use actix_web::{App, HttpResponse, HttpServer};
use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use estimand_api::write::Write;

/// As the service has it.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

#[derive(Debug, Args)]
pub struct BareArgs {
    #[arg(long)]
    listen: SocketAddr,
    /// Taken because every server under measurement gets one; nothing is kept
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// The file with the bytes to answer
    #[arg(long)]
    reply: PathBuf,
    /// Parse the body as a write before answering
    #[arg(long)]
    parse: bool,
}

#[derive(Debug, Clone)]
struct Reply(Bytes);

/// Serves until it is killed.
pub fn serve(args: &BareArgs) -> anyhow::Result<()> {
    let reply = std::fs::read(&args.reply).with_context(|| format!("reading {}", args.reply.display()))?;
    let reply = Reply(reply.into());
    let &BareArgs { listen, parse, .. } = args;
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(move || {
            let handler = if parse { web::to(parse_and_give) } else { web::to(give) };
            App::new().app_data(ThinData(reply.clone())).default_service(handler)
        });
        let server = server.workers(1).keep_alive(KEEP_ALIVE).tcp_nodelay(true).bind(listen)?;
        let address = server.addrs().first().copied().unwrap_or(listen);
        let mut out = std::io::stdout().lock();
        writeln!(out, "listening on http://{address}")?;
        out.flush()?;
        drop(out);
        server.run().await.context("serving")
    })
}

async fn give(reply: ThinData<Reply>) -> HttpResponse {
    let mut response = HttpResponse::Ok().body(reply.0.0.clone());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn parse_and_give(body: Bytes, reply: ThinData<Reply>) -> HttpResponse {
    if !body.is_empty() && Write::parse(&body).is_err() {
        return HttpResponse::BadRequest().finish();
    }
    give(reply).await
}
