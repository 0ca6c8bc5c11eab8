//! The files of the dashboard, which are in the binary. Each is a line here.

/// A file as it is in `assets/`.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its path below that folder: a file there, or one in a folder of it.
    pub name: &'static str,
    pub content: &'static [u8],
}

impl Asset {
    pub fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next().unwrap_or_default() {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        }
    }
}

macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        &[$(Asset { name: $name, content: include_bytes!(concat!("../assets/", $name)) }),+]
    };
}

/// The page itself, which loads the others.
pub const PAGE: &str = "index.html";

pub const ALL: &[Asset] = assets![
    "index.html",
    "app.js",
    "icon.svg",
    "pages.js",
    "style.css",
    "lib/account.js",
    "lib/api.js",
    "lib/chart.js",
    "lib/dom.js",
    "lib/form.js",
    "lib/heatmap.js",
    "lib/layers.js",
    "lib/ledger.js",
    "lib/live.js",
    "lib/notice.js",
    "lib/origin.js",
    "lib/paging.js",
    "lib/provenance.js",
    "lib/registration_form.js",
    "lib/run_once.js",
    "lib/table.js",
    "lib/words.js",
    "pages/data.js",
    "pages/estimators.js",
    "pages/jobs.js",
    "pages/overview.js",
    "pages/registrations.js",
    "pages/reservations.js",
    "pages/tasks.js",
    "pages/users.js",
    // https://github.com/leeoniya/uPlot, 1.6.32, MIT.
    "vendor/uPlot.LICENSE",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut there = BTreeSet::new();
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            match entry.path().is_dir() {
                false => drop(there.insert(name)),
                true => there.extend(
                    fs::read_dir(entry.path())
                        .unwrap()
                        .map(|inner| format!("{name}/{}", inner.unwrap().file_name().into_string().unwrap())),
                ),
            }
        }
        let listed: BTreeSet<_> = ALL.iter().map(|asset| asset.name.to_owned()).collect();
        assert_eq!(there, listed);
    }

    /// A browser fetches less than all of it for any one page.
    #[test]
    fn all_of_it_is_small() {
        let bytes: usize = ALL.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes < 250_000, "{bytes}");
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere_or_made_of_text() {
        for asset in ALL.iter().filter(|asset| !asset.name.starts_with("vendor/")) {
            let text = std::str::from_utf8(asset.content).unwrap();
            for way in [
                "//cdn",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Storage",
                // Below the path of a proxy this leads elsewhere.
                "\"/assets/",
            ] {
                assert!(!text.contains(way), "{}: {way}", asset.name);
            }
            let page_runs_nothing =
                asset.name != PAGE || !text.contains("<script>") && !text.contains(" onclick");
            assert!(page_runs_nothing);
        }
    }
}
