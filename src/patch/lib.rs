/*!
Patching the installed client.

From the outside in: [`install`] says which file the client is, [`container`] which modules that file holds, [`syntax`] reads
their JavaScript, [`pattern`] and [`signature`] describe a site, [`schema`] and [`catalogue`] hold the patches, [`locate`] finds their sites,
[`plan`] makes the patched file out of them in memory ([`splice`], [`marker`]), [`smoke`] runs it, [`swap`] puts it in place, and
[`backup`], [`journal`] and [`lock`] see to it that all of this can be undone, also when it is killed halfway. [`patcher`] is
`apply`, `verify` and `revert`; [`inspect`] tells what a file is now, [`notice`] what it seems to be, at a glance; [`check`] asks whether signatures still match.
*/

pub mod backup;
pub mod catalogue;
pub mod check;
pub mod container;
pub mod diff;
pub mod era;
mod foreign;
pub mod inspect;
pub mod install;
pub mod journal;
pub mod locate;
pub mod lock;
pub mod marker;
pub mod notice;
pub mod patcher;
pub mod pattern;
pub mod plan;
pub mod schema;
pub mod seal;
pub mod signature;
pub mod smoke;
pub mod splice;
mod structure;
pub mod swap;
pub use ctxbridge_syntax as syntax;
