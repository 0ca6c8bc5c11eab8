//! Files: sent, found, fetched and removed; and what is wrong with a request.

use serde_json::json;

use crate::answers::{unknown_input, wrong_field};
use crate::target::Target;

on_every_target!(a_file_comes_and_goes, wrong_questions_about_files_are_refused);

fn a_file_comes_and_goes(target: &Target) {
    let (files, folder) = (&target.files, target.name("folder"));
    let path = format!("{folder}/one");
    let content = format!("/api/files/content?path={path}");
    let first = format!("{content}&size=6&offset=0");
    let progress = files.request("PUT", &first, &[], b"abc").expect_status(202).json();
    assert_eq!(progress, json!({ "received": 3, "size": 6 }));
    let asked = files.get(&format!("/api/files/upload?path={path}&size=6")).expect_status(200).json();
    assert_eq!(asked, progress);
    let there =
        files.request("PUT", &format!("{content}&size=6&offset=3"), &[], b"def").expect_status(200).json();
    assert_eq!((&there["path"], &there["size"]), (&json!(path), &json!(6)));
    assert_eq!(files.get(&content).expect_status(200).body, b"abcdef");
    let entry = files.get(&format!("/api/files/entry?path={path}")).expect_status(200).json();
    assert_eq!(entry, there);
    let page = files.get(&format!("/api/files?folder={folder}")).expect_status(200).json();
    assert_eq!((&page["files"][0]["path"], page.get("next")), (&json!(path), None));
    files.request("DELETE", &format!("/api/files?path={path}"), &[], b"").expect_status(204);
    files.get(&content).expect_status(404);
}

fn wrong_questions_about_files_are_refused(target: &Target) {
    let files = &target.files;
    for (path, field) in [
        ("/api/files?limit=many", "limit"),
        ("/api/files?recursive=perhaps", "recursive"),
        ("/api/files?folder=../x", "folder"),
        ("/api/files?after=/x", "after"),
        ("/api/files/entry", "path"),
        ("/api/files/content?path=a//b", "path"),
        ("/api/files/upload?path=x", "size"),
        ("/api/files/upload?path=x&size=1&sha256=12", "sha256"),
        ("/api/files/socket", "Upgrade"),
    ] {
        wrong_field(&files.get(path), field);
    }
    unknown_input(&files.get("/api/files?color=red"), "color", "folder, recursive, contains");
    unknown_input(&files.get("/api/files/socket?color=red"), "color", "no parameters");
}
