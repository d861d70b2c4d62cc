//! TLS by rustls, with everything in the addon: no OpenSSL and no certificates of the system are needed.
//!
//! What each mode believes is libpq's (<https://www.postgresql.org/docs/current/libpq-ssl.html>): `require` encrypts and believes anybody
//! unless roots are given, `verify-ca` asks for a signature, `verify-full` for the host's name, too.

use std::sync::Arc;

use perdure_provider::ProviderErrorKind as Kind;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Failure;
use crate::options::{Tls, TlsMode};

/// Set the mode of a connection, and make what encrypts it.
pub(crate) fn connector(
    tls: &Tls,
    default_roots: Option<&str>,
    config: &mut Config,
) -> Result<MakeRustlsConnect, Failure> {
    config.ssl_mode(match tls.mode {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
    });
    let crypto = Arc::new(ring::default_provider());
    let verifier = verifier(tls, default_roots, &crypto)?;
    let builder = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|error| refused(format!("the key of the client: {error:?}")))?;
            builder
                .with_client_auth_cert(certificates("the certificate of the client", chain)?, key)
                .map_err(refused)?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn refused(why: impl std::fmt::Display) -> Failure {
    Failure::Found(Kind::CannotOpen, format!("its TLS settings cannot be used: {why}"))
}

fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(refused(format!("no PEM is in {what}"))),
        Err(error) => Err(refused(format!("{what}: {error:?}"))),
    }
}

fn verifier(
    tls: &Tls,
    default_roots: Option<&str>,
    crypto: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
    let asks = match tls.mode {
        TlsMode::VerifyCa | TlsMode::VerifyFull => true,
        TlsMode::Require => tls.roots.is_some(),
        TlsMode::Disable | TlsMode::Prefer => false,
    };
    if !asks {
        return Ok(Arc::new(AnyName {
            chain: None,
            crypto: Arc::clone(crypto),
        }));
    }
    let Some(pem) = tls.roots.as_deref().or(default_roots) else {
        return Err(refused(
            "to verify the server's certificate, root certificates are needed: give `sslrootcert` or `tls.ca`",
        ));
    };
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(certificates("the root certificates", pem)?);
    if roots.is_empty() {
        return Err(refused(format!("none of the {unusable} root certificates can be used")));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(crypto))
        .build()
        .map_err(refused)?;
    Ok(if tls.mode == TlsMode::VerifyFull {
        verifier
    } else {
        Arc::new(AnyName {
            chain: Some(verifier),
            crypto: Arc::clone(crypto),
        })
    })
}

/// Believes any name, signed by a root or, without roots, by anybody: then it is encrypted and not authenticated.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<WebPkiServerVerifier>>,
    crypto: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name is the last thing that is looked at.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
