use super::*;

static TABLE: Rows = Rows { table: "t", columns: &["k", "v"], replaced_by: 1 };
static KEYS: Keys = Keys { table: "t", columns: &["k", "v"] };

fn sizes(texts: &[&str]) -> Vec<usize> {
    let values: Vec<_> = texts.iter().flat_map(|text| [Value::Int(1), Value::Text(text)]).collect();
    let mut sizes = Vec::new();
    let mut rest = &values[..];
    while !rest.is_empty() {
        let (now, later) = next_piece(rest, 2);
        sizes.push(now.len() / 2);
        rest = later;
    }
    sizes
}

#[test]
fn rows_are_cut_into_few_different_sizes() {
    assert_eq!(sizes(&[]), Vec::<usize>::new());
    assert_eq!(sizes(&["x"; 1000]), [256, 256, 256, 64, 64, 64, 16, 16, 4, 4]);
    assert_eq!(sizes(&["x"; 3]), [1, 1, 1]);
}

#[test]
fn a_statement_stays_below_what_a_server_takes() {
    let large = "x".repeat(64 * 1024);
    assert_eq!(sizes(&[large.as_str(); 17]), [4, 4, 4, 4, 1]);
    let huge = "x".repeat(2 * MAX_BYTES);
    assert_eq!(sizes(&[huge.as_str(), "x", huge.as_str()]), [1, 1, 1]);
}

#[test]
fn the_text_is_each_databases_own() {
    let values = [Value::Int(1), Value::Text("a"), Value::Int(2), Value::Text("b")];
    let insert = Insert { rows: &TABLE, values: &values };
    let delete = Delete { keys: &KEYS, values: &values };
    let text = |debug: String| debug.split(" -- ").next().unwrap_or_default().to_owned();
    assert_eq!(
        text(diesel::debug_query::<Pg, _>(&insert).to_string()),
        "INSERT INTO t (k, v) VALUES ($1,$2),($3,$4) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
    );
    assert_eq!(
        text(diesel::debug_query::<Mysql, _>(&insert).to_string()),
        "INSERT INTO t (k, v) VALUES (?,?),(?,?) ON DUPLICATE KEY UPDATE v = VALUES(v)"
    );
    assert_eq!(
        text(diesel::debug_query::<Pg, _>(&delete).to_string()),
        "DELETE FROM t WHERE (k, v) IN (VALUES ($1,$2),($3,$4))"
    );
    assert_eq!(
        text(diesel::debug_query::<Mysql, _>(&delete).to_string()),
        "DELETE FROM t WHERE (k, v) IN ((?,?),(?,?))"
    );
}

#[test]
fn a_statement_is_prepared_once() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use diesel::connection::{InstrumentationEvent, SimpleConnection};

    let (cached, run) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut connection = SqliteConnection::establish(":memory:").unwrap();
    connection.batch_execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)").unwrap();
    let counts = (Arc::clone(&cached), Arc::clone(&run));
    connection.set_instrumentation(move |event: InstrumentationEvent<'_>| {
        match event {
            InstrumentationEvent::CacheQuery { .. } => counts.0.fetch_add(1, Ordering::Relaxed),
            InstrumentationEvent::StartQuery { .. } => counts.1.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    });
    let mut backend = Backend::Sqlite(connection);
    for n in 0..5 {
        let values: Vec<_> = (0..320).flat_map(|k| [Value::Int(k * n), Value::Text("x")]).collect();
        TABLE.write(&mut backend, &values).unwrap();
        let update =
            Fixed { sql: "UPDATE t SET v = ? WHERE k = ?", values: &[Value::Text("y"), Value::Int(n)] };
        assert_eq!(update.execute_on(&mut backend).unwrap(), 1);
    }
    assert_eq!(run.load(Ordering::Relaxed), 15);
    assert_eq!(cached.load(Ordering::Relaxed), 3, "256 rows, 64 rows, and the update");
}
