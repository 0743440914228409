/*!
Patching the installed client.

From the outside in:

- [`install`] finds the client's file, [`container`] reads the modules in it, and [`syntax`] parses their JavaScript.
- [`pattern`] and [`signature`] describe a site, [`schema`] and [`catalog`] hold the patches, and [`locate`] finds their sites.
- [`plan`] makes the patched file in memory ([`splice`], [`marker`]), [`smoke`] runs it, and [`swap`] puts it in place.
- [`backup`], [`journal`] and [`lock`] make sure that all of this can be undone, also if it is killed halfway.
- [`patcher`] has `apply`, `verify` and `revert`. [`inspect`] tells the state of a file; [`notice`] estimates it quickly. [`keep`]
  patches upgrades. [`check`] tests whether signatures still match.
*/

pub mod attributes;
pub mod backup;
pub mod catalog;
pub mod check;
pub mod container;
pub mod diff;
pub mod era;
mod foreign;
pub mod inspect;
pub mod install;
pub mod journal;
pub mod keep;
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
