//! Something between client and server: it hands on what it hears, falls silent, or cuts all connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ctxbridge_testkit::postgres::Address;

/// A proxy on a port of its own; it ends with the process.
pub struct Proxy {
    port: u16,
    is_silent: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn to(address: &Address) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (host, to) = (address.host.clone(), address.port);
        let proxy = Self { port: listener.local_addr().unwrap().port(), is_silent: Arc::default(), open: Arc::default() };
        let (is_silent, open) = (Arc::clone(&proxy.is_silent), Arc::clone(&proxy.open));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect((host.as_str(), to)) else { continue };
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                for (from, to) in [(client, server), back] {
                    let is_silent = Arc::clone(&is_silent);
                    std::thread::spawn(move || hand_on(from, to, &is_silent));
                }
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing arrives, and no connection ends.
    pub fn stall(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    pub fn go_on(&self) {
        self.is_silent.store(false, Ordering::SeqCst);
    }

    /// All connections end.
    pub fn cut(&self) {
        self.open.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, is_silent: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        while is_silent.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok();
}
