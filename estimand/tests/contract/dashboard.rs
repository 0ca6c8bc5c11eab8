//! The dashboard's files: who is given them, and what they may do in a browser.

use estimand_testkit::http::Http;

use crate::answers::problem;
use crate::target::Target;

on_every_target!(
    the_page_is_public_and_may_ask_its_own_service_only,
    a_file_is_not_sent_again,
    the_page_is_where_values_are,
);

fn nobody(http: &Http) -> Http {
    Http::new(&format!("http://{}", http.authority())).showing(None)
}

fn the_page_is_public_and_may_ask_its_own_service_only(target: &Target) {
    let http = nobody(&target.data);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/assets/lib/api.js", "text/javascript; charset=utf-8"),
        ("/assets/style.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ] {
        let answer = http.get(path).expect_status(200);
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        let directives: Vec<&str> = policy.split("; ").collect();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(directives.contains(&directive), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    }
    let page = http.get("/").text().to_owned();
    let files: Vec<&str> =
        page.split("\"assets/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(files.len() > 3, "{page}");
    for file in files {
        http.get(&format!("/assets/{file}")).expect_status(200);
    }
    for path in [
        "/assets/never-was.js",
        "/assets/lib/never-was.js",
        "/assets/..%2F..%2FCargo.toml",
        "/assets/lib/..%2Fapp.js",
    ] {
        problem(&http.get(path), 404);
    }
}

fn a_file_is_not_sent_again(target: &Target) {
    let first = target.data.get("/assets/app.js").expect_status(200);
    let tag = first.header("etag").unwrap();
    let other = target.data.get("/assets/pages.js").header("etag").unwrap().to_owned();
    assert_ne!(tag, other);
    for given in [tag.to_owned(), format!("{other}, {tag}")] {
        let again = target.data.request("GET", "/assets/app.js", &[("If-None-Match", &given)], b"");
        assert!(again.status == 304 && again.body.is_empty(), "{again}");
        assert_eq!(again.header("etag"), Some(tag));
    }
    target.data.request("GET", "/assets/app.js", &[("If-None-Match", &other)], b"").expect_status(200);
}

fn the_page_is_where_values_are(target: &Target) {
    for http in target.services() {
        let status = http.get("/").status;
        let has_values = http.get("/openapi.json").json()["paths"].get("/api/data").is_some();
        assert_eq!(status, if has_values { 200 } else { 404 });
    }
}
