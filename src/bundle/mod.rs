/*!
Context bundles: the work done in a project, in small files that are committed with it. So a clone knows what was worked on,
without any archive.

Hooks append a [`BundleLine`] for each prompt and for each tool that reads, writes or runs something ([`record()`]), to a file of
the session and hour (`bundle_paths`); git joins the files of branches line by line. They are read as [`Episode`]s, a prompt with
what followed it, and found again through an [`BundleIndex`] in the data folder, which is a cache. A repository's content may have
been written by anybody. So it is read with limits, and quoted where it is shown.
*/

mod bundle_paths;
mod compact;
mod episode;
mod forget;
mod index;
mod line;
mod project;
mod read;
mod record;
mod related;
mod shell;

pub use bundle_paths::{BUNDLES_FOLDER, BundlePathError, Bundles, sanitize_session_id};
pub use compact::{BundleFoldingReport, compact};
pub use episode::Episode;
pub use forget::forget;
pub(crate) use index::CACHE_FOLDER;
pub use index::{BundleIndex, BundleRefreshReport, IndexError, RefreshScope};
pub use line::{BundleAction, BundleLine, EpisodeSummary, Task};
pub use project::{PROJECT_DATA_FOLDER, Project};
pub use read::{ParsedBundle, Skipped, parse, read};
pub use record::{action_of_tool_call, record};
pub use related::{RelatedEpisode, related_episodes};
