//! A service is listed by Eureka from when it is ready until it ends.

use estimand_testkit::eureka::Eureka;
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};

#[test]
fn a_service_is_listed_while_it_runs_also_by_a_server_that_was_started_anew() {
    let eureka = Eureka::start();
    let args = ["up", "--no-agent", "--defaults", "none", "--eureka", &eureka.url(), "--eureka-app", "plane"];
    let mut services = process::estimand().args(args).start();
    let listed = || {
        wait::until_ok(PATIENCE, "one instance to be listed", || match eureka.instances("PLANE").as_slice() {
            [one] => Ok(one.clone()),
            other => Err(format!("{other:?}")),
        })
    };
    let instance = listed();
    assert_eq!(
        (&instance["status"], &instance["homePageUrl"]),
        (&"UP".into(), &format!("{}/", services.base_url()).into())
    );
    let figure = |line: &str| {
        let text = services.http().get("/metrics").expect_status(200).text().to_owned();
        text.lines().any(|found| found == line)
    };
    assert!(figure("estimand_calls_breaker{service=\"eureka\",state=\"closed\"} 1"));

    eureka.kill9();
    wait::until(PATIENCE, "a renewal to fail", || {
        figure("estimand_background_failing{loop=\"eureka\"} 1").then_some(())
    });
    eureka.start_again();
    listed();
    assert!(services.terminate().success());
    assert_eq!(eureka.instances("PLANE"), Vec::<serde_json::Value>::new(), "it said that it ends");
}
