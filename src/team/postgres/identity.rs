//! What tells an archive on a server from all others.

use super::{PostgresError, PostgresStore};

impl PostgresStore {
    /// What tells this archive from others, also from one that was made anew in its place: where it is, whose it is, and when its tables were
    /// made. What is written down of an archive elsewhere goes by it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn identity(&self) -> Result<String, PostgresError> {
        self.pool.with(|db| {
            let sql = "SELECT (extract(epoch FROM min(at)) * 1000000)::bigint FROM ctxbridge.migrations WHERE $1 <> ''";
            let made: i64 = db.one(sql, &[])?.get(0)?;
            let settings = db.settings();
            Ok(format!("{}/{} {} {} {made}", settings.server(), settings.database, settings.tenant, self.user))
        })
    }
}
