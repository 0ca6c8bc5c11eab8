//! Finds the route of a path by comparing text, segment by segment.
//!
//! A segment of a route's path is a text or one name in braces, which stands for any segment that is not empty. Of several
//! routes that a path leads to, the one that was added first is taken. The name `rest` at the end of a route's path stands for all
//! segments that follow, whatever they are. A slash at the end of a path that leads nowhere else
//! is ignored.

use actix_web::dev::ServiceRequest;

/// The end of the path of a route to which all that follows leads.
const REST: &str = "/{rest}";

/// The routes of a site by their paths. Shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Router {
    root: Node,
    routes: Vec<NamedSegments>,
}

/// The segments of a route's path that are names: the number of each in the path, and its name.
type NamedSegments = Vec<(usize, &'static str)>;

/// The part of a path that several routes have in common.
#[derive(Debug, Default)]
struct Node {
    texts: Vec<(String, Node)>,
    named: Option<Box<Node>>,
    /// The route that all which follows leads to.
    rest: Option<usize>,
    /// The route whose path ends here.
    route: Option<usize>,
}

impl Router {
    /// The routes with these paths, each known by its number.
    ///
    /// # Panics
    /// If a path is none that can be routed, or comes twice: that is a mistake in the program, found at its first start.
    pub(crate) fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let mut router = Router::default();
        for path in paths {
            router.add(path);
        }
        router
    }

    fn add(&mut self, path: &str) {
        let (path, has_rest) = match path.strip_suffix(REST) {
            Some(before) => (before, true),
            None => (path, false),
        };
        let mut node = &mut self.root;
        let mut named = NamedSegments::new();
        for (number, segment) in segments(path).enumerate() {
            node = match name_of(segment, path) {
                // A name lives as long as the program, which makes its routes once.
                Some(name) => {
                    named.push((number, name.to_owned().leak()));
                    node.named.get_or_insert_default()
                }
                None => node.after_text(segment),
            };
        }
        let end = if has_rest { &mut node.rest } else { &mut node.route };
        let taken = end.replace(self.routes.len());
        assert!(taken.is_none(), "the path {path:?} is routed twice");
        self.routes.push(named);
    }

    /// The number of the route that a request's path leads to. From then on the request knows its named segments.
    pub(crate) fn route(&self, request: &mut ServiceRequest) -> Option<usize> {
        // Decoded, but for what would change its segments.
        let path = request.match_info_mut();
        let route = self.find(path.as_str())?;
        for (number, name) in &self.routes[route] {
            let segment = segments(path.as_str()).nth(*number).unwrap_or_default().to_owned();
            path.add_static(*name, segment);
        }
        Some(route)
    }

    fn find(&self, path: &str) -> Option<usize> {
        let found = |path: &str| self.root.find(path.strip_prefix('/')?);
        found(path).or_else(|| found(path.strip_suffix('/').filter(|shorter| !shorter.ends_with('/'))?))
    }
}

impl Node {
    fn after_text(&mut self, text: &str) -> &mut Node {
        let place = self.texts.iter().position(|(known, _)| known == text);
        let place = place.unwrap_or_else(|| {
            self.texts.push((text.to_owned(), Node::default()));
            self.texts.len() - 1
        });
        &mut self.texts[place].1
    }

    /// The route that the rest of a path leads to from here.
    fn find(&self, rest: &str) -> Option<usize> {
        let (segment, rest) = match rest.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (rest, None),
        };
        let end = |node: &Node| match rest {
            Some(rest) => node.find(rest),
            None => node.route,
        };
        let by_text = self.texts.iter().find(|(text, _)| text == segment).and_then(|(_, node)| end(node));
        let by_name = self.named.as_deref().filter(|_| !segment.is_empty()).and_then(end);
        [by_text, by_name, self.rest].into_iter().flatten().min()
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// The name in a segment of a route's path; none if it is a text.
fn name_of<'s>(segment: &'s str, path: &str) -> Option<&'s str> {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let plain = name.unwrap_or(segment);
    assert!(
        !plain.contains(['{', '}', ':']),
        "the segment {segment:?} of the path {path:?} cannot be routed"
    );
    name
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const PATHS: [&str; 9] = [
        "/",
        "/data/{name}/{node}",
        "/data",
        "/data/watch",
        "/data/{name}/log/{id}",
        "/data/{name}/log",
        "/data/first/log",
        "/folder/",
        "/things/{name}/web/{rest}",
    ];

    /// The route and the named segments that a target leads to.
    fn routed(target: &str) -> Option<(&'static str, Vec<String>)> {
        let mut request = TestRequest::with_uri(target).to_srv_request();
        let route = Router::new(PATHS).route(&mut request)?;
        let named = request.match_info().iter().map(|(name, segment)| format!("{name}={segment}"));
        Some((PATHS[route], named.collect()))
    }

    fn leads(target: &str, path: &str, named: &[&str]) {
        let named: Vec<_> = named.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(routed(target), Some((path, named)), "{target}");
    }

    fn leads_nowhere(path: &str) {
        assert_eq!(Router::new(PATHS).find(path), None, "{path:?}");
    }

    #[test]
    fn a_path_leads_to_the_route_that_was_added_first() {
        leads("/", "/", &[]);
        leads("/data?x=/data/watch", "/data", &[]);
        leads("/data/watch", "/data/watch", &[]);
        leads("/data/load/n1", "/data/{name}/{node}", &["name=load", "node=n1"]);
        leads("/data/watch/n1", "/data/{name}/{node}", &["name=watch", "node=n1"]);
        leads("/data/first/log", "/data/{name}/{node}", &["name=first", "node=log"]);
        leads("/data/first/log/7", "/data/{name}/log/{id}", &["name=first", "id=7"]);
    }

    #[test]
    fn a_slash_at_the_end_is_ignored_unless_it_is_part_of_a_route() {
        leads("/data/", "/data", &[]);
        leads("/data/load/n1/", "/data/{name}/{node}", &["name=load", "node=n1"]);
        leads("/folder/", "/folder/", &[]);
        for path in ["/folder", "/folder//", "//", "/data//", "/data/load/n1//"] {
            leads_nowhere(path);
        }
    }

    #[test]
    fn all_that_follows_leads_to_one_route() {
        for target in ["/things/x/web/", "/things/x/web/a", "/things/x/web/a//b/?c", "/things/x/web/..%2f"] {
            leads(target, "/things/{name}/web/{rest}", &["name=x"]);
        }
        leads_nowhere("/things/x/web");
        leads_nowhere("/things//web/a");
    }

    #[test]
    fn an_empty_segment_has_no_name_and_other_letters_are_another_path() {
        for path in ["", "*", "data", "/data//n1", "//data", "/Data", "/dat", "/data1", "/data/load/n1/more"]
        {
            leads_nowhere(path);
        }
    }

    #[test]
    fn an_encoded_path_is_routed_by_the_text_that_it_stands_for() {
        leads("/d%61ta", "/data", &[]);
        leads("/data/l%C3%B6ad/a%20b", "/data/{name}/{node}", &["name=löad", "node=a b"]);
        // These would be separators, or the beginning of another code, if they were decoded.
        leads("/data/a%2Fb/c%2541", "/data/{name}/{node}", &["name=a%2Fb", "node=c%2541"]);
        assert_eq!(routed("/data%2Fwatch"), None);
    }

    #[test]
    #[should_panic(expected = "cannot be routed")]
    fn a_pattern_is_no_name() {
        let _ = Router::new(["/files/{rest:.*}"]);
    }

    #[test]
    #[should_panic(expected = "is routed twice")]
    fn routes_have_different_paths() {
        let _ = Router::new(["/a/{x}", "/a/{y}"]);
    }
}
