//! A client that waits in the middle of its smoke run, so that a test can do something meanwhile.

use std::fs;
use std::path::PathBuf;

use super::bundle::Bundle;
use super::client::Client;

/// Asked for its version, the client makes one file and waits for another one.
pub struct Gate {
    reached: PathBuf,
    open: PathBuf,
}

impl Gate {
    /// A client with such a gate.
    pub fn install() -> (Client, Self) {
        let client = Client::new(Bundle::new());
        let gate = Self { reached: client.path("reached"), open: client.path("open") };
        client.install(&gate.bundle().into_bytes());
        (client, gate)
    }

    fn bundle(&self) -> Bundle {
        let Self { reached, open } = self;
        // It does not wait for ever, should the test be gone.
        Bundle::new().start(&format!(
            r#"if(A.includes("--version")){{fs.writeFileSync({reached:?},"");for(let i=0;i<1200&&!fs.existsSync({open:?});i++)await new Promise((r)=>setTimeout(r,25));}}"#
        ))
    }

    /// Whether a smoke run has come to it.
    pub fn is_reached(&self) -> bool {
        self.reached.exists()
    }

    /// Lets this smoke run, and all that follow, go on.
    pub fn open(&self) {
        fs::write(&self.open, "").unwrap();
    }
}
