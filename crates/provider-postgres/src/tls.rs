//! TLS by rustls, with everything in the addon: no OpenSSL and no certificates of the system are needed.
//!
//! Each mode checks what it checks in libpq (<https://www.postgresql.org/docs/current/libpq-ssl.html>): `require`
//! encrypts and accepts any server unless roots are given, `verify-ca` asks for a signature, `verify-full` for the
//! host's name, too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use perdure_provider::ProviderErrorKind as Kind;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::either::Either;

use crate::auth::RequireAuth;
use crate::auth_stream::{AuthStream, Transport};
use crate::error::{Failure, WITHOUT_TLS};
use crate::options::{Tls, TlsMode};

type Rustls = MakeRustlsConnect;

/// The message by which a client asks a server for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Checks the first message of a server against a rule, whether the connection is encrypted or not. The client hands
/// over only connections that are to be encrypted. So it is configured to encrypt all of them, at once, and the
/// auth_rule asks the server for TLS in its place.
#[derive(Clone, Copy)]
pub(crate) struct AuthRule {
    rule: RequireAuth,
    mode: SslMode,
    negotiation: SslNegotiation,
}

impl AuthRule {
    /// Puts a auth_rule before the connections of a configuration.
    pub(crate) fn before(config: &mut Config, rule: RequireAuth) -> Self {
        let (mode, negotiation) = (config.get_ssl_mode(), config.get_ssl_negotiation());
        config
            .ssl_mode(SslMode::Require)
            .ssl_negotiation(SslNegotiation::Direct);
        Self {
            rule,
            mode,
            negotiation,
        }
    }

    /// Asks the server for TLS, if that is configured. Returns true if the connection is to be encrypted from here on.
    async fn negotiate_tls<S: Transport>(self, transport: &mut S) -> io::Result<bool> {
        if self.mode == SslMode::Disable {
            return Ok(false);
        }
        if self.negotiation == SslNegotiation::Direct {
            return Ok(true);
        }
        transport.write_all(&SSL_REQUEST).await?;
        // Reads not one byte more: bytes that are not encrypted yet must not be taken for encrypted ones.
        match transport.read_u8().await? {
            b'S' => Ok(true),
            _ if self.mode == SslMode::Prefer => Ok(false),
            _ => Err(io::Error::other(WITHOUT_TLS)),
        }
    }
}

/// Encrypts one connection, and tells whether it was asked to. With `prefer` the server decides that.
#[derive(Clone)]
pub(crate) struct AuthConnector {
    tls: Rustls,
    auth_rule: Option<AuthRule>,
    is_asked: Arc<AtomicBool>,
}

impl AuthConnector {
    pub(crate) fn of(tls: &Rustls, auth_rule: Option<AuthRule>) -> Self {
        Self {
            tls: tls.clone(),
            auth_rule,
            is_asked: Arc::default(),
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }
}

impl<S: Transport> MakeTlsConnect<S> for AuthConnector {
    type Stream = AuthStream<S>;
    type TlsConnect = StreamConnector<S>;
    type Error = <Rustls as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<StreamConnector<S>, Self::Error> {
        Ok(StreamConnector {
            tls: MakeTlsConnect::<S>::make_tls_connect(&mut self.tls, host)?,
            auth_rule: self.auth_rule,
            is_asked: Arc::clone(&self.is_asked),
        })
    }
}

pub(crate) struct StreamConnector<S: Transport> {
    tls: <Rustls as MakeTlsConnect<S>>::TlsConnect,
    auth_rule: Option<AuthRule>,
    is_asked: Arc<AtomicBool>,
}

impl<S: Transport> TlsConnect<S> for StreamConnector<S> {
    type Stream = AuthStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<AuthStream<S>>> + Send>>;

    fn connect(self, mut transport: S) -> Self::Future {
        Box::pin(async move {
            let is_encrypted = match self.auth_rule {
                Some(auth_rule) => auth_rule.negotiate_tls(&mut transport).await?,
                None => true,
            };
            let transport = if is_encrypted {
                self.is_asked.store(true, Ordering::Release);
                Either::Right(self.tls.connect(transport).await?)
            } else {
                Either::Left(transport)
            };
            Ok(AuthStream::new(
                transport,
                self.auth_rule.map(|auth_rule| auth_rule.rule),
            ))
        })
    }
}

/// Sets the TLS mode of a connection, and returns its connector.
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
    // A server that is not asked cannot say that it has no TLS.
    if tls.mode == TlsMode::Prefer && config.get_ssl_negotiation() == SslNegotiation::Direct {
        return Err(refused(
            "sslnegotiation=direct needs sslmode=require, verify-ca or verify-full",
        ));
    }
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
        Ok(_) => Err(refused(format!("{what} contains no PEM"))),
        Err(error) => Err(refused(format!("{what}: {error:?}"))),
    }
}

fn revocations(pem: Option<&str>) -> Result<Vec<CertificateRevocationListDer<'static>>, Failure> {
    let Some(pem) = pem else {
        return Ok(Vec::new());
    };
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(refused("the list of revoked certificates contains no PEM")),
        Err(error) => Err(refused(format!("the list of revoked certificates: {error:?}"))),
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
        .with_crls(revocations(tls.crls.as_deref())?)
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

/// Accepts any name in a certificate that a root signed. Without roots it accepts any certificate: the connection is
/// then encrypted, but not authenticated.
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
            // The name is checked last, so all other checks have passed.
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
