//! Pages of an allowed origin in the browser of somebody who has a certificate.

use chrono::Utc;
use estimand_pki::Authority;
use estimand_testkit::TOKEN;
use reqwest::{Method, StatusCode};

use crate::certificates::issue;
use crate::plane::Plane;

const PAGE: &str = "https://pages.example";

/// A browser shows the certificate of its user for whatever page; a token is the page's own.
#[test]
fn an_allowed_page_does_not_act_by_the_certificate_of_its_browser() {
    let plane = Plane::start(&["--allow-origin", PAGE]);
    let ours = Authority::open(&plane.pki()).unwrap();
    let alice = issue(&plane, &ours, "estimand:operator:alice", "alice", Utc::now());
    let (with, without) = (plane.http(Some(&alice)), plane.http(None));
    let url = format!("{}/api/data", plane.url());
    let body = r#"{"dataName":"load","nodeName":"n1","dataValue":1}"#;
    for (client, origin, token, allowed) in [
        (&with, Some(PAGE), None, false),
        (&with, Some(PAGE), Some(TOKEN), true),
        (&with, None, None, true),
        (&with, Some("https://evil.example"), Some(TOKEN), false),
        (&without, Some(PAGE), Some(TOKEN), true),
    ] {
        let mut request = client.client.request(Method::PUT, &url).body(body);
        request = origin.into_iter().fold(request, |request, origin| request.header("Origin", origin));
        request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
        let answer = plane.wait(async { request.send().await }).unwrap();
        let shown = answer.headers().get("access-control-allow-origin").cloned();
        assert_eq!(shown.is_some(), origin == Some(PAGE), "{origin:?}");
        assert_eq!(answer.headers().get("access-control-allow-credentials"), None);
        match allowed {
            true => assert!(answer.status().is_success(), "{origin:?} {token:?}: {}", answer.status()),
            false => assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{origin:?} {token:?}"),
        }
    }
}
