/*!
`ctxbridge dashboard`: a page on loopback that shows the state of the archive, the hooks and pruning.
[`Dashboard`] is the server, on a thread of its own. `connections` limits their number and how long they may be silent, `guard`
decides which requests are answered, and `data` reads the data of the page. `assets` is the page, which is inside the binary, so that nothing is fetched from anywhere. Each request opens the archive
for reading and closes it again: no hook ever waits for an idle page.
*/

mod assets;
mod connections;
pub mod data;
mod guard;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use connections::ConnectionLimits;
pub use data::DashboardConfig;

/// Errors from starting the dashboard.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// The port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port}: {cause}; leave --port out, and a free one is taken")]
    Listen {
        /// The port that was asked for; 0 is any.
        port: u16,
        /// The system's error.
        cause: io::Error,
    },
    /// The system has no random bytes for the token.
    #[error("no token can be made: {0}; without one anybody on this machine could read your transcripts")]
    Token(getrandom::Error),
    /// The server's thread did not come up.
    #[error("cannot start the server's thread: {0}; free some memory or threads and try again")]
    Start(#[source] io::Error),
}

/// A running dashboard. Dropping it stops the server.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    token: String,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Serves the data of `source` on this port of 127.0.0.1, or on any free port if it is 0.
    ///
    /// # Errors
    /// If the port is not available, or there are no random bytes or no thread.
    pub fn start(source: DashboardConfig, port: u16) -> Result<Self, DashboardError> {
        let failed = |cause| DashboardError::Listen { port, cause };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let token = guard::token().map_err(DashboardError::Token)?;

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DashboardError::Start)?;
        let listener = {
            // Registering a socket needs the runtime it will be polled on.
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failed)?
        };
        let router =
            server::router(Arc::new(data::DashboardService::new(source)), guard::Guard::new(token.clone(), address.port()));
        let (stop, stopped) = oneshot::channel::<()>();
        let server = thread::Builder::new()
            .name("dashboard".into())
            .spawn(move || {
                runtime.block_on(async move {
                    tokio::select! {
                        _ = stopped => {}
                        () = connections::serve(&listener, router, ConnectionLimits::default()) => {}
                    }
                });
                // Someone may be replaying a long session, which nobody waits for any more.
                runtime.shutdown_background();
            })
            .map_err(DashboardError::Start)?;
        Ok(Self { address, token, stop: Some(stop), server: Some(server) })
    }

    /// The address to open in a browser. Anybody who knows it can read all transcripts, until the server ends.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(server) = self.server.take() {
            server.join().ok();
        }
    }
}
