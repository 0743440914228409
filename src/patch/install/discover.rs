//! Every client that is installed where installers are known to put it, also those that cannot be patched.

use std::path::{Path, PathBuf};

use super::{Target, TargetError, links, places};

/// A client that is installed, or a place where one ought to be.
#[derive(Debug)]
pub struct Installation {
    /// The client's file; where there is none, what is in its place.
    pub path: PathBuf,
    /// Other paths of the same file: npm hard-links executables. A patch, which is a new file, leaves them as they are.
    pub same_file: Vec<PathBuf>,
    /// Whether it is what the shell runs as `claude`.
    pub on_path: bool,
    /// The client, or why it is none.
    pub client: Result<Target, TargetError>,
}

/// The clients that are installed, the one on the `PATH` first; each real file once. `project` is a folder whose own
/// packages, and those above it, are looked into.
pub fn discover(project: Option<&Path>) -> Vec<Installation> {
    let path = std::env::var_os("PATH");
    let mut found = Vec::new();
    for (index, command) in links::on_path(path.as_deref()).iter().enumerate() {
        add(&mut found, command, index == 0);
    }
    let folders = path.iter().flat_map(std::env::split_paths).collect::<Vec<_>>();
    for place in places::all(&folders, project) {
        add(&mut found, &place, false);
    }
    found
}

fn add(found: &mut Vec<Installation>, place: &Path, on_path: bool) {
    let client = Target::at(place);
    // A half-installed package of another platform is nobody's client; for this platform the package it belongs to says so.
    if client.is_err() && places::is_platform(place) {
        return;
    }
    let path = match &client {
        Ok(target) => target.path.clone(),
        Err(error) => error.path().unwrap_or(place).to_owned(),
    };
    if found.iter().any(|known| known.path == path || known.same_file.contains(&path)) {
        return;
    }
    let id = client.as_ref().ok().and_then(|_| links::file_id(&path));
    match found.iter_mut().find(|known| id.is_some() && links::file_id(&known.path) == id) {
        Some(known) => known.same_file.push(path),
        None => found.push(Installation { path, same_file: Vec::new(), on_path, client }),
    }
}
