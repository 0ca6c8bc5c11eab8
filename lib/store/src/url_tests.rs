#![allow(clippy::unwrap_used)]
use std::path::Path;

use super::*;

fn refusal(url: &str) -> String {
    match StoreUrl::parse(url) {
        Err(Error::Url(text)) => text,
        other => panic!("{url}: {other:?}"),
    }
}

fn trust(url: &str) -> Option<Trust> {
    match StoreUrl::parse(url).unwrap().target {
        Target::Sqlite(_) => panic!("{url} is SQLite"),
        Target::Postgres { trust, .. } | Target::Mysql { trust, .. } => trust,
    }
}

#[test]
fn sqlite_paths_are_taken_as_they_are() {
    for (url, path) in [
        ("sqlite://estimand.db", "estimand.db"),
        ("sqlite://data/my store.db", "data/my store.db"),
        ("sqlite:///var/lib/estimand/100%.db", "/var/lib/estimand/100%.db"),
    ] {
        let parsed = StoreUrl::parse(url).unwrap();
        assert!(matches!(&parsed.target, Target::Sqlite(found) if found == Path::new(path)), "{url}");
        assert_eq!(parsed.to_string(), url);
    }
}

#[test]
fn passwords_are_never_shown() {
    for url in [
        "postgres://me:s3cret@db:5432/facts?connect_timeout=3",
        "postgresql://me:s3cret@h1:1,h2:2/facts",
        "mysql://me:s3cret%40@db/facts",
        "mariadb://me:s3@cret@db/facts",
        "postgres://me@db/facts?password=s3cret",
    ] {
        let parsed = StoreUrl::parse(url).unwrap();
        for shown in [parsed.to_string(), format!("{parsed:?}")] {
            assert!(shown.contains("***") && !shown.contains("cret"), "{shown}");
        }
    }
    for url in ["mysql://me:s3cret@db", "postgres://me:s3cret@db/x?sslmode=on", "oracle://me:s3cret@db/x"] {
        assert!(!refusal(url).contains("s3cret"));
    }
}

#[test]
fn servers_are_reached_as_the_url_says() {
    let Target::Postgres { config, .. } =
        StoreUrl::parse("postgres://me:a%2Fb@db:5433/facts?sslmode=require&target_session_attrs=read-write")
            .unwrap()
            .target
    else {
        panic!("not PostgreSQL");
    };
    assert_eq!(config.get_user(), Some("me"));
    assert_eq!(config.get_password(), Some("a/b".as_bytes()));
    assert_eq!(config.get_ports(), [5433]);
    assert_eq!(config.get_dbname(), Some("facts"));
    assert_eq!(config.get_target_session_attrs(), tokio_postgres::config::TargetSessionAttrs::ReadWrite);

    let Target::Mysql { opts, .. } = StoreUrl::parse("mariadb://me:a%2Fb@db:3307/facts").unwrap().target
    else {
        panic!("not MySQL");
    };
    assert_eq!((opts.user(), opts.pass()), (Some("me"), Some("a/b")));
    assert_eq!((opts.ip_or_hostname(), opts.tcp_port(), opts.db_name()), ("db", 3307, Some("facts")));
    assert!(opts.client_found_rows());
}

#[test]
fn tls_is_what_the_url_asks_for() {
    let from_file = || Some(Trust::Verified { roots: Some("/etc/my ca.pem".into()) });
    for (url, expected) in [
        ("postgres://u@h/d", None),
        ("postgres://u@h/d?sslmode=disable", None),
        ("postgres://u@h/d?sslmode=prefer", Some(Trust::Anyone)),
        ("postgres://u@h/d?sslmode=require", Some(Trust::Anyone)),
        ("postgres://u@h/d?sslmode=verify-full", Some(Trust::Verified { roots: None })),
        ("postgres://u@h/d?sslmode=verify-full&sslrootcert=%2Fetc%2Fmy%20ca.pem", from_file()),
        ("mysql://u@h/d", None),
        ("mysql://u@h/d?ssl-mode=DISABLED", None),
        ("mysql://u@h/d?ssl-mode=required", Some(Trust::Anyone)),
        ("mysql://u@h/d?ssl-mode=VERIFY_IDENTITY", Some(Trust::Verified { roots: None })),
        ("mysql://u@h/d?ssl-ca=/etc/my+ca.pem&ssl-mode=VERIFY_IDENTITY", from_file()),
    ] {
        assert_eq!(trust(url), expected, "{url}");
    }
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    for (url, wrong, right) in [
        ("estimand.db", "\"://\"", "sqlite://PATH"),
        ("oracle://u@h/d", "\"oracle\"", "postgres://"),
        ("sqlite://", "no file", "sqlite://estimand.db"),
        ("sqlite://:memory:", "loses", "name a file"),
        ("sqlite://a.db?mode=ro", "'?'", "no parameters"),
        ("postgres:///d", "no host", "postgres://USER"),
        ("postgres://u@h", "no database", "/DATABASE"),
        ("mysql://u:a/b@h/d", "no database", "%2F"),
        ("postgres://u@h/d?sslmode=verify-ca", "sslmode=verify-ca", "verify-full"),
        ("postgres://u@h/d?sslmode=require&sslmode=disable", "twice", "once"),
        ("postgres://u@h/d?sslmode=require&sslrootcert=x", "sslrootcert", "sslmode=verify-full"),
        ("postgres://u@h/d?nonsense=1", "nonsense", ""),
        ("mysql://u@h/d?ssl-mode=on", "ssl-mode=on", "VERIFY_IDENTITY"),
        ("mysql://u@h/d?ssl-ca=x", "ssl-ca", "ssl-mode=VERIFY_IDENTITY"),
        ("mysql://u@h/d?nonsense=1", "nonsense", ""),
        ("mysql://u@h:port/d", "port", ""),
    ] {
        let text = refusal(url);
        assert!(text.contains(wrong) && text.contains(right), "{url}: {text}");
    }
}
