//! A machine without authorities, as an image without `ca-certificates`: plain HTTP needs none.

use estimand_testkit::process;

use crate::plane::Plane;

/// The variables by which a process finds no authorities.
const NONE: [(&str, &str); 2] = [("SSL_CERT_FILE", "/no/such/file"), ("SSL_CERT_DIR", "/no/such/folder")];

#[test]
fn without_authorities_plain_http_works_and_https_says_what_is_missing() {
    let builder = process::estimand().args(["up", "--node", "node-1"]);
    let services = NONE.iter().fold(builder, |builder, (name, value)| builder.env(*name, *value)).start();
    let run = |server: &str, args: &[&str]| {
        let mut command = process::command(process::binary());
        command.args(args).envs(NONE).env("ESTIMAND_SERVER", server);
        command.output().unwrap()
    };
    let listed = run(services.base_url(), &["nodes", "--json"]);
    assert!(listed.status.success(), "{listed:?}");

    let plane = Plane::start(&[]);
    let refused = run(plane.url(), &["nodes"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{refused:?}");
    for part in ["is not trusted", "`ca-certificates`", "--authority"] {
        assert!(said.contains(part), "{said}");
    }
    // An authority of its own is all that it needs.
    let authority = plane.pki().join("authority.pem").display().to_string();
    let listed = run(plane.url(), &["nodes", "--json", "--authority", &authority]);
    assert!(listed.status.success(), "{listed:?}");
}
