#![allow(clippy::unwrap_used)]

use super::*;

fn read(body: &Value) -> Result<NewToken, String> {
    NewToken::from_map(body.as_object().unwrap().clone()).map_err(|problem| problem.detail)
}

#[test]
fn a_token_has_the_form_that_is_taken_for_one_and_does_not_show_itself() {
    let token = Token::of(&[0xfb; 32]);
    assert_eq!(token.expose(), "estimand_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
    assert_eq!(Token::parse(&format!(" {}\n", token.expose())), Ok(token.clone()));
    assert_eq!(format!("{token:?}"), "Token(…)");
    for wrong in ["", "short", "with a space in the middle of it", &"x".repeat(300)] {
        assert_eq!(Token::parse(wrong), Err(TokenError), "{wrong}");
    }
}

#[test]
fn different_bytes_are_different_tokens() {
    let mut bytes = [0; 32];
    let mut seen = std::collections::BTreeSet::new();
    for place in 0..32 {
        for bit in 0..8 {
            bytes[place] ^= 1 << bit;
            assert!(seen.insert(Token::of(&bytes).expose().to_owned()), "{place} {bit}");
        }
    }
}

#[test]
fn a_rendered_token_request_is_read_back() {
    let token =
        read(&json!({ "name": "agent-7", "role": "node", "node": "n7", "validFor": "30d", "labels": { "a": "b" } }))
            .unwrap();
    assert_eq!(NewToken::from_map(token.to_map()).unwrap(), token);
    assert_eq!((token.role, token.node.unwrap().as_str()), (Grant::Node, "n7"));
}

#[test]
fn a_token_is_for_the_user_that_it_names_or_is_named_after() {
    let user = |body: Value| read(&body).unwrap().its_user().map(str::to_owned);
    assert_eq!(user(json!({ "name": "alice", "role": "user" })).as_deref(), Some("alice"));
    let laptop = json!({ "name": "laptop", "role": "user", "user": "2.alice" });
    assert_eq!(NewToken::from_map(read(&laptop).unwrap().to_map()).unwrap().its_user(), Some("2.alice"));
    assert_eq!(user(json!({ "name": "alice", "role": "operate" })), None);
}

#[test]
fn the_described_fields_are_those_that_are_read() {
    let schema = described();
    let problem = NewToken::from_map(json!({ "?": 1 }).as_object().unwrap().clone()).unwrap_err();
    assert_eq!(schema::testing::fields(&schema), schema::testing::known(&problem));
    for example in schema["examples"].as_array().unwrap() {
        read(example).unwrap();
    }
}

#[test]
fn fields_that_do_not_go_together_are_rejected() {
    for (body, says) in [
        (json!({ "role": "read" }), "name: is missing"),
        (json!({ "name": "a", "role": "root" }), "role: is not known"),
        (json!({ "name": "a", "role": "node" }), "node: is missing"),
        (json!({ "name": "a", "role": "read", "node": "n" }), "node: goes with the role node, not with read"),
        (
            json!({ "name": "a", "role": "operate", "node": "n" }),
            "node: goes with the role node, not with operate",
        ),
        (json!({ "name": "a", "role": "read", "validFor": "0s" }), "validFor: is nothing"),
        (
            json!({ "name": "a", "role": "write", "user": "b" }),
            "user: goes with the role user, not with write",
        ),
        (json!({ "name": "a:b", "role": "user" }), "user: is missing: the token's name is not a user's"),
        (json!({ "name": "a", "role": "user", "user": ".b" }), "user: is not a user's name"),
        (json!({ "name": "a", "role": "user", "user": "a/../b" }), "user: is not a user's name"),
        (json!({ "name": "a", "role": "user", "user": "b." }), "user: is not a user's name"),
        (json!({ "name": "A", "role": "user" }), "user: is missing: the token's name is not a user's"),
        (json!({ "name": "a", "role": "user", "node": "n" }), "node: goes with the role node, not with user"),
        (
            json!({ "name": "a", "role": "write", "labels": { "x": "y" } }),
            "labels: go with the roles node and join, not with write",
        ),
        (
            json!({ "name": "a", "role": "join", "labels": { "x": "y z" } }),
            "labels.x: is not a label's value",
        ),
        (
            json!({ "name": "a", "role": "join", "labels": { "node": "n2" } }),
            "labels.node: is the label that every node has with its name",
        ),
        (json!({ "name": "a", "role": "read", "expires": 3 }), "expires: is not a known field"),
    ] {
        let problem = read(&body).unwrap_err();
        assert!(problem.starts_with(says), "{body}: {problem}");
    }
}
