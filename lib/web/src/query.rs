//! Reads a query string strictly and without allocating.
//!
//! A route has a short, fixed list of parameters. Any other name is rejected by name, so
//! that a typing error is not silently "everything"; so is a name given twice, unless its values are a list. Values are
//! borrowed from the request unless there is something to decode or to join.

use std::borrow::Cow;

use estimand_api::problem::{FieldError, Problem};

/// The parameters of one request, out of the `N` that its route allows.
#[derive(Debug, PartialEq, Eq)]
pub struct Query<'q, const N: usize> {
    allowed: &'static [&'static str; N],
    values: [Option<Cow<'q, str>>; N],
}

impl<'q, const N: usize> Query<'q, N> {
    pub fn parse(query: &'q str, allowed: &'static [&'static str; N]) -> Result<Self, Problem> {
        Self::with_lists(query, allowed, &[])
    }

    /// Reads parameters of which some are lists: one that is given again continues its list, as a comma does.
    pub fn with_lists(
        query: &'q str,
        allowed: &'static [&'static str; N],
        lists: &[&str],
    ) -> Result<Self, Problem> {
        let mut values = [const { None }; N];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(raw_name).map_err(|wrong| wrong.of("query", raw_name))?;
            let Some(place) = allowed.iter().position(|known| *known == name) else {
                return Err(unknown(&name, allowed));
            };
            let value = decode(raw_value).map_err(|wrong| wrong.of(&name, raw_value))?;
            match &mut values[place] {
                empty @ None => *empty = Some(value),
                Some(list) if lists.contains(&allowed[place]) => {
                    let list = list.to_mut();
                    list.push(',');
                    list.push_str(&value);
                }
                Some(_) => {
                    let message = "given more than once";
                    return Err(Problem::invalid_field(FieldError::new(name, message).expected("one value")));
                }
            }
        }
        Ok(Query { allowed, values })
    }

    /// The value of a parameter. A parameter without `=` has the empty value.
    pub fn get(&self, name: &str) -> Option<&str> {
        let place = self.allowed.iter().position(|known| *known == name);
        debug_assert!(place.is_some(), "the route does not allow the parameter {name:?} it asks for");
        self.values[place?].as_deref()
    }

    /// A parameter that is true or false: absent is false, and the name alone is true.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(other) => {
                let error = FieldError::new(name, "is neither true nor false").given(other);
                Err(Problem::invalid_field(error.expected("true or false")))
            }
        }
    }
}

fn unknown(name: &str, allowed: &[&str]) -> Problem {
    let expected = if allowed.is_empty() { "no parameters".to_owned() } else { allowed.join(", ") };
    Problem::invalid_field(FieldError::new(name, "unknown query parameter").expected(expected))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undecodable {
    Percent,
    Utf8,
}

impl Undecodable {
    fn of(self, field: &str, given: &str) -> Problem {
        let (message, expected) = match self {
            Undecodable::Percent => ("a % without two hexadecimal digits", "%25 for a percent sign"),
            Undecodable::Utf8 => ("not UTF-8 once decoded", "percent-encoded UTF-8"),
        };
        Problem::invalid_field(FieldError::new(field, message).given(given).expected(expected))
    }
}

/// Undoes `%XX` and `+`; borrows text that has neither.
fn decode(raw: &str) -> Result<Cow<'_, str>, Undecodable> {
    let Some(first) = raw.bytes().position(|byte| matches!(byte, b'%' | b'+')) else {
        return Ok(Cow::Borrowed(raw));
    };
    let (plain, coded) = raw.as_bytes().split_at(first);
    let mut decoded = Vec::with_capacity(raw.len());
    decoded.extend_from_slice(plain);
    let mut rest = coded.iter();
    while let Some(&byte) = rest.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => match (rest.next().and_then(hex), rest.next().and_then(hex)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(Undecodable::Percent),
            },
            other => other,
        });
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| Undecodable::Utf8)
}

fn hex(digit: &u8) -> Option<u8> {
    // A hexadecimal digit is below sixteen, so the cast loses nothing.
    char::from(*digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ALLOWED: &[&str; 2] = &["dataName", "dataNode"];

    #[test]
    fn values_are_borrowed_unless_coded() {
        let query = Query::parse("dataName=cpu_usage&&dataNode=n%C3%B6rd+1%2b", ALLOWED).unwrap();
        assert_eq!(query.get("dataName"), Some("cpu_usage"));
        assert_eq!(query.get("dataNode"), Some("nörd 1+"));
        assert!(matches!(query.values[0], Some(Cow::Borrowed(_))));
    }

    #[test]
    fn absent_empty_and_flag() {
        let query = Query::parse("dataName", ALLOWED).unwrap();
        assert_eq!(query.get("dataName"), Some(""));
        assert_eq!(query.get("dataNode"), None);
        assert_eq!(Query::parse("", ALLOWED).unwrap().get("dataName"), None);
        assert_eq!(Query::parse("data%4Eame=a=b", ALLOWED).unwrap().get("dataName"), Some("a=b"));
    }

    #[test]
    fn a_list_may_be_given_in_pieces() {
        let parse =
            |lists: &[&str]| Query::with_lists("dataNode=a%2Cb&dataName=x&dataNode=c", ALLOWED, lists);
        assert_eq!(parse(&["dataNode"]).unwrap().get("dataNode"), Some("a,b,c"));
        assert_eq!(parse(&["dataName"]).unwrap_err().errors[0].field, "dataNode");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |query: &'static str, field: &str, part: &str| {
            let problem = Query::parse(query, ALLOWED).unwrap_err();
            assert_eq!(problem.status, 400, "{query}");
            assert_eq!(problem.errors[0].field, field, "{query}");
            assert!(problem.detail.contains(part), "{query}: {}", problem.detail);
        };
        check("name=x", "name", "dataName, dataNode");
        check("dataName=a&dataName=b", "dataName", "more than once");
        check("dataName=%ff", "dataName", "UTF-8");
        check("dataName=%4", "dataName", "hexadecimal");
        check("dataName=%+1", "dataName", "hexadecimal");
        check("%zz=1", "query", "hexadecimal");
    }

    #[test]
    fn a_route_without_parameters_says_so() {
        let problem = Query::parse("a=1", &[]).unwrap_err();
        assert!(problem.detail.contains("no parameters"), "{}", problem.detail);
    }
}
