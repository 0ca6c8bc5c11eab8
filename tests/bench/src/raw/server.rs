//! PostgreSQL and MariaDB without a service: a row a commit, over one connection or many.
//!
//! All connections are driven by one thread, that of the load; the server is on the other core. Each
//! connection has one statement under way at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use estimand_testkit::databases::{Kind, Server};
use mysql_async::prelude::Queryable;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{FIRST, ON_CONFLICT, ON_DUPLICATE, upsert};
use crate::contest::Sample;
use crate::histogram::Histogram;
use crate::keys::{Keys, Row};

const POSTGRES_TABLES: &str =
    include_str!("../../../../lib/store/migrations/postgres/2026-01-01-000000_first/up.sql");
const MARIADB_TABLES: &str =
    include_str!("../../../../lib/store/migrations/mysql/2026-01-01-000000_first/up.sql");

/// Connections to one server, between rounds.
pub struct RawServer {
    runtime: Runtime,
    links: Vec<Link>,
    rows: Arc<[Row]>,
}

struct Link {
    driver: Driver,
    /// The last one that it wrote.
    revision: i64,
}

enum Driver {
    Postgres { client: tokio_postgres::Client, upsert: tokio_postgres::Statement },
    Mariadb { connection: mysql_async::Conn, upsert: mysql_async::Statement },
}

/// A new database on this server with the service's table and all values in it; returns its URL.
pub fn create(server: &Server, keys: Keys) -> String {
    let url = server.fresh_url();
    let Keys { names, nodes } = keys;
    let (tables, source, ids) = match server.kind() {
        Kind::Postgres => (
            POSTGRES_TABLES,
            format!(
                "(SELECT 'bench_' || lpad(i::text, 4, '0') AS name FROM generate_series(0, {names} - 1) i) a, \
                 (SELECT 'node-' || lpad(i::text, 3, '0') AS node FROM generate_series(0, {nodes} - 1) i) b"
            ),
            "name || '/' || node",
        ),
        Kind::Mariadb => (
            MARIADB_TABLES,
            format!(
                "(SELECT concat('bench_', lpad(seq, 4, '0')) AS name FROM seq_0_to_{}) a, \
                 (SELECT concat('node-', lpad(seq, 3, '0')) AS node FROM seq_0_to_{}) b",
                names - 1,
                nodes - 1
            ),
            "concat(name, '/', node)",
        ),
    };
    server.query(&url, tables);
    server.query(
        &url,
        &format!(
            "INSERT INTO t_data SELECT {ids}, name, node, '0.123456', {FIRST}, {FIRST}, NULL, false, false, {FIRST}, \
             -1, -1, NULL FROM {source}"
        ),
    );
    url
}

impl RawServer {
    /// So many connections to a database that [`create`] has made.
    pub fn connect(kind: Kind, url: &str, connections: usize, rows: Arc<[Row]>) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let links = runtime.block_on(async {
            let mut links = Vec::new();
            for _ in 0..connections {
                links.push(Link::open(kind, url).await.with_context(|| format!("connecting to {url}"))?);
            }
            anyhow::Ok(links)
        })?;
        Ok(RawServer { runtime, links, rows })
    }

    /// Writes for so long, a row a commit; the figure counts commits.
    pub fn write(&mut self, time: Duration) -> anyhow::Result<Sample> {
        let links = std::mem::take(&mut self.links);
        let share = self.rows.len() / links.len().max(1);
        let began = Instant::now();
        let (links, latencies) = self.runtime.block_on(async {
            let mut writing = JoinSet::new();
            for (number, link) in links.into_iter().enumerate() {
                writing.spawn(link.write(self.rows.clone(), number * share, began + time));
            }
            let (mut links, mut latencies) = (Vec::new(), Histogram::default());
            while let Some(written) = writing.join_next().await {
                let (link, some) = written??;
                links.push(link);
                latencies.add(&some);
            }
            anyhow::Ok((links, latencies))
        })?;
        self.links = links;
        Ok(Sample::new(latencies, began.elapsed()))
    }
}

impl Link {
    async fn open(kind: Kind, url: &str) -> anyhow::Result<Self> {
        let driver = match kind {
            Kind::Postgres => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
                // It ends when the client is dropped.
                tokio::spawn(connection);
                let sql = upsert(|n| format!("${n}"), ON_CONFLICT, |column| format!("excluded.{column}"));
                let upsert = client.prepare(&sql).await?;
                Driver::Postgres { client, upsert }
            }
            Kind::Mariadb => {
                let mut connection = mysql_async::Conn::from_url(url).await?;
                let sql = upsert(|_| "?".to_owned(), ON_DUPLICATE, |column| format!("VALUES({column})"));
                let upsert = connection.prep(sql).await?;
                Driver::Mariadb { connection, upsert }
            }
        };
        Ok(Link { driver, revision: FIRST })
    }

    async fn write(
        mut self,
        rows: Arc<[Row]>,
        first: usize,
        end: Instant,
    ) -> anyhow::Result<(Self, Histogram)> {
        let mut latencies = Histogram::default();
        for row in rows.iter().cycle().skip(first) {
            let sent = Instant::now();
            if sent >= end {
                break;
            }
            self.upsert(row).await?;
            latencies.record(sent.elapsed());
        }
        Ok((self, latencies))
    }

    async fn upsert(&mut self, row: &Row) -> anyhow::Result<()> {
        let Row { id, name, node, value } = row;
        self.revision += 1;
        let now = self.revision;
        match &mut self.driver {
            Driver::Postgres { client, upsert } => {
                let (none, nothing) = (None::<i64>, None::<&str>);
                let written = client
                    .execute(
                        &*upsert,
                        &[
                            id, name, node, value, &now, &now, &none, &false, &false, &now, &-1i64, &-1i64,
                            &nothing,
                        ],
                    )
                    .await;
                written?;
            }
            Driver::Mariadb { connection, upsert } => {
                let values: Vec<mysql_async::Value> = vec![
                    id.into(),
                    name.into(),
                    node.into(),
                    value.into(),
                    now.into(),
                    now.into(),
                    mysql_async::Value::NULL,
                    false.into(),
                    false.into(),
                    now.into(),
                    (-1i64).into(),
                    (-1i64).into(),
                    mysql_async::Value::NULL,
                ];
                connection.exec_drop(&*upsert, values).await?;
            }
        }
        Ok(())
    }
}
