//! The statuses that are no failure.

use std::fmt;

/// Codes, and hundreds of codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accept(Vec<(u16, u16)>);

impl Default for Accept {
    fn default() -> Self {
        Accept(vec![(200, 299)])
    }
}

impl Accept {
    /// Reads `200,404` or `2xx,404`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("the parameter `accept_status` is `{text}`; expected codes such as `200,404` or `2xx`")
        };
        let one = |word: &str| {
            let word = word.trim();
            let (least, most) = match word.strip_suffix("xx") {
                Some(hundreds) => {
                    let least = hundreds.parse::<u16>().ok()?.checked_mul(100)?;
                    (least, least.checked_add(99)?)
                }
                None => {
                    let code = word.parse().ok()?;
                    (code, code)
                }
            };
            (100..600).contains(&least).then_some((least, most))
        };
        text.split(',').map(one).collect::<Option<_>>().map(Accept).ok_or_else(wrong)
    }

    pub(super) fn accepts(&self, status: u16) -> bool {
        self.0.iter().any(|(least, most)| (*least..=*most).contains(&status))
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (least, most)) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { ", " };
            match least == most {
                true => write!(f, "{between}{least}")?,
                false => write!(f, "{between}{}xx", least / 100)?,
            }
        }
        Ok(())
    }
}
