//! Tokens on SQLite, PostgreSQL and MariaDB alike: those that are used or revoked at the same time elsewhere.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Barrier;
use std::thread;

use common::Place;
use estimand_store::{AuditRow, TokenRow, actor};

on_every_store!(of_many_at_once_one_uses_a_token_up, what_is_revoked_meanwhile_stays_so);

const AT_ONCE: usize = 8;

fn row(id: &str) -> TokenRow {
    TokenRow {
        id: id.to_owned(),
        name: format!("name of {id}"),
        hash: format!("hash of {id}"),
        role: "join".to_owned(),
        node_name: None,
        created_at: 1,
        created_by: "somebody".to_owned(),
        expires_at: Some(2),
        revoked_at: None,
        used_by: None,
        labels: Some("{\"role\":\"db\"}".to_owned()),
        user_name: Some("alice".to_owned()),
    }
}

fn told(id: &str, action: &str) -> AuditRow {
    AuditRow {
        at: 3,
        id: format!("{action}-{id}"),
        kind: "token".to_owned(),
        subject: id.to_owned(),
        action: action.to_owned(),
        actor: "somebody".to_owned(),
        detail: None,
    }
}

fn of_many_at_once_one_uses_a_token_up(place: &Place) {
    let mut connection = place.open();
    for round in 0..4 {
        let token = row(&format!("token-{round}"));
        connection.put_tokens(&[], std::slice::from_ref(&token), &[told(&token.id, "created")]).unwrap();
        let ready = Barrier::new(AT_ONCE);
        let stored: Vec<bool> = thread::scope(|scope| {
            let users: Vec<_> = (0..AT_ONCE)
                .map(|user| {
                    let (token, ready) = (token.clone(), &ready);
                    scope.spawn(move || {
                        let mut connection = place.open();
                        let key = format!("key-{round}-{user}");
                        let used =
                            TokenRow { revoked_at: Some(4), used_by: Some(key.clone()), ..token.clone() };
                        ready.wait();
                        let rows = [used, row(&key)];
                        connection.put_tokens(&[token.id], &rows, &[told(&key, "joined")]).unwrap()
                    })
                })
                .collect();
            users.into_iter().map(|user| user.join().unwrap()).collect()
        });
        assert_eq!(stored.iter().filter(|stored| **stored).count(), 1, "{stored:?}");
        let winner = format!("key-{round}-{}", stored.iter().position(|stored| *stored).unwrap());
        let rows = connection.load_tokens().unwrap();
        let used = rows.iter().find(|row| row.id == token.id).unwrap();
        assert_eq!((used.revoked_at, used.used_by.as_deref()), (Some(4), Some(&*winner)));
        // The others stored nothing.
        assert_eq!(rows.len(), 2 * (round + 1), "{rows:?}");
        let trail = connection.trail(i64::MAX, 100).unwrap().others;
        assert_eq!(trail.len(), 2 * (round + 1));
        assert!(trail.iter().any(|entry| entry.subject == winner));
    }
}

fn what_is_revoked_meanwhile_stays_so(place: &Place) {
    let mut connection = place.open();
    let key = row("key");
    connection.put_tokens(&[], std::slice::from_ref(&key), &[]).unwrap();
    let renewed = TokenRow { expires_at: Some(9), ..key.clone() };
    let ids = [key.id.clone()];
    assert!(connection.put_tokens(&ids, std::slice::from_ref(&renewed), &[told("key", "renewed")]).unwrap());
    let revoked = TokenRow { revoked_at: Some(5), ..renewed.clone() };
    assert!(connection.put_tokens(&[], std::slice::from_ref(&revoked), &[]).unwrap());
    assert!(!connection.put_tokens(&ids, &[renewed], &[told("key", "renewed again")]).unwrap());
    assert_eq!(connection.load_tokens().unwrap(), [revoked]);
    assert_eq!(connection.trail(i64::MAX, 9).unwrap().others.len(), 1);
}

#[test]
fn an_actor_fits_its_column() {
    assert_eq!(actor("laptop@10.0.0.7"), "laptop@10.0.0.7");
    assert_eq!(actor("ü".repeat(300)), "ü".repeat(255));
}
