/*!
A team's archive on a PostgreSQL server: the [store](postgres), [which server it is](server), [sending](sync) what was archived here, and
[searching](search) both.
*/

pub mod postgres;
pub mod search;
pub mod server;
pub mod sync;
