//! A store that an older program made is brought up to date, and keeps what is in it.
#![allow(clippy::unwrap_used)]

use estimand_testkit::databases;

use super::*;
use crate::backend::on;
use crate::{
    BindingRow, Change, ClusterGroup, DataRowRef, Group, HistoryEntry, HistoryQuery, HistoryRowRef,
    NodeRowRef, RegistrationChange, RegistrationRow, RetentionRef, StoreUrl, TaskLogRange, TaskLogRow, data,
};

type Step = fn(&mut Backend) -> diesel::migration::Result<()>;

fn step(connection: &mut Connection, step: Step) {
    let done = connection.special("testing", |backend, _| Ok(step(backend))).unwrap();
    done.unwrap();
}

fn run_next_migration(connection: &mut Connection) {
    step(connection, |backend| match backend {
        Backend::Sqlite(one) => one.run_next_migration(SQLITE).map(drop),
        Backend::Postgres(one) => one.run_next_migration(POSTGRES).map(drop),
        Backend::Mysql(one) => one.run_next_migration(MYSQL).map(drop),
    });
}

fn revert_last_migration(connection: &mut Connection) {
    step(connection, |backend| match backend {
        Backend::Sqlite(one) => one.revert_last_migration(SQLITE).map(drop),
        Backend::Postgres(one) => one.revert_last_migration(POSTGRES).map(drop),
        Backend::Mysql(one) => one.revert_last_migration(MYSQL).map(drop),
    });
}

fn on_each_store(test: fn(&mut Connection)) {
    let folder = tempfile::tempdir().unwrap();
    let urls = [
        format!("sqlite://{}/store.db", folder.path().display()),
        databases::postgres().fresh_url(),
        databases::mariadb().fresh_url(),
    ];
    for url in urls {
        test(&mut Connection::open(&StoreUrl::parse(&url).unwrap()).unwrap());
    }
}

fn tell(connection: &mut Connection, sql: &str) {
    connection
        .special("testing", |backend, _| {
            on!(backend, connection => connection.batch_execute(sql)).unwrap();
            Ok(())
        })
        .unwrap();
}

fn row<'a>(data_name: &'a str, revision: i64) -> DataRowRef<'a> {
    DataRowRef {
        data_name,
        node_name: "n",
        data_value: "0.5",
        collected_at: 1,
        received_at: 2,
        valid_for: Some(3),
        failed: true,
        lost: false,
        revision,
        epoch: 4,
        sequence: 5,
        provenance: Some("{}"),
    }
}

/// A row in each of the first tables.
fn fill(connection: &mut Connection) {
    let claim = connection.claim("data", 7).unwrap();
    let kept = HistoryRowRef {
        data_name: "a",
        node_name: "n",
        revision: 8,
        data_value: "0.4",
        collected_at: 1,
        received_at: 2,
    };
    // As a program from before the journal did.
    let stored = connection.write("testing", |backend| {
        Ok(data::store(backend, &[Change::Put(row("a", 8)), Change::Put(row("b", 9))])?)
    });
    stored.unwrap();
    let group = Group {
        revision: 9,
        history: vec![kept],
        retention: Some(vec![RetentionRef { data_name: "a", keep_us: Some(1), max_count: None }]),
        ..Group::default()
    };
    connection.commit(&claim, &group).unwrap();
    // By hand, because today's statements write columns that were not there then.
    tell(connection, "INSERT INTO t_binding (data_name, target, at) VALUES ('stable', 'a', 1)");
    let registration = RegistrationRow {
        data_name: "a".to_owned(),
        cmd: "true".to_owned(),
        time_max: Some(1.5),
        spec: "{}".to_owned(),
        version: 2,
        created_at: 1,
        updated_at: 2,
    };
    let entry = HistoryEntry {
        data_name: "a".to_owned(),
        version: 2,
        action: "create".to_owned(),
        at: 1,
        actor: "somebody".to_owned(),
        spec: "{}".to_owned(),
    };
    connection
        .change_registrations(&claim, &[RegistrationChange { row: Some(registration), entry }])
        .unwrap();
}

/// The content of the first tables, as text; bindings aside, which have got a column since.
fn contents(connection: &mut Connection) -> Vec<String> {
    let mut data = Vec::new();
    connection.load_table(&mut |row| data.push(row)).unwrap();
    let all =
        HistoryQuery { data_name: "a".to_owned(), node_name: None, since: None, until: None, limit: 10 };
    vec![
        format!("{data:?}"),
        format!("{:?}", connection.read_history(&all).unwrap()),
        format!("{:?}", connection.load_retention().unwrap()),
        format!("{:?}", connection.load_registrations().unwrap()),
        format!("{:?}", connection.registration_history("a", 10).unwrap()),
    ]
}

fn works(connection: &mut Connection) {
    let before = connection.read_lead("manager").unwrap();
    let lead = connection.take_lead("manager", before.as_ref(), "me", "").unwrap().unwrap();
    let node = NodeRowRef {
        node_name: "n",
        labels: "{}",
        facts: "{}",
        agent: "a",
        boot: 1,
        cordoned: false,
        lost: false,
        seen_at: 1,
        created_at: 1,
        given_labels: Some("{}"),
    };
    let group = ClusterGroup { put_nodes: &[node], ..ClusterGroup::default() };
    connection.commit_cluster(&lead, &group).unwrap();
    assert_eq!(connection.load_nodes().unwrap().len(), 1);
    let stable = BindingRow { data_name: "stable".to_owned(), target: "a".to_owned(), at: 1, field: None };
    assert_eq!(connection.load_bindings().unwrap(), [stable]);
    assert_eq!(connection.last_swaps().unwrap(), []);
}

#[test]
fn an_older_store_keeps_what_is_in_it() {
    on_each_store(|connection| {
        run_next_migration(connection);
        connection.load_nodes().unwrap_err();
        fill(connection);
        let before = contents(connection);
        connection.migrate().unwrap();
        works(connection);
        assert_eq!(contents(connection), before);
        assert_eq!(connection.claim("data", 0).unwrap().revision, 9);

        // The later ones only add.
        while connection.load_bindings().is_ok() {
            revert_last_migration(connection);
        }
        revert_last_migration(connection);
        connection.load_nodes().unwrap_err();
        assert_eq!(contents(connection), before);
        connection.migrate().unwrap();
        works(connection);
    });
}

/// How many migrations there are, on each database the same.
fn migrations() -> usize {
    MigrationSource::<diesel::sqlite::Sqlite>::migrations(&SQLITE).unwrap().len()
}

/// A store that ends with any earlier migration is brought up to date from there, with all that was written then.
#[test]
fn a_store_of_each_earlier_program_is_brought_up_to_date() {
    on_each_store(|connection| {
        run_next_migration(connection);
        fill(connection);
        let before = contents(connection);
        for since in 1..migrations() {
            connection.migrate().unwrap();
            assert_eq!(contents(connection), before);
            for _ in since..migrations() {
                revert_last_migration(connection);
            }
            assert_eq!(contents(connection), before, "with {since} migrations");
        }
        connection.migrate().unwrap();
        works(connection);
        assert_eq!(contents(connection), before);
    });
}

/// The events from before there was a feed are in it, in the order of time.
#[test]
fn what_happened_to_tasks_before_is_in_the_feed() {
    on_each_store(|connection| {
        connection.migrate().unwrap();
        while connection.task_feed(0, 1).is_ok() {
            revert_last_migration(connection);
        }
        for (number, id, at) in [(1, "a", 10), (2, "b", 15)] {
            tell(
                connection,
                &format!(
                    "INSERT INTO t_task (number, id, document, progress, log, submitted_at, submitted_by) \
                     VALUES ({number}, '{id}', '{{}}', '{{}}', '{{}}', {at}, 'me')"
                ),
            );
        }
        for (task, place, at) in [(1, 0, 20), (1, 1, 30), (2, 0, 20)] {
            let event = format!(
                "INSERT INTO t_task_event (task, place, at, transition) VALUES ({task}, {place}, {at}, "
            );
            tell(connection, &format!("{event}'{{\"to\":\"{place}\"}}')"));
        }
        connection.migrate().unwrap();
        let feed = connection.task_feed(0, 10).unwrap();
        let order: Vec<_> =
            feed.iter().map(|row| (row.revision, row.task, row.id.as_str(), row.at)).collect();
        assert_eq!(
            order,
            [(1, 1, "a", 10), (2, 2, "b", 15), (3, 1, "a", 20), (4, 2, "b", 20), (5, 1, "a", 30)]
        );
        assert_eq!((feed[0].event.contains("submit"), feed[4].event.as_str()), (true, "{\"to\":\"1\"}"));
        assert_eq!(connection.load_tasks().unwrap().feed.newest, 5);
    });
}

/// Lines from before their bytes were kept read the same.
#[test]
fn logs_of_before_are_read() {
    on_each_store(|connection| {
        connection.migrate().unwrap();
        while connection.task_log_to_remove().is_ok() {
            revert_last_migration(connection);
        }
        let line =
            "INSERT INTO t_task_log (task, line_number, attempt, at, stream, content, continues, dropped)";
        tell(connection, &format!("{line} VALUES (7, 3, 1, 5, 'STDERR', 'grüße', TRUE, 2)"));
        connection.migrate().unwrap();
        let all = TaskLogRange { task: 7, before: 9, ..TaskLogRange::default() };
        let row = TaskLogRow {
            task: 7,
            line_number: 3,
            attempt: 1,
            at: 5,
            stream: "STDERR".to_owned(),
            content: "grüße".to_owned(),
            continues: true,
            dropped: 2,
            written: None,
        };
        assert_eq!(connection.task_log(&all, 9, false).unwrap(), [row]);
    });
}

#[test]
fn a_store_of_a_newer_program_is_refused_and_left_alone() {
    on_each_store(|connection| {
        connection.migrate().unwrap();
        fill(connection);
        let before = contents(connection);
        tell(connection, "INSERT INTO __diesel_schema_migrations (version) VALUES ('29990101000000')");
        for _ in 0..2 {
            let error = connection.migrate().unwrap_err();
            assert!(matches!(&error, Error::Refused { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains("newer version") && said.contains("29990101000000"), "{said}");
        }
        assert_eq!(contents(connection), before);
        tell(connection, "DELETE FROM __diesel_schema_migrations WHERE version = '29990101000000'");
        connection.migrate().unwrap();
    });
}

/// MySQL keeps the tables that were made before a migration was cut short.
#[test]
fn a_migration_that_was_cut_short_is_repeated() {
    let url = databases::mariadb().fresh_url();
    let mut connection = Connection::open(&StoreUrl::parse(&url).unwrap()).unwrap();
    connection.migrate().unwrap();
    fill(&mut connection);
    let before = contents(&mut connection);
    for forget in [
        "DROP TABLE t_leader; DELETE FROM __diesel_schema_migrations WHERE version LIKE '20260201%'",
        "DROP TABLE t_binding_history; DELETE FROM __diesel_schema_migrations WHERE version LIKE '20260301%'",
        "DROP TABLE t_owner; DELETE FROM __diesel_schema_migrations",
    ] {
        tell(&mut connection, forget);
        connection.migrate().unwrap();
        works(&mut connection);
        assert_eq!(contents(&mut connection), before);
    }
    connection.claim("data", 0).unwrap();
}
