//! Edits of the settings, from text to text: everything that is not ours stays, byte for byte.

use std::ops::Range;

use serde_json::{Value, json};

use super::command;
use super::document::{DocumentError, FoundHook, SettingsDocument, decode, handlers, is_shell, span};
use super::edit_check;
use super::layout::{JsonStyle, Splice, string};
use super::wiring::Hook;

/// Returns the text with exactly these hooks of ours installed.
///
/// An existing hook of ours is updated in place: its program is changed, and a shorter timeout than ours is raised. Arguments that
/// a user added stay. New hooks come last. If there is nothing to do, the text is the same.
///
/// The matcher is always set to the wanted one: with fewer tools something is lost, and a list of an older version looks like one
/// made by hand. In a group that is shared with other hooks the matcher is the user's, so our hook moves out of it.
///
/// # Errors
/// If the client could not read the text, or the result is not as required.
pub fn install(bytes: &[u8], wanted: &[Hook]) -> Result<Vec<u8>, DocumentError> {
    let (mark, text) = decode(bytes)?;
    let document = SettingsDocument::parse(text)?;
    document.check_shape()?;
    let mut seen = Vec::new();
    let mut is_stale = |found: &FoundHook| {
        let wanted = found.is_at_home() && wanted.iter().any(|hook| hook.event == found.event && may_stay(found, hook));
        let keep = wanted && !seen.contains(&found.event);
        seen.extend(keep.then_some(found.event));
        !keep
    };
    let stale: Vec<_> = document.ours().into_iter().filter(&mut is_stale).collect();
    let kept = spliced(text, removals(&document, &stale));
    let document = SettingsDocument::parse(&kept)?;
    let result = spliced(&kept, additions(&document, wanted));
    edit_check::installed(text, &result, wanted)?;
    Ok([mark, &result].concat().into_bytes())
}

/// Returns the text without our hooks and the groups that contained only them. If there are none, the text is the same.
///
/// # Errors
/// If it is not a JSON object, or the result is not as required.
pub fn uninstall(bytes: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let (mark, text) = decode(bytes)?;
    let document = SettingsDocument::parse(text)?;
    let result = spliced(text, removals(&document, &document.ours()));
    edit_check::uninstalled(text, &result)?;
    Ok([mark, &result].concat().into_bytes())
}

/// Counts our hooks under all keys.
pub(super) fn count(bytes: &[u8]) -> Result<usize, DocumentError> {
    Ok(SettingsDocument::parse(decode(bytes)?.1)?.ours().len())
}

/// `true` if it is an empty object or an empty file.
pub(super) fn is_empty(bytes: &[u8]) -> bool {
    let document = decode(bytes).and_then(|(_, text)| SettingsDocument::parse(text));
    document.is_ok_and(|document| document.root.is_none_or(|root| root.properties.is_empty()))
}

/// `true` if its group has the wanted matcher, or can be given it.
fn may_stay(found: &FoundHook, hook: &Hook) -> bool {
    let Some(wanted) = hook.matcher else { return true };
    found.matcher.as_ref().is_some_and(|(matcher, _)| found.is_alone || matcher == wanted)
}

fn additions(document: &SettingsDocument<'_>, wanted: &[Hook]) -> Vec<Splice> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let Some(root) = &document.root else {
        let whole = JsonStyle::of_new_file().whole(&json!({ "hooks": events(wanted.iter()) }));
        // What white space there is stays behind it, instead of the end of the line.
        let text = if document.text.is_empty() { whole } else { whole.trim_end().to_owned() };
        return vec![Splice { at: 0..0, text }];
    };
    let root_items: Vec<_> = root.properties.iter().map(span).collect();
    let layout = JsonStyle::of(document.text, span(root), &root_items);
    let Some(hooks) = document.hooks() else {
        return vec![layout.append(document.text, span(root), &root_items, &[(Some("hooks"), events(wanted.iter()))])];
    };
    let ours = document.ours();
    let mut splices = Vec::new();
    let mut new = Vec::new();
    for hook in wanted {
        if let Some(found) = ours.iter().find(|found| found.event == hook.event) {
            splices.extend(update(found, hook, document.text, &layout));
            continue;
        }
        let event = document.events().iter().find(|event| event.name.as_str() == hook.event.name());
        match event.and_then(|event| event.value.as_array()) {
            Some(groups) => {
                let items: Vec<_> = groups.elements.iter().map(span).collect();
                splices.push(layout.append(document.text, span(groups), &items, &[(None, group(hook))]));
            }
            None => new.push((Some(hook.event.name()), json!([group(hook)]))),
        }
    }
    if !new.is_empty() {
        let items: Vec<_> = document.events().iter().map(span).collect();
        splices.push(layout.append(document.text, span(&hooks.value), &items, &new));
    }
    splices
}

fn events<'a>(hooks: impl Iterator<Item = &'a Hook>) -> Value {
    hooks.map(|hook| (hook.event.name().to_owned(), json!([group(hook)]))).collect::<serde_json::Map<_, _>>().into()
}

/// Formats the group of a hook. Without a matcher, it is for all sources and triggers.
fn group(hook: &Hook) -> Value {
    let hooks = match &hook.program {
        Some(program) => {
            json!([{ "type": "command", "command": program, "args": ["hook", hook.event.slug()], "timeout": hook.timeout }])
        }
        None => json!([{ "type": "command", "command": hook.command, "timeout": hook.timeout }]),
    };
    match hook.matcher {
        Some(matcher) => json!({ "matcher": matcher, "hooks": hooks }),
        None => json!({ "hooks": hooks }),
    }
}

fn update(found: &FoundHook, hook: &Hook, text: &str, layout: &JsonStyle<'_>) -> Vec<Splice> {
    let mut splices = Vec::new();
    let command = format!("{}{}", hook.command, found.rest);
    // What a user added for a shell stays with a shell.
    let program = hook.program.as_ref().filter(|_| found.args.is_some() || found.rest.trim().is_empty());
    let args = || {
        let own = ["hook".to_owned(), hook.event.slug().to_owned()];
        own.into_iter().chain(command::words(&found.rest).unwrap_or_default()).collect::<Vec<_>>()
    };
    match (program, &found.args) {
        (Some(_), Some(_)) if found.command == command => {}
        (Some(program), Some((_, at))) => {
            splices.push(Splice { at: found.command_at.clone(), text: string(program) });
            splices.push(Splice { at: at.clone(), text: json!(args()).to_string() });
        }
        (Some(program), None) => {
            let (handler, properties) = &found.handler_at;
            splices.push(Splice { at: found.command_at.clone(), text: string(program) });
            splices.push(layout.append(text, handler.clone(), properties, &[(Some("args"), json!(args()))]));
        }
        (None, Some((index, _))) => {
            let (handler, properties) = &found.handler_at;
            let gone: Vec<bool> = (0..properties.len()).map(|at| at == *index).collect();
            splices.push(Splice { at: found.command_at.clone(), text: string(&command) });
            let cuts = cuts(handler.clone(), properties.iter().cloned(), &gone);
            splices.extend(cuts.into_iter().map(|at| Splice { at, text: String::new() }));
        }
        (None, None) if found.command == command => {}
        (None, None) => splices.push(Splice { at: found.command_at.clone(), text: string(&command) }),
    }
    // A longer one, or the client's own, which is 60 s, is the user's choice.
    if let Some((_, at)) = found.timeout.as_ref().filter(|(seconds, _)| *seconds < f64::from(hook.timeout)) {
        splices.push(Splice { at: at.clone(), text: hook.timeout.to_string() });
    }
    if let (Some(wanted), Some((matcher, at))) = (hook.matcher, &found.matcher)
        && matcher != wanted
    {
        splices.push(Splice { at: at.clone(), text: string(wanted) });
    }
    splices
}

/// Returns the splices that remove these hooks. A group, an event and `hooks` itself are removed if nothing else was in them.
fn removals(document: &SettingsDocument<'_>, gone: &[FoundHook]) -> Vec<Splice> {
    let Some(root) = &document.root else { return Vec::new() };
    let mut inner_of_hooks = Vec::new();
    let mut events_gone = Vec::new();
    for event in document.events() {
        let here = |group: usize, index: usize| {
            gone.iter().any(|found| found.under == event.name.as_str() && found.index == (group, index))
        };
        let groups = event.value.as_array().map_or(&[][..], |groups| &groups.elements);
        let mut inner_of_event = Vec::new();
        let mut groups_gone = Vec::new();
        for (group_index, group) in groups.iter().enumerate() {
            let object = group.as_object();
            let list = object.and_then(handlers);
            let of_list = list.map_or(&[][..], |list| &list.elements);
            let hooks_gone: Vec<_> = (0..of_list.len()).map(|index| here(group_index, index)).collect();
            // A group with anything else, a matcher for one where we write none, was made by the user.
            let is_shell = object.is_some_and(|object| is_shell(object, &event.name));
            let all = is_shell && !of_list.is_empty() && hooks_gone.iter().all(|gone| *gone);
            if !all && let Some(list) = list {
                inner_of_event.extend(cuts(span(list), of_list.iter().map(span), &hooks_gone));
            }
            groups_gone.push(all);
        }
        let all = !groups.is_empty() && groups_gone.iter().all(|gone| *gone);
        if !all && let Some(list) = event.value.as_array() {
            inner_of_hooks.append(&mut inner_of_event);
            inner_of_hooks.extend(cuts(span(list), groups.iter().map(span), &groups_gone));
        }
        events_gone.push(all);
    }
    let Some(hooks) = document.hooks() else { return Vec::new() };
    let all = !events_gone.is_empty() && events_gone.iter().all(|gone| *gone);
    let cut = if all {
        let gone: Vec<_> = root.properties.iter().map(|property| property.name.as_str() == "hooks").collect();
        cuts(span(root), root.properties.iter().map(span), &gone)
    } else {
        inner_of_hooks.extend(cuts(span(&hooks.value), document.events().iter().map(span), &events_gone));
        inner_of_hooks
    };
    cut.into_iter().map(|at| Splice { at, text: String::new() }).collect()
}

/// Returns the ranges to cut from a container to remove some of its items, with a comma each.
pub(super) fn cuts(container: Range<usize>, items: impl Iterator<Item = Range<usize>>, gone: &[bool]) -> Vec<Range<usize>> {
    let items: Vec<_> = items.collect();
    if !gone.contains(&true) {
        return Vec::new();
    }
    let Some(first_kept) = gone.iter().position(|gone| !gone) else {
        return std::iter::once(container.start + 1..container.end - 1).collect();
    };
    // Those before the first that stays go with what is behind them, the others with what is before.
    let before = (first_kept > 0).then(|| items[0].start..items[first_kept].start);
    let behind = (first_kept + 1..items.len()).filter(|index| gone[*index]).map(|index| items[index - 1].end..items[index].end);
    before.into_iter().chain(behind).collect()
}

/// Applies splices to a text. They may touch, but not overlap.
pub(super) fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| (splice.at.start, splice.at.end));
    let mut result = String::with_capacity(text.len());
    let mut from = 0;
    for Splice { at, text: new } in splices {
        result += text.get(from..at.start).unwrap_or_default();
        result += &new;
        from = at.end;
    }
    result + text.get(from..).unwrap_or_default()
}
