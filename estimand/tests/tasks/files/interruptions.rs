//! Files on their way when agents or services are killed: they go on where they were.

use super::*;

/// How much of uploads has come that are not whole.
fn on_the_way(plane: &Plane) -> u64 {
    let parts = plane.services.data_dir().join("files/.estimand-uploads");
    let sizes = fs::read_dir(parts).into_iter().flatten().flatten();
    sizes.filter_map(|part| part.metadata().ok()).map(|data| data.len()).sum()
}

fn received(plane: &Plane) -> u64 {
    let metrics = plane.http.get("/metrics").text().to_owned();
    let figure = metrics.lines().find_map(|line| line.strip_prefix("estimand_files_received_bytes_total "));
    figure.map_or(0, |figure| figure.parse::<f64>().unwrap() as u64)
}

#[test]
fn outputs_go_on_where_they_were_after_kills() {
    const SIZE: u64 = 300 << 20;
    let mut plane = Plane::start(&["n1"]);
    let run = format!("head -c {SIZE} /dev/urandom > big; sha256sum big");
    let id = plane.submit(&json!({ "command": script(&run), "outputs": ["big"], "onLoss": "wait" }));
    wait::until(PATIENCE, "a part of it to have come", || (on_the_way(&plane) > 8 << 20).then_some(()));
    plane.agents[0].kill9();
    let before = on_the_way(&plane);
    assert!(before < SIZE, "it was too fast for this test");
    assert!(plane.task(&id).get("endedAt").is_none(), "its end is told when its outputs are stored");
    plane.agents[0].restart_on_same_port();
    wait::until(PATIENCE, "more of it to have come", || {
        (on_the_way(&plane) > before + (8 << 20)).then_some(())
    });
    plane.services.kill9();
    let before = on_the_way(&plane);
    assert!(before < SIZE, "it was too fast for this test");
    plane.services.restart_on_same_port();
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
    let file = &task["outputs"]["files"][0];
    assert_eq!((&file["size"], file["sha256"].as_str().unwrap()), (&json!(SIZE), &plane.log(&id)[0][..64]));
    let entry = plane.http.get(&format!("/api/files/entry?path=tasks/{id}/big")).expect_status(200).json();
    assert_eq!(entry["sha256"], file["sha256"]);
    // It was not begun anew: since its start this service got what was missing, and no more.
    assert!(received(&plane) <= SIZE - before, "{} of {}", received(&plane), SIZE - before);
}

#[test]
fn inputs_go_on_where_they_were_after_kills() {
    const SIZE: usize = 200 << 20;
    let mut plane = Plane::start(&["n1"]);
    let place = plane.services.data_dir().join("files");
    // It came there by other means.
    let bytes: Vec<u8> = (0..SIZE).map(|n| (n / 4096) as u8 ^ (n % 251) as u8).collect();
    fs::write(place.join("big"), &bytes).unwrap();
    let id =
        plane.submit(&json!({ "command": script("sha256sum big"), "inputs": ["big"], "onLoss": "wait" }));
    let attempt = plane.folder.path().join("n1/tasks").join(format!("{id}.1"));
    let here = || {
        let files = fs::read_dir(&attempt).into_iter().flatten().flatten();
        let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with("input."));
        parts.filter_map(|part| part.metadata().ok()).map(|data| data.len()).sum::<u64>()
    };
    wait::until(PATIENCE, "a part of it to have come", || (here() > 4 << 20).then_some(()));
    plane.agents[0].kill9();
    let before = here();
    assert!(before > 0 && before < SIZE as u64, "{before}");
    assert_eq!(plane.task(&id)["state"], "PREPARING");
    plane.agents[0].restart_on_same_port();
    wait::until(PATIENCE, "it to go on", || {
        (here() > before || attempt.join("inputs").exists()).then_some(())
    });
    plane.services.kill9();
    plane.services.restart_on_same_port();
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
    assert_eq!(plane.log(&id), [format!("{}  big", sha256(&bytes))]);
}
