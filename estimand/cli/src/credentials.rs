//! The credentials of this program and the authorities that it trusts: those of the environment and the command line, else
//! those that `estimand up` and `estimand pki` keep on this machine for users who may read the data folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use estimand_api::access::Token;
use estimand_client::{self as client, CertificateFiles, Credentials, Trust};
use estimand_pki::AUTHORITY;

/// The file in the data folder.
pub const TOKEN_FILE: &str = "token";

/// The folder of the authority in the data folder.
pub const PKI_FOLDER: &str = "pki";

/// The options of the command line about TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// The authorities to trust.
    pub authority: Option<PathBuf>,
    /// The certificate to show.
    pub certificate: Option<PathBuf>,
}

/// The credentials for the service at that address. The kept token and authority are those of this machine's services, and
/// for no other.
pub fn of(address: &str, tls: TlsOptions) -> Result<Credentials, client::Error> {
    let kept =
        address.parse().is_ok_and(|address| client::is_here(&address)).then(|| data_dir_or_default(None));
    let given = Credentials::of_environment()?;
    let kept_token = || kept.as_ref().and_then(|folder| read(&folder.join(TOKEN_FILE)));
    let kept_authority = || {
        let file = kept.as_ref()?.join(PKI_FOLDER).join(AUTHORITY);
        file.exists().then_some(Trust::Authority(file))
    };
    Ok(Credentials {
        token: given.token.or_else(kept_token),
        trust: tls.authority.map(Trust::Authority).or(given.trust).or_else(kept_authority),
        identity: tls.certificate.map(CertificateFiles::beside).or(given.identity),
    })
}

/// The token in a file, if there is one that this user may read.
pub fn read(place: &Path) -> Option<Token> {
    Token::parse(&fs::read_to_string(place).ok()?).ok()
}

/// The folder for data: the one given, else that of this user.
pub fn data_dir_or_default(given: Option<PathBuf>) -> PathBuf {
    let variable = |name| std::env::var_os(name);
    given.unwrap_or_else(|| default_data_dir(variable("XDG_DATA_HOME"), variable("HOME")))
}

/// Where data is kept unless said otherwise. A relative path in either variable would mean another folder
/// with every start, so it counts as none; a process without a home is one of the system's.
pub fn default_data_dir(xdg_data_home: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg_data_home
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("estimand")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_kept_in_the_first_folder_there_is() {
        let check = |xdg: Option<&str>, home: Option<&str>, expected: &str| {
            let found = default_data_dir(xdg.map(OsString::from), home.map(OsString::from));
            assert_eq!(found, PathBuf::from(expected), "{xdg:?} {home:?}");
        };
        check(Some("/x"), Some("/home/u"), "/x/estimand");
        check(None, Some("/home/u"), "/home/u/.local/share/estimand");
        check(Some("relative"), Some("/home/u"), "/home/u/.local/share/estimand");
        check(Some(""), Some(""), "/var/lib/estimand");
        check(None, None, "/var/lib/estimand");
    }
}
