//! TLS connections, and the certificates they trust.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::PostgresError;

/// A connector for encrypted connections that verifies the server's certificate and name.
pub(super) fn verifying_connector(ca_file: Option<&PathBuf>) -> Result<MakeRustlsConnect, PostgresError> {
    let failed = |cause: String| PostgresError::of_authorities(ca_file, cause);
    let mut roots = RootCertStore::empty();
    let mut reasons = Vec::new();
    match ca_file {
        Some(file) => {
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))? {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                roots.add(certificate).map_err(|error| failed(error.to_string()))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            reasons.extend(found.errors.iter().map(ToString::to_string));
            // Some systems have some that nobody understands.
            roots.add_parsable_certificates(found.certs);
        }
    }
    if roots.is_empty() {
        return Err(failed(reasons.pop().unwrap_or_else(|| "there are none".to_owned())));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
