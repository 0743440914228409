/*!
Connections of the dashboard: how many there may be, and how long one may take to say what it wants.

Any program on this machine can connect, with the token or without. So one that says nothing, or says it byte by byte, is closed,
and cannot keep others out for longer than that.
*/

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Pause after a connection could not be accepted: most often this process has too many files open, and closes some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// Maximum number of open connections. Others wait in the system's queue until one is closed.
    pub max_open: usize,
    /// Time for the whole head of a request, from the connection's start or the last answer on. Reading and answering do not count.
    pub head_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { max_open: 64, head_timeout: Duration::from_secs(10) }
    }
}

/// Answers requests, for ever.
pub(super) async fn serve(listener: &TcpListener, router: Router, limits: ConnectionLimits) {
    let permits = Arc::new(Semaphore::new(limits.max_open));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
    // The semaphore is never closed.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            // Whoever breaks off, or is closed, is told nothing more.
            connection.await.ok();
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread;

    use axum::routing::get;
    use tokio::sync::Notify;

    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Time in which anything has to come, on a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A server whose answers wait until they are let go, as many as that.
    fn start(limits: ConnectionLimits) -> (SocketAddr, Arc<Notify>) {
        let released = Arc::new(Notify::new());
        let (sender, address) = std::sync::mpsc::channel();
        let waiting = released.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                sender.send(listener.local_addr().expect("an address")).expect("sent");
                let answer = move || async move {
                    waiting.notified().await;
                    "well"
                };
                serve(&listener, Router::new().route("/", get(answer)), limits).await;
            });
        });
        (address.recv().expect("it listens"), released)
    }

    fn connect(to: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(to).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Reads one answer; less if the connection is closed.
    fn answer(mut stream: &TcpStream) -> String {
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"well") && matches!(stream.read(&mut byte), Ok(1)) {
            answer.push(byte[0]);
        }
        String::from_utf8(answer).expect("text")
    }

    /// Asks on a new connection, and takes the answer when this time is over. On a busy machine the request may be sent too late.
    fn asked(limits: ConnectionLimits, after: Duration) -> TcpStream {
        let once = |_| {
            let (address, released) = start(limits);
            let mut stream = connect(address);
            stream.write_all(HEAD).ok()?;
            thread::sleep(after);
            released.notify_one();
            answer(&stream).starts_with("HTTP/1.1 200").then_some(stream)
        };
        (0..10).find_map(once).expect("an answer")
    }

    /// `true` if nothing more comes, since the other side has closed.
    fn is_closed(mut stream: &TcpStream) -> bool {
        match stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    #[test]
    fn as_many_and_as_long_as_promised() {
        let limits = ConnectionLimits::default();
        assert_eq!((limits.max_open, limits.head_timeout), (64, Duration::from_secs(10)));
    }

    #[test]
    fn a_connection_that_says_nothing_is_closed() {
        let limits = ConnectionLimits { max_open: 1, head_timeout: Duration::from_millis(200) };
        let (address, _) = start(limits);
        assert!(is_closed(&connect(address)), "nothing was ever said");
        assert!(is_closed(&asked(limits, Duration::ZERO)), "nothing was said after the answer");
    }

    #[test]
    fn a_byte_now_and_then_is_no_request() {
        let (address, _) = start(ConnectionLimits { max_open: 1, head_timeout: Duration::from_millis(200) });
        let stream = connect(address);
        let mut slow = stream.try_clone().expect("the same");
        let sender = thread::spawn(move || {
            let endless = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ".iter().chain(std::iter::repeat(&b'x'));
            for byte in endless {
                thread::sleep(Duration::from_millis(20));
                if slow.write_all(&[*byte]).is_err() {
                    break;
                }
            }
        });
        assert!(is_closed(&stream));
        sender.join().expect("it noticed");
    }

    #[test]
    fn an_answer_may_take_longer() {
        let head_timeout = Duration::from_millis(300);
        asked(ConnectionLimits { max_open: 1, head_timeout }, head_timeout * 3);
    }

    #[test]
    fn one_more_waits_until_another_is_closed() {
        let (address, released) = start(ConnectionLimits { max_open: 2, head_timeout: PATIENCE });
        let first = connect(address);
        let mut second = connect(address);
        second.write_all(HEAD).expect("sent");
        let mut third = connect(address);
        third.write_all(HEAD).expect("sent");
        released.notify_one();
        assert!(answer(&second).starts_with("HTTP/1.1 200"));
        // The second stays open for its next request, so the third is not heard: no answer is under way that could be let go.
        released.notify_one();
        third.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let error = third.read(&mut [0]).expect_err("nothing comes");
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        drop(first);
        third.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert!(answer(&third).starts_with("HTTP/1.1 200"));
    }
}
