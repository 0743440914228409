/*!
Context bundles: what was done in a project, in small files that are committed with it. So a clone knows what was worked on, without any archive.

Hooks append a [`Line`] for each prompt and for each tool that reads, writes or runs something ([`record`]), to a file of the session and hour
(`place`); git joins the files of branches line by line. They are read as [`Episode`]s, a prompt with what followed it, and found again through
an [`Index`] in the data folder, which is a cache. What lies in a repository may have been written by anybody: it is read with limits, and quoted
where it is shown.
*/

mod compact;
mod episode;
mod index;
mod line;
mod place;
mod project;
mod read;
mod record;
mod related;
mod shell;

pub use compact::{Compacted, compact};
pub use episode::Episode;
pub use index::{Index, IndexError, Refreshed, Thoroughness};
pub use line::{Folded, Line, Op, Task};
pub(crate) use place::FOR_GIT;
pub use place::{BUNDLES, Bundles, FOLDER, PlaceError, session_in_names};
pub use project::Project;
pub use read::{Bundle, Skipped, parse, read};
pub use record::{of_tool, record};
pub use related::{Related, related};
