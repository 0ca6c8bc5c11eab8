//! A client that asks the same again and again and shows the tag of the answer it has, beside one that shows none.
//!
//! Both must come to the same bytes. A tag stands for the same bytes wherever and whenever it comes: after a deletion, under
//! another binding, and from a process that was started again.

use std::collections::BTreeMap;

use estimand_testkit::http::Http;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

#[derive(Debug, Default)]
pub struct Poller {
    /// The tag and the bytes that it has of each path.
    held: BTreeMap<String, (String, Vec<u8>)>,
    /// The bytes of all tags that it was ever given.
    given: BTreeMap<String, Vec<u8>>,
}

impl Poller {
    /// Asks once more. What is not there has no tag.
    pub fn poll(&mut self, http: &Http, path: &str) -> Result<(), TestCaseError> {
        let plain = http.get(path);
        prop_assert_eq!(plain.header("etag"), None, "nobody asked for it");
        let held = self.held.get(path);
        let shown = held.map_or("\"\"", |(tag, _)| tag);
        let asked = http.request("GET", path, &[("If-None-Match", shown)], b"");
        let is_same = held.is_some_and(|(_, bytes)| *bytes == plain.body);
        match (plain.status, held) {
            (200, Some((tag, _))) if is_same => {
                prop_assert_eq!(asked.status, 304, "{} is as it was: {}", path, asked);
                prop_assert_eq!((asked.header("etag"), asked.body.len()), (Some(&**tag), 0));
                prop_assert!(asked.header("estimand-revision").is_some(), "{}", asked);
            }
            (200, _) => {
                prop_assert_eq!(asked.status, 200, "{} is another than it was: {}", path, asked);
                prop_assert_eq!(&asked.body, &plain.body);
                let tag = asked.header("etag").unwrap_or_default().to_owned();
                let first = self.given.entry(tag.clone()).or_insert_with(|| asked.body.clone());
                prop_assert_eq!(&*first, &asked.body, "{} stands for two answers", tag);
                self.held.insert(path.to_owned(), (tag, asked.body));
            }
            _ => {
                prop_assert_eq!((asked.status, asked.header("etag")), (plain.status, None), "{}", asked);
            }
        }
        let head = http.request("HEAD", path, &[], b"");
        let tag = self.held.get(path).filter(|_| plain.status == 200).map(|(tag, _)| &**tag);
        prop_assert_eq!((head.status, head.header("etag")), (plain.status, tag), "{}", head);
        Ok(())
    }
}
