//! Identity of an archive on a server.

use super::{PostgresError, PostgresStore};

impl PostgresStore {
    /// Identity of this archive: its address, tenant and user, and the time when its tables were created. So an archive
    /// that was created again in its place has another one. Local records about an archive are kept by identity.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn identity(&self) -> Result<String, PostgresError> {
        self.pool.with(|db| {
            let sql = "SELECT (extract(epoch FROM min(at)) * 1000000)::bigint FROM ctxbridge.migrations WHERE $1 <> ''";
            let made: i64 = db.one(sql, &[])?.get(0)?;
            let settings = db.settings();
            Ok(format!("{}/{} {} {} {made}", settings.server(), settings.database, settings.tenant, self.user))
        })
    }
}
