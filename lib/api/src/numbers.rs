//! The numbers in a value: each number and boolean of it, with the place where it stands.
//!
//! A value may have many, and a place may have a long name; so each value shows a bounded number, those nearest to its
//! top first, and counts the others. The text is compact JSON that was checked when it was written.

/// The most numbers that one value shows.
pub const MAX_NUMBERS: usize = 256;
/// The longest place that is shown.
const MAX_PLACE_BYTES: usize = 256;

/// A number of a value, or a boolean as 1 or 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number<'t> {
    /// A JSON pointer; empty for the value itself.
    pub place: String,
    /// As it is written.
    pub number: &'t str,
    depth: usize,
}

/// The numbers of a value that are shown, and how many are not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Numbers<'t> {
    pub shown: Vec<Number<'t>>,
    pub left_out: usize,
}

/// Finds them, in the order in which they stand; of too many those nearest to the top.
pub fn numbers(text: &str) -> Numbers<'_> {
    let mut walk = Walk { text, at: 0, place: String::new(), found: Numbers::default() };
    walk.value(0);
    let Numbers { mut shown, mut left_out } = walk.found;
    if shown.len() > MAX_NUMBERS {
        shown.sort_by_key(|number| number.depth);
        left_out += shown.len() - MAX_NUMBERS;
        shown.truncate(MAX_NUMBERS);
    }
    Numbers { shown, left_out }
}

struct Walk<'t> {
    text: &'t str,
    at: usize,
    place: String,
    found: Numbers<'t>,
}

impl<'t> Walk<'t> {
    fn value(&mut self, depth: usize) {
        match self.byte() {
            b'{' => self.members(depth, |walk, _| {
                let key = walk.string();
                walk.at += 1;
                serde_json::from_str::<String>(key).unwrap_or_default().replace('~', "~0").replace('/', "~1")
            }),
            b'[' => self.members(depth, |_, index| index.to_string()),
            b'"' => drop(self.string()),
            b't' => self.take("true".len(), Some("1"), depth),
            b'f' => self.take("false".len(), Some("0"), depth),
            b'n' => self.take("null".len(), None, depth),
            _ => {
                let rest = &self.text[self.at..];
                let length = rest.bytes().position(|byte| matches!(byte, b',' | b']' | b'}'));
                let number = &rest[..length.unwrap_or(rest.len())];
                self.take(number.len(), Some(number), depth);
            }
        }
    }

    /// Goes through an object or an array; `name` reads what stands before a member.
    fn members(&mut self, depth: usize, name: impl Fn(&mut Self, usize) -> String) {
        self.at += 1;
        let mut index = 0;
        while !matches!(self.byte(), b'}' | b']') {
            let name = name(self, index);
            let above = self.place.len();
            self.place.push('/');
            self.place.push_str(&name);
            self.value(depth + 1);
            self.place.truncate(above);
            if self.byte() == b',' {
                self.at += 1;
            }
            index += 1;
        }
        self.at += 1;
    }

    fn take(&mut self, length: usize, number: Option<&'t str>, depth: usize) {
        self.at += length;
        match number {
            Some(_) if self.place.len() > MAX_PLACE_BYTES => self.found.left_out += 1,
            Some(number) => self.found.shown.push(Number { place: self.place.clone(), number, depth }),
            None => {}
        }
    }

    /// Takes a string, and returns it with its quotes.
    fn string(&mut self) -> &'t str {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        self.at += 1;
        while bytes.get(self.at).is_some_and(|byte| *byte != b'"') {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        &self.text[start..self.at]
    }

    /// The byte to look at; at the end one that closes everything.
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = numbers(text);
        let shown: Vec<(&str, &str)> =
            found.shown.iter().map(|number| (number.place.as_str(), number.number)).collect();
        assert_eq!((shown.as_slice(), found.left_out), (expected, 0), "{text}");
    }

    #[test]
    fn every_number_and_boolean_has_its_place() {
        check("-0.50", &[("", "-0.50")]);
        check("true", &[("", "1")]);
        for text in ["null", "\"1\"", "{}", "[]", "[null,\"a\\\"1\"]"] {
            check(text, &[]);
        }
        check(
            r#"{"a":1,"b":{"c":[2e3,{"d":false}],"e":null},"f/~":"x\"{","g":4}"#,
            &[("/a", "1"), ("/b/c/0", "2e3"), ("/b/c/1/d", "0"), ("/g", "4")],
        );
        check(r#"{"x/y":{"~":1},"\u0061":2}"#, &[("/x~1y/~0", "1"), ("/a", "2")]);
    }

    #[test]
    fn of_too_many_those_nearest_to_the_top_are_shown() {
        let many: Vec<String> = (0..300).map(|n| format!("\"k{n}\":{n}")).collect();
        let text = format!("{{\"deep\":{{{}}},\"top\":7}}", many.join(","));
        let found = numbers(&text);
        assert_eq!((found.shown.len(), found.left_out), (MAX_NUMBERS, 45));
        assert_eq!((found.shown[0].place.as_str(), found.shown[1].place.as_str()), ("/top", "/deep/k0"));
        let long = format!("{{\"{}\":1,\"b\":2}}", "k".repeat(300));
        let found = numbers(&long);
        assert_eq!((found.shown.len(), found.left_out), (1, 1));
    }

    #[test]
    fn the_work_grows_with_the_value() {
        let value = |n: usize| {
            let all: Vec<String> = (0..n).map(|n| format!("\"k{n}\":[{n},true]")).collect();
            format!("{{{}}}", all.join(",")).into_boxed_str()
        };
        estimand_testkit::growth::is_linear("numbers", value, |text: &str| numbers(text).shown.len());
    }
}
