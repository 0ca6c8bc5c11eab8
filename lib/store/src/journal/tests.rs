//! Rows that are not as they were written.

use estimand_testkit::databases;

use super::*;
use crate::{Group, Key, StoreUrl};

fn tell(connection: &mut Connection, sql: &str) {
    let run = connection.write("testing", |backend| {
        on!(backend, connection => diesel::sql_query(sql).execute(connection))?;
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_row_that_is_damaged_is_named_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let urls = [
        format!("sqlite://{}/store.db", folder.path().display()),
        databases::postgres().fresh_url(),
        databases::mariadb().fresh_url(),
    ];
    for url in urls {
        let mut connection = Connection::open(&StoreUrl::parse(&url).unwrap()).unwrap();
        connection.migrate().unwrap();
        let claim = connection.claim("data", 0).unwrap();
        for (revision, data_name) in (1..).zip(["a", "b", "c"]) {
            let deletes = vec![Key { data_name, node_name: "n" }];
            connection.commit(&claim, &Group { revision, deletes, ..Group::default() }).unwrap();
        }
        tell(&mut connection, "UPDATE t_journal SET revision = 7 WHERE revision = 2");
        let loaded = connection.load_data(&mut |_| ()).unwrap_err();
        let folded = connection.read_journal().unwrap().fold().unwrap_err();
        for error in [loaded, folded] {
            assert!(matches!(error, Error::Damaged { sequence: 2, .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains("DELETE FROM t_journal WHERE sequence = 2"), "{said}");
        }
        tell(&mut connection, "DELETE FROM t_journal WHERE sequence = 2");
        let mut names = Vec::new();
        let journaled = connection.load_data(&mut |change| names.push(change.key().data_name.to_owned()));
        assert_eq!((names, journaled.unwrap().changes), (vec!["a".to_owned(), "c".to_owned()], 2));
    }
}
