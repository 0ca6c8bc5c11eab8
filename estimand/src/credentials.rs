//! What this program shows to be let in, and whom it believes: as the environment and the command line say, else what
//! `estimand up` and `estimand pki` keep on this machine for whoever may read the data folder.

use std::fs;
use std::path::{Path, PathBuf};

use estimand_api::access::Token;
use estimand_api::client::{self, CertificateFiles, Credentials, Trust};
use estimand_pki::AUTHORITY;

use crate::cli::services::data_dir_or_default;
use crate::pki;

/// The file in the data folder.
pub const TOKEN_FILE: &str = "token";

/// What the command line says about TLS.
#[derive(Debug, Clone, Default)]
pub struct GivenTls {
    /// Whom to believe.
    pub authority: Option<PathBuf>,
    /// What to show.
    pub certificate: Option<PathBuf>,
}

/// What to show to the service at that address, and whom to take for it. The kept token and authority are those of this
/// machine's services, and for nobody else.
pub fn of(address: &str, secure: GivenTls) -> Result<Credentials, client::Error> {
    let kept =
        address.parse().is_ok_and(|address| client::is_here(&address)).then(|| data_dir_or_default(None));
    let given = Credentials::of_environment()?;
    let kept_token = || kept.as_ref().and_then(|folder| read(&folder.join(TOKEN_FILE)));
    let kept_authority = || {
        let file = kept.as_ref()?.join(pki::FOLDER).join(AUTHORITY);
        file.exists().then_some(Trust::Authority(file))
    };
    Ok(Credentials {
        token: given.token.or_else(kept_token),
        trust: secure.authority.map(Trust::Authority).or(given.trust).or_else(kept_authority),
        identity: secure.certificate.map(CertificateFiles::beside).or(given.identity),
    })
}

/// The token in a file, if there is one that this user may read.
pub fn read(place: &Path) -> Option<Token> {
    Token::parse(&fs::read_to_string(place).ok()?).ok()
}
