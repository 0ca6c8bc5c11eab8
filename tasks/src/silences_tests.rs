//! A silence is certain from the first look that found it, and only as long as nothing may have been heard since.

use serde_json::json;

use super::*;

const LOST: (&str, &str) = ("lost", "2026-01-31T23:59:59Z");

fn node((state, heard): (&str, &str), agent: Option<&str>, left: bool) -> Node {
    let text = json!({
        "nodeName": "n1", "state": state, "cordoned": false, "labels": {}, "facts": {}, "agent": agent, "left": left,
        "lastHeartbeat": heard, "knownSince": heard, "instances": 0, "delivery": {},
    });
    serde_json::from_value(text).unwrap()
}

fn station() -> Station {
    ("n1".to_owned(), Some("a".to_owned()))
}

/// The looks at one node, one after the other.
struct Looks {
    silences: Silences,
    began: Instant,
    before: Option<u64>,
}

impl Looks {
    fn new() -> Self {
        Looks { silences: Silences::default(), began: Instant::now(), before: None }
    }

    /// A look that was asked for and answered in these seconds, by the leadership of this epoch.
    fn take(&mut self, (asked, answered): (u64, u64), nodes: &[Node], after: Option<u64>) -> Option<Silence> {
        let at = |seconds| self.began + Duration::from_secs(seconds);
        let before = std::mem::replace(&mut self.before, after);
        let look = Look { nodes, asked: at(asked), answered: at(answered), answered_us: 7, before, after };
        self.silences.take(&look, BTreeSet::from([station()]));
        self.silences.of(&station())
    }

    fn certain(&mut self, at: u64, node: &Node) -> Option<u64> {
        self.take((at, at), std::slice::from_ref(node), Some(1))?.certain.map(|certain| certain.as_secs())
    }
}

#[test]
fn a_lease_is_over_when_its_length_has_passed_since_the_first_look_that_was_certain() {
    let mut looks = Looks::new();
    let lost = node(LOST, Some("a"), false);
    assert_eq!(looks.take((0, 0), &[node(("ready", LOST.1), Some("a"), false)], None), None);
    assert_eq!(looks.certain(1, &lost), None, "which manager that was is not known before the next");
    assert_eq!(looks.certain(2, &lost), Some(0));
    let silence = looks.take((12, 400), std::slice::from_ref(&lost), Some(1)).unwrap();
    assert_eq!(silence.since_us, Some(7));
    assert!(silence.ends(Some(Millis(10_000))) && silence.ends(None), "it was so when it was asked for");
    assert!(!silence.ends(Some(Millis(10_001))));
    // Another start of the service counts anew.
    assert_eq!(Looks::new().certain(500, &lost), None);
}

#[test]
fn what_may_have_been_heard_of_between_two_looks_counts_anew() {
    let lost = node(LOST, Some("a"), false);
    let certain = |looks: &mut Looks| {
        looks.certain(0, &lost);
        looks.certain(1, &lost);
        assert_eq!(looks.certain(300, &lost), Some(299));
    };
    let mut looks = Looks::new();
    certain(&mut looks);
    assert_eq!(looks.certain(301, &node(("lost", "2026-02-01T00:00:00Z"), Some("a"), false)), Some(0));
    assert_eq!(looks.certain(302, &node(("ready", LOST.1), Some("a"), false)), None);
    assert_eq!(looks.certain(303, &lost), Some(0));

    // A former leadership may have heard of it, and not have stored that.
    let mut looks = Looks::new();
    certain(&mut looks);
    assert_eq!(
        looks.take((301, 301), std::slice::from_ref(&lost), None).unwrap().certain,
        Some(Duration::from_secs(299))
    );
    assert_eq!(looks.take((302, 302), std::slice::from_ref(&lost), Some(2)).unwrap().certain, None);
    assert_eq!(
        looks.take((303, 303), std::slice::from_ref(&lost), Some(2)).unwrap().certain,
        Some(Duration::ZERO)
    );
}

#[test]
fn a_node_that_another_agent_has_is_silent_to_the_tasks_of_the_former() {
    let mut looks = Looks::new();
    let other = node(("ready", LOST.1), Some("b"), false);
    looks.certain(0, &other);
    assert_eq!(looks.certain(1, &other), Some(0));
    assert_eq!(looks.certain(3, &other), Some(2));
    assert_eq!(looks.certain(60, &other), Some(0), "it may have been back meanwhile");
    // A manager of before does not say which agent it is.
    assert_eq!(looks.certain(61, &node(("ready", LOST.1), None, false)), None);
}

#[test]
fn an_agent_that_has_left_is_believed_at_once() {
    let mut looks = Looks::new();
    let left = node(LOST, Some("a"), true);
    let silence = looks.take((0, 0), &[left], None).unwrap();
    assert!(silence.ends(Some(Millis(u64::MAX))));
    let removed = looks.take((1, 1), &[], None).unwrap();
    assert!(!removed.ends(Some(Millis(1))) && removed.ends(None));
}
