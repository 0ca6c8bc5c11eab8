#![allow(clippy::unwrap_used)]

use super::*;

fn asked(name: &str, valid_for: Option<&str>) -> NewToken {
    NewToken {
        name: name.parse().unwrap(),
        role: Grant::Read,
        node: None,
        user: None,
        valid_for: valid_for.map(|span| span.parse().unwrap()),
        labels: LabelMap::new(),
    }
}

fn tokens(rows: Vec<TokenRow>) -> Tokens {
    Tokens::new(Some(Arc::new(rows)), &[])
}

#[test]
fn a_token_is_found_by_what_it_says_until_it_is_revoked() {
    let (one, two) = (digest::random_token(), digest::random_token());
    let row = row_of(&asked("laptop", Some("1s")), &one, "me", 5);
    let before = tokens(vec![row.clone()]);
    let known = before.find(one.expose()).unwrap();
    assert_eq!((&*known.name, known.expires_at), ("laptop", Some(1_000_005)));
    assert!(before.find(two.expose()).is_none());
    let after = tokens(vec![before.revoked("laptop", "me", 7).unwrap()]);
    assert!(after.find(one.expose()).is_none());
    assert_eq!(state(&after.rows()[0], 7), TokenState::Revoked);
    assert_eq!((state(&row, 1_000_004), state(&row, 1_000_005)), (TokenState::Live, TokenState::Expired));
}

#[test]
fn a_users_token_without_its_user_lets_nobody_in() {
    let token = digest::random_token();
    let row = row_of(&NewToken { role: Grant::User, ..asked("alice", None) }, &token, "me", 5);
    assert_eq!(view(&row, 5).unwrap().user.as_deref(), Some("alice"));
    let user = |row: TokenRow| tokens(vec![row]).find(token.expose()).map(|known| known.user.clone());
    assert_eq!(user(row.clone()), Some(Some("alice".into())));
    assert_eq!(user(TokenRow { user_name: None, ..row.clone() }), None);
    // Only that role has one.
    assert_eq!(user(TokenRow { role: "operate".to_owned(), ..row }), Some(None));
}

#[test]
fn a_stored_token_does_not_give_itself_away() {
    let token = digest::random_token();
    let row = row_of(&asked("laptop", None), &token, "me", 5);
    assert!(!format!("{row:?}").contains(&token.expose()[9..]));
    assert!(!serde_json::to_string(&view(&row, 5)).unwrap().contains(&row.hash));
}

#[test]
fn a_name_is_free_again_when_its_token_is_over() {
    let row = row_of(&asked("ci", Some("1s")), &digest::random_token(), "me", 0);
    let tokens = tokens(vec![row]);
    assert_eq!(tokens.check_new(&asked("ci", None), 999_999).unwrap_err().status, 409);
    tokens.check_new(&asked("ci", None), 1_000_000).unwrap();
    assert_eq!(tokens.revoked("ci", "me", 1_000_000).unwrap_err().status, 404);
}

#[test]
fn the_key_of_a_certificate_is_no_token_and_is_remembered_when_it_is_revoked() {
    // The digest is that of a public key, which is no secret.
    let key = digest::of("a public key");
    let row = row_of_key(&digest::hex(&key), "n1", 10, "join", 5);
    let before = tokens(vec![row.clone()]);
    assert!(before.find("a public key").is_none() && !before.is_revoked(&key));
    let others = |tokens: &Tokens, node: &str, but: &str, now| tokens.certificates_for(node, but, now).len();
    assert_eq!(others(&before, "n1", "another key", 9), 1);
    assert_eq!(others(&before, "n1", &row.hash, 9), 0);
    assert_eq!((others(&before, "n1", "", 10), others(&before, "n2", "", 9)), (0, 0));
    let after = tokens(vec![before.revoked(&row.name, "me", 7).unwrap()]);
    assert!(after.is_revoked(&key) && after.of_key(&row.hash).is_some());
    // The name stays that of its first key, also when that is over.
    assert_eq!(after.any_certificate_for("n1", "another key"), Some(row.name.as_str()));
    assert_eq!(after.any_certificate_for("n1", &row.hash), None);
    assert_eq!(others(&after, "n1", "", 7), 0);
    // A key without a row can be revoked too.
    let unheard = tokens(vec![]).revoked_key(&key, "me", 8);
    assert!(tokens(vec![unheard]).is_revoked(&key));
    assert_eq!(before.check_new(&asked("certificate-mine", None), 6).unwrap_err().status, 409);
}

#[test]
fn a_token_of_this_process_speaks_for_its_node_like_any_other() {
    let node =
        NewToken { role: Grant::Node, node: Some("n1".parse().unwrap()), ..asked("agent", Some("1s")) };
    let (stored, own) = (digest::random_token(), digest::random_token());
    let known = Credential {
        kind: CredentialKind::Token(digest::of(own.expose())),
        name: "agent of n2".into(),
        grant: Grant::Node,
        node: Some("n2".into()),
        user: None,
        expires_at: None,
        is_used: false,
        labels: LabelGrant::Claimed,
    };
    let tokens = Tokens::new(Some(Arc::new(vec![row_of(&node, &stored, "me", 0)])), &[(own, known)]);
    assert_eq!((tokens.token_for("n1", 999_999), tokens.token_for("n1", 1_000_000)), (Some("agent"), None));
    assert_eq!((tokens.token_for("n2", 5), tokens.token_for("n3", 5)), (Some("agent of n2"), None));
}

#[test]
fn joining_is_possible_for_an_hour() {
    let new = NewToken { role: Grant::Join, ..asked("new", None) };
    assert_eq!(row_of(&new, &digest::random_token(), "me", 7).expires_at, Some(JOIN_MICROS + 7));
}

#[test]
fn nobody_revokes_what_they_came_in_with() {
    let row = row_of(&asked("operator", None), &digest::random_token(), "me", 0);
    let id = row.id.clone();
    assert_eq!(tokens(vec![row]).revoked(&id, "operator", 1).unwrap_err().status, 409);
}
