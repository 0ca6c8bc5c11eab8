//! Settings of a worker, from its environment: the agent's variables and the registration's parameters.

use std::path::PathBuf;

use estimand_api::names::{DataName, NodeName};

use super::throttle::ShareSource;

/// Settings of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The service that has the part.
    pub server: String,
    pub node: NodeName,
    pub job: String,
    /// The data name whose value of this node is the part.
    pub part: DataName,
    pub model: PathBuf,
    /// A folder or a URL of HDFS.
    pub images: String,
    /// The folder below which results are written.
    pub out: PathBuf,
    /// The file to which the speed of what was done is appended; none: it isn't.
    pub log: Option<PathBuf>,
    pub share_source: ShareSource,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{name} is not set; {what} is expected there")]
    Missing { name: &'static str, what: &'static str },
    #[error("{name} is `{given}`: {wrong}")]
    Wrong { name: &'static str, given: String, wrong: String },
}

impl Settings {
    /// `variable` gives the environment's variable of a name.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let given = |name: &'static str| variable(name).filter(|text| !text.is_empty());
        let needed = |name, what| given(name).ok_or(SettingsError::Missing { name, what });
        let wrong =
            |name, given: &str, wrong: String| SettingsError::Wrong { name, given: given.to_owned(), wrong };
        let node = needed("ESTIMAND_NODE", "this node's name")?;
        let job = needed("ESTIMAND_PARAM_JOB", "the job's name")?;
        // Nodes may share a disk, and all workers of a job have the same parameters.
        let of_node = |name| given(name).map(|text| text.replace("{node}", &node));
        let throttle = of_node("ESTIMAND_PARAM_THROTTLE");
        Ok(Settings {
            server: needed("ESTIMAND_SERVER", "the address of the service")?,
            node: NodeName::parse(&node).map_err(|error| wrong("ESTIMAND_NODE", &node, error.to_string()))?,
            part: DataName::parse(&format!("{job}.part"))
                .map_err(|error| wrong("ESTIMAND_PARAM_JOB", &job, error.to_string()))?,
            job,
            model: needed("ESTIMAND_PARAM_MODEL", "the path of an ONNX file")?.into(),
            images: needed("ESTIMAND_PARAM_IMAGES", "the folder of the images")?,
            out: needed("ESTIMAND_PARAM_OUT", "the folder for the results")?.into(),
            log: of_node("ESTIMAND_PARAM_LOG").map(PathBuf::from),
            share_source: match throttle {
                None => ShareSource::ALL,
                Some(text) => ShareSource::parse(&text)
                    .map_err(|error| wrong("ESTIMAND_PARAM_THROTTLE", &text, error))?,
            },
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 7] = [
        ("ESTIMAND_SERVER", "http://127.0.0.1:7070"),
        ("ESTIMAND_NODE", "node-1"),
        ("ESTIMAND_PARAM_JOB", "birds"),
        ("ESTIMAND_PARAM_MODEL", "/m.onnx"),
        ("ESTIMAND_PARAM_IMAGES", "/images"),
        ("ESTIMAND_PARAM_OUT", "/out"),
        ("ESTIMAND_PARAM_LOG", "/log"),
    ];

    fn read(changed: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let find = |list: &[(&str, &str)], name: &str| {
            list.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        };
        Settings::read(|name| find(changed, name).or_else(|| find(&ALL, name)))
    }

    #[test]
    fn everything_is_read_from_the_environment() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.part.as_str(), "birds.part");
        assert_eq!((settings.node.as_str(), settings.share_source), ("node-1", ShareSource::ALL));
        assert_eq!(settings.log, Some(PathBuf::from("/log")));
        assert_eq!(read(&[("ESTIMAND_PARAM_LOG", "")]).unwrap().log, None);
    }

    #[test]
    fn paths_may_have_the_nodes_name_in_them() {
        let log = ("ESTIMAND_PARAM_LOG", "/shared/{node}/{node}.log");
        let settings = read(&[log, ("ESTIMAND_PARAM_THROTTLE", "/shared/{node}.share")]).unwrap();
        assert_eq!(settings.log, Some(PathBuf::from("/shared/node-1/node-1.log")));
        assert_eq!(settings.share_source, ShareSource::File(PathBuf::from("/shared/node-1.share")));
    }

    #[test]
    fn missing_and_invalid_variables_are_named() {
        for (name, _) in &ALL[..6] {
            let error = read(&[(name, "")]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is not set")), "{error}");
        }
        for (name, given) in [
            ("ESTIMAND_NODE", "a/b"),
            ("ESTIMAND_PARAM_JOB", "../up"),
            ("ESTIMAND_PARAM_THROTTLE", "0"),
            ("ESTIMAND_PARAM_THROTTLE", "fast"),
            ("ESTIMAND_PARAM_THROTTLE", "shares/node-1"),
        ] {
            let error = read(&[(name, given)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is `{given}`")), "{error}");
        }
    }
}
