/*!
A team's archive on a PostgreSQL server: the [store](postgres), the [configured server](server), [sending](sync) the local
archive there, and [searching](search) both.
*/

pub mod postgres;
pub mod search;
pub mod server;
pub mod sync;
