//! TLS of the services in this process: their certificate, the authority that they believe, and if nodes join
//! here.

use std::sync::Arc;

use anyhow::Context;
use estimand_access::{Access, Signer};
use estimand_api::access::Token;
use estimand_client::{CertificateFiles, Credentials, Trust};
use estimand_pki::AUTHORITY_KEY;
use estimand_web::{Tls, TlsOptions};

use crate::cli::tls::TlsFiles;

/// The files of `--tls`, loaded.
#[derive(Clone)]
pub struct ServiceTls {
    files: TlsFiles,
    tls: Arc<Tls>,
}

impl ServiceTls {
    pub fn load(files: &TlsFiles) -> anyhow::Result<ServiceTls> {
        let options = TlsOptions {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            client_authority: files.authority.clone(),
        };
        let tls =
            Tls::load(options).context("--tls: `estimand pki init` and `issue` make what belongs there")?;
        Ok(ServiceTls { files: files.clone(), tls })
    }

    /// For the server.
    pub fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls)
    }

    /// For requests to this process itself: its certificate is good under any name.
    pub fn trust_itself(&self) -> Trust {
        let tls = self.tls();
        Trust::Shown(Arc::new(move |certificate| tls.is_own(certificate)))
    }

    /// True if its certificate lets it in elsewhere.
    pub fn is_known_to_others(&self) -> bool {
        self.files.authority.is_some()
    }

    /// For requests to services of other processes.
    pub fn for_others(&self, token: Option<Token>) -> Credentials {
        let (certificate, key) = (self.files.certificate.clone(), self.files.key.clone());
        let identity = self.is_known_to_others().then_some(CertificateFiles { certificate, key });
        Credentials { token, trust: self.files.authority.clone().map(Trust::Authority), identity }
    }

    /// Lets nodes join where the authority's key is.
    pub fn sign_with(&self, access: &Access) -> anyhow::Result<()> {
        let Some(folder) = self.files.signs_in.as_ref().filter(|folder| folder.join(AUTHORITY_KEY).exists())
        else {
            return Ok(());
        };
        let valid_for = self.files.node_certificates_for.as_std();
        access.sign_with(Signer::open(folder.clone(), valid_for).context("--tls")?);
        Ok(())
    }
}
