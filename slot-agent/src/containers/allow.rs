//! The images that may run on a node, by patterns over their names. Pure.

use std::fmt;
use std::str::FromStr;

/// The tag of an image that is named without one.
const LATEST: &str = "latest";

/// A name of images in which `*` stands for any text. Without a tag it means all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePattern(String);

impl ImagePattern {
    /// All images.
    pub fn everything() -> Self {
        ImagePattern("*".to_owned())
    }

    pub fn allows(&self, image: &str) -> bool {
        [image, bare(image), &whole(image)].iter().any(|name| matches(&self.0, name))
    }
}

/// An image's name without tag and digest.
pub fn bare(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    // A host may have a port.
    let last = image.rfind('/').map_or(0, |slash| slash + 1);
    image[last..].find(':').map_or(image, |colon| &image[..last + colon])
}

/// An image's name with the tag that it has if it is named without one.
pub fn whole(image: &str) -> String {
    if bare(image) == image { format!("{image}:{LATEST}") } else { image.to_owned() }
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = others.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl FromStr for ImagePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@*".contains(&byte);
        match !text.is_empty() && text.bytes().all(fits) {
            true => Ok(ImagePattern(text.to_owned())),
            false => Err(format!(
                "`{text}` is no name of images; expected one such as python:3.12, registry.example.com/team/* or *"
            )),
        }
    }
}

impl fmt::Display for ImagePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_allows_what_it_says_and_nothing_more() {
        let check = |pattern: &str, allowed: &[&str], refused: &[&str]| {
            let pattern: ImagePattern = pattern.parse().unwrap();
            assert!(allowed.iter().all(|image| pattern.allows(image)), "{pattern} allows {allowed:?}");
            assert!(!refused.iter().any(|image| pattern.allows(image)), "{pattern} refuses {refused:?}");
        };
        check("*", &["a", "h:5000/a/b:1"], &[]);
        check("python", &["python", "python:3.12", "python@sha256:0a"], &["pythons", "evil/python", "pytho"]);
        check("python:3.12", &["python:3.12"], &["python", "python:3.1", "python:3.123"]);
        check("python:latest", &["python", "python:latest"], &["python:3"]);
        check("h:5000/team/*", &["h:5000/team/a", "h:5000/team/a/b:1"], &["h:5000/team", "h:5000/other/a"]);
        check("*/a:1*", &["x/a:1", "x/a:12"], &["a:1", "x/b:1"]);
        check("a*a", &["aa", "aba"], &["a"]);
        for wrong in ["", "a b", "a;b"] {
            assert!(wrong.parse::<ImagePattern>().unwrap_err().contains("is no name of images"));
        }
    }

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        for (image, expected) in [
            ("a", "a:latest"),
            ("h:5000/a", "h:5000/a:latest"),
            ("a:1", "a:1"),
            ("a@sha256:0a", "a@sha256:0a"),
            ("h:5000/a:1", "h:5000/a:1"),
        ] {
            assert_eq!(whole(image), expected);
        }
    }
}
