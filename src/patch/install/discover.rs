//! Finds clients in all places where installers are known to put them, also those that cannot be patched.

use std::path::{Path, PathBuf};

use super::{Target, TargetError, links, search_paths};

/// An installed client, or a place where one should be.
#[derive(Debug)]
pub struct Installation {
    /// The client's file; if there is none, the file in its place.
    pub path: PathBuf,
    /// Other paths of the same file: npm hard-links executables. A patch creates a new file and leaves these as they are.
    pub same_file: Vec<PathBuf>,
    /// `true` if the shell runs it as `claude`.
    pub on_path: bool,
    /// The client, or the error from looking for it.
    pub client: Result<Target, TargetError>,
}

/// Returns the installed clients, the one on the `PATH` first; each real file once. The packages of the folder `project`, and of
/// those above it, are searched, too.
pub fn discover(project: Option<&Path>) -> Vec<Installation> {
    let path = std::env::var_os("PATH");
    let mut found = Vec::new();
    for (index, command) in links::on_path(path.as_deref()).iter().enumerate() {
        add(&mut found, command, index == 0);
    }
    let folders = path.iter().flat_map(std::env::split_paths).collect::<Vec<_>>();
    for place in search_paths::client_paths(&folders, project) {
        add(&mut found, &place, false);
    }
    found
}

fn add(found: &mut Vec<Installation>, place: &Path, on_path: bool) {
    let client = Target::at(place);
    // A half-installed package of another platform is nobody's client; for this platform the package it belongs to says so.
    if client.is_err() && search_paths::is_platform(place) {
        return;
    }
    let path = match &client {
        Ok(target) => target.path.clone(),
        Err(error) => error.path().unwrap_or(place).to_owned(),
    };
    if found.iter().any(|known| known.path == path || known.same_file.contains(&path)) {
        return;
    }
    // Only what could be read is opened: another path may be of a pipe.
    let is_same = |known: &Installation| {
        client.is_ok() && known.client.is_ok() && same_file::is_same_file(&known.path, &path).unwrap_or(false)
    };
    match found.iter_mut().find(|known| is_same(known)) {
        Some(known) => known.same_file.push(path),
        None => found.push(Installation { path, same_file: Vec::new(), on_path, client }),
    }
}
