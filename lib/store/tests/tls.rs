//! Encrypted connections to real servers, trusted as the URL says.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use estimand_store::{Connection, Error, StoreUrl};
use estimand_testkit::databases::{self, Server};

/// Makes a root, a certificate of it for 127.0.0.1 with its key, and another root that signed nothing.
fn make_certificates(folder: &Path) {
    let script = "set -e
        for ca in root other; do
            openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$ca -keyout $ca.key -out $ca.pem \
                -addext basicConstraints=critical,CA:TRUE
        done
        openssl req -newkey rsa:2048 -nodes -subj /CN=db -keyout server.key -out server.csr
        printf 'subjectAltName=IP:127.0.0.1' > san
        openssl x509 -req -in server.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 \
            -extfile san -out server.pem";
    let output = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Gives the server its certificate as SQL that PostgreSQL itself writes out, so that the files belong
/// to it.
fn turn_on_tls(server: &Server, url: &str, certificates: &Path) {
    for (file, setting) in [("server.pem", "ssl_cert_file"), ("server.key", "ssl_key_file")] {
        let text = std::fs::read_to_string(certificates.join(file)).unwrap();
        let lines: Vec<_> = text.lines().map(|line| format!("('{line}')")).collect();
        let target = format!("{}/{file}", server.query(url, "SHOW data_directory"));
        let write = format!("COPY (VALUES {}) TO PROGRAM 'umask 077; cat > {target}'", lines.join(","));
        server.query(url, &write);
        server.query(url, &format!("ALTER SYSTEM SET {setting} = '{target}'"));
    }
    server.query(url, "ALTER SYSTEM SET ssl = on");
    server.query(url, "SELECT pg_reload_conf()");
}

fn open(url: &str) -> Result<Connection, Error> {
    let mut connection = Connection::open(&StoreUrl::parse(url).unwrap())?;
    connection.ping()?;
    Ok(connection)
}

#[test]
fn postgres_is_trusted_as_the_url_says() {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let server = Server::start_own(databases::Kind::Postgres);
    let url = server.fresh_url();
    for mode in ["require", "verify-full"] {
        let refused = open(&format!("{url}?sslmode={mode}")).err();
        assert!(matches!(refused, Some(Error::Denied { .. })), "no TLS there yet: {refused:?}");
    }
    open(&format!("{url}?sslmode=prefer")).unwrap();

    turn_on_tls(&server, &url, folder.path());
    server.restart();
    let encrypted = || {
        let sql = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE ssl AND application_name = 'estimand'";
        server.query(&url, sql)
    };
    let root = folder.path().join("root.pem");
    let root = root.display();
    for mode in ["prefer".to_owned(), "require".to_owned(), format!("verify-full&sslrootcert={root}")] {
        let connection = open(&format!("{url}?sslmode={mode}")).unwrap();
        assert_eq!(encrypted(), "1", "{mode}");
        drop(connection);
        estimand_testkit::wait::until(std::time::Duration::from_secs(10), "the session to end", || {
            (encrypted() == "0").then_some(())
        });
    }
    let plain = open(&format!("{url}?sslmode=disable")).unwrap();
    assert_eq!(encrypted(), "0");
    drop(plain);

    let other = format!("verify-full&sslrootcert={}", folder.path().join("other.pem").display());
    for mode in ["verify-full", &other] {
        let refused = open(&format!("{url}?sslmode={mode}")).err();
        assert!(
            matches!(&refused, Some(Error::Denied { cause, .. }) if cause.contains("ertificate")),
            "{refused:?}"
        );
    }
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let refused = open(&format!("{elsewhere}?sslmode=verify-full&sslrootcert={root}")).err();
    assert!(
        matches!(&refused, Some(Error::Denied { cause, .. }) if cause.contains("ertificate")),
        "{refused:?}"
    );
}

#[test]
fn missing_roots_are_an_error_of_the_url() {
    let postgres = "postgres://u@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=/not/there.pem";
    let mysql = "mysql://u@127.0.0.1:1/d?ssl-mode=VERIFY_IDENTITY&ssl-ca=/not/there.pem";
    for url in [postgres, mysql] {
        let refused = open(url).err();
        assert!(matches!(&refused, Some(Error::Url(text)) if text.contains("/not/there.pem")), "{refused:?}");
    }
}
