//! Encryption: a server of ours that speaks it in front of one that does not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use ctxbridge::team::postgres::{ConnectionSettings, PostgresError, PostgresStore, TlsMode};
use ctxbridge_testkit::postgres::{Address, TestDatabase};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::{database, refused, settings};

/// Who vouches for servers, with the file that says so.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A server in front of another one, with a certificate for a name.
    fn serve(&self, name: &str, is_expired: bool, to: &Address) -> u16 {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if is_expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (config, to) = (Arc::new(config), to.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (config, to) = (Arc::clone(&config), to.clone());
                std::thread::spawn(move || serve(client, config, &to));
            }
        });
        port
    }
}

/// Answers the request for TLS, and hands on what is inside. One connection has one thread: what is asked and what is answered take turns.
fn serve(mut client: TcpStream, config: Arc<ServerConfig>, to: &Address) -> std::io::Result<()> {
    let mut request = [0; 8];
    client.read_exact(&mut request)?;
    assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47], "the request for TLS comes first");
    client.write_all(b"S")?;
    let mut server = TcpStream::connect((to.host.as_str(), to.port))?;
    server.set_nonblocking(true)?;
    let mut client = StreamOwned::new(ServerConnection::new(config).map_err(std::io::Error::other)?, client);
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock)?;
    }
    client.sock.set_nonblocking(true)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let mut is_idle = true;
        match client.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                is_idle = false;
                all(&mut server, &buffer[..length])?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match server.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                is_idle = false;
                all(&mut client, &buffer[..length])?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if is_idle {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Writes all of it, however long the other side takes.
fn all(to: &mut impl Write, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    while let Err(error) = to.flush() {
        if error.kind() != std::io::ErrorKind::WouldBlock {
            return Err(error);
        }
    }
    Ok(())
}

fn encrypted(database: &TestDatabase, host: &str, port: u16, authority: &Authority) -> ConnectionSettings {
    ConnectionSettings { host: host.to_owned(), port, ssl: TlsMode::On, ca_file: Some(authority.file()), ..settings(database) }
}

#[test]
fn a_certificate_that_is_right() {
    let (database, authority) = (database(), Authority::new());
    let port = authority.serve("localhost", false, &database.address);
    let store = PostgresStore::connect(encrypted(&database, "localhost", port, &authority)).unwrap();
    assert!(store.server_version().is_ok());
    let offered = ConnectionSettings { ssl: TlsMode::Offered, ..encrypted(&database, "localhost", port, &authority) };
    assert!(PostgresStore::connect(offered).is_ok());
    let port = authority.serve("127.0.0.1", false, &database.address);
    assert!(PostgresStore::connect(encrypted(&database, "127.0.0.1", port, &authority)).is_ok());
}

#[test]
fn one_that_is_not() {
    let (database, authority, stranger) = (database(), Authority::new(), Authority::new());
    let other_name = authority.serve("db.example", false, &database.address);
    let expired = authority.serve("localhost", true, &database.address);
    let right = authority.serve("localhost", false, &database.address);
    let of_the_system = ConnectionSettings { ca_file: None, ..encrypted(&database, "localhost", right, &authority) };
    for (what, settings) in [
        ("another name", encrypted(&database, "localhost", other_name, &authority)),
        ("expired", encrypted(&database, "localhost", expired, &authority)),
        ("signed by somebody else", encrypted(&database, "localhost", right, &stranger)),
        ("signed by nobody whom the system knows", of_the_system),
        // Where it is only offered it is checked as well.
        ("offered", ConnectionSettings { ssl: TlsMode::Offered, ..encrypted(&database, "localhost", expired, &authority) }),
    ] {
        let error = refused(settings);
        // A machine without any certificates says so.
        let is_so = matches!(error, PostgresError::Certificate { .. })
            || what.ends_with("knows") && matches!(error, PostgresError::Authorities { .. });
        assert!(is_so && !error.is_transient(), "{what}: {error:?}");
    }
}

#[test]
fn a_server_that_refuses_it() {
    let (database, authority) = (database(), Authority::new());
    let (host, port) = (database.address.host.clone(), database.address.port);
    let error = refused(encrypted(&database, &host, port, &authority));
    assert!(matches!(error, PostgresError::TlsRefused { .. }) && !error.is_transient(), "{error:?}");
    let offered = ConnectionSettings { ssl: TlsMode::Offered, ..encrypted(&database, &host, port, &authority) };
    assert!(PostgresStore::connect(offered).is_ok());
}

#[test]
fn a_file_without_certificates() {
    let (database, authority) = (database(), Authority::new());
    let settings = encrypted(&database, "localhost", 1, &authority);
    std::fs::write(authority.file(), "nothing of the kind").unwrap();
    let error = refused(settings.clone());
    assert!(matches!(&error, PostgresError::Authorities { place, .. } if place.ends_with("ca.pem")), "{error:?}");
    std::fs::remove_file(authority.file()).unwrap();
    assert!(matches!(refused(settings), PostgresError::Authorities { .. }));
}
