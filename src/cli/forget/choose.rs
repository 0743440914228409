//! Finds what the user named.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::ForgetArgs;
use crate::cli::archives;
use crate::cli::output::Output;
use crate::cli::{UsageError, output::count};
use ctxbridge_archive::forget::{ForgetPlan, ForgetRequest};
use ctxbridge_archive::handle::turn_digits;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::search::time;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::store::{Session, Store};
use ctxbridge_config::compile_pattern;

impl ForgetArgs {
    /// Plans what is forgotten; `None` if one of the targets is not there. Of several, all go or none.
    pub(super) fn plan(&self, location: &Location, output: &Output) -> anyhow::Result<Option<ForgetPlan>> {
        let mut store = location.open_for_reading(LockPolicy::Background)?.store;
        let store = &mut *store;
        let mut request = ForgetRequest { is_everywhere: self.everywhere, ..ForgetRequest::default() };
        for target in &self.targets {
            // An id may look like digits of a handle, and only a handle has `ctx:`.
            if target.starts_with("ctx:") {
                let digits = turn_digits(target).ok_or_else(|| {
                    UsageError(format!(
                        "{target} is not the handle of a turn, such as ctx:1a2b3c4d; only whole turns are forgotten"
                    ))
                })?;
                let mut found = store.turns_by_id(&digits)?;
                // A fork has the same turns: what it says, too, is named.
                let is_one = found.windows(2).all(|two| two[0].turn.id == two[1].turn.id);
                anyhow::ensure!(is_one, "several turns have the handle ctx:{digits}; give more digits");
                if found.is_empty() {
                    output.note(&format!("no turn has the handle ctx:{digits}; `ctxbridge search` finds them by words"));
                    return Ok(None);
                }
                request.turns.push(found.swap_remove(0));
            } else {
                let Some(session) = archives::find(store, target)? else {
                    archives::note_missing(target, output);
                    return Ok(None);
                };
                request.sessions.push(session);
            }
        }
        if self.project.is_some() || self.before.is_some() {
            request.sessions.extend(self.sessions(store, output)?);
        }
        if let Some(pattern) = &self.pattern {
            let pattern = compile_pattern(pattern).map_err(|problem| UsageError(format!("--match: {problem}")))?;
            let is_narrowed = !self.targets.is_empty() || self.project.is_some() || self.before.is_some();
            let sessions =
                if is_narrowed { std::mem::take(&mut request.sessions) } else { store.sessions("", None, usize::MAX)? };
            request.matches = Some((pattern, sessions));
        }
        let looked = &mut |done: usize| output.progress(&format!("looking through {}", count(done as u64, "session")));
        Ok(Some(ForgetPlan::of(store, request, looked)?))
    }

    fn sessions(&self, store: &mut dyn Store, output: &Output) -> anyhow::Result<Vec<Session>> {
        let project = archives::project(self.project.as_deref(), store, false, output)?;
        let parse = |text: &String| time::parse_moment(text, Timestamp::now(), &TimeZone::system()).map_err(UsageError);
        let before = self.before.as_ref().map(parse).transpose()?;
        let mut sessions = store.sessions("", project.as_ref(), usize::MAX)?;
        sessions.retain(|session| before.is_none_or(|before| session.last_ms.is_some_and(|last_ms| last_ms < before)));
        Ok(sessions)
    }
}
