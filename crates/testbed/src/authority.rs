//! Certificates, generated at run time.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

const DAY: Duration = Duration::from_hours(24);

/// One certificate authority: signs serving and client certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// From yesterday to tomorrow.
    Current,
    /// Expired yesterday.
    Expired,
}

// === impl Authority ===

impl Authority {
    /// A new authority with a key of its own.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        validity(&mut params, Validity::Current);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
        })
    }

    /// The authority's own certificate, as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A serving certificate for 127.0.0.1 and localhost.
    pub fn server(&self, name: &str, when: Validity) -> Result<Issued> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(params, when)
    }

    /// A client certificate; Kubernetes reads the user from the common name and
    /// the group from the organisation.
    pub fn client(&self, user: &str, group: &str, when: Validity) -> Result<Issued> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, user);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        self.sign(params, when)
    }

    fn sign(&self, mut params: CertificateParams, when: Validity) -> Result<Issued> {
        validity(&mut params, when);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

// === impl Issued ===

impl Issued {
    /// Writes `<stem>.crt` and `<stem>.key`.
    pub(crate) fn write(&self, dir: &Path, stem: &str) -> Result<()> {
        fs::write(dir.join(format!("{stem}.crt")), &self.certificate)?;
        fs::write(dir.join(format!("{stem}.key")), &self.key)?;
        Ok(())
    }
}

fn validity(params: &mut CertificateParams, when: Validity) {
    let now = SystemTime::now();
    let (from, to) = match when {
        Validity::Current => (now - DAY, now + DAY),
        Validity::Expired => (now - 2 * DAY, now - DAY),
    };
    params.not_before = from.into();
    params.not_after = to.into();
}
