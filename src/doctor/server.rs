//! Check of the team server: connection, role, and result of the last sync.

use std::path::{Path, PathBuf};

use super::{HealthCheck, HealthStatus};
use ctxbridge_archive::quote;
use ctxbridge_archive::store::{SearchBackend, StoreError};
use ctxbridge_common::files;
use ctxbridge_config::{Config, SettingSource};
use ctxbridge_team::postgres::{ConnectionSettings, PostgresStore};
use ctxbridge_team::server::TeamServer;
use ctxbridge_team::sync::Backoff;

/// Checks the team server; `None` if none is configured.
pub(super) fn check_server(data: &Path, config: &Config) -> Option<HealthCheck> {
    if !config.has_server() {
        return None;
    }
    let check = |status, told: String, next: Option<&str>| Some(HealthCheck::new("server", status, quote::line(&told), next));
    let server = match TeamServer::for_search(config) {
        Ok(server) => server,
        Err(error) => {
            return check(HealthStatus::Failed, error.to_string(), Some("`ctxbridge config show -v` says what is set where"));
        }
    };
    let mut store = match server.open() {
        Ok(store) => store,
        // What is to be sent waits here meanwhile. Of what does not pass by itself, the error says what to do.
        Err(error) => {
            let next = "`ctxbridge archive sync` sends what waits, when it answers again";
            return check(HealthStatus::Failed, error.to_string(), Some(next).filter(|_| error.is_transient()));
        }
    };
    let told = match describe(&mut store) {
        Ok(told) => format!("{} {told}", server.address()),
        Err(error) => return check(HealthStatus::Failed, error.to_string(), None),
    };
    if let Some(file) = open_to_others(config) {
        let next = format!("`chmod 600 {}` keeps them out", file.display());
        return check(
            HealthStatus::Warning,
            format!("{told}, with a password that others can read in {}", file.display()),
            Some(&next),
        );
    }
    if store.is_row_security_exempt().unwrap_or(false) {
        let next =
            "log in as a role of your own: row-level security does not hold for this one, which sees what is private to others";
        return check(HealthStatus::Warning, told, Some(next));
    }
    match Backoff::in_dir(data).last_failure() {
        Some((error, _)) => check(
            HealthStatus::Warning,
            format!("{told}; what was to be sent last was not: {error}"),
            Some("`ctxbridge archive sync`"),
        ),
        None => check(HealthStatus::Ok, told, None),
    }
}

/// Returns the settings file that has the password, if other users can read it.
fn open_to_others(config: &Config) -> Option<PathBuf> {
    let has_password = |key: &str| match key {
        "postgres.url" => config
            .postgres
            .url
            .as_ref()
            .is_some_and(|url| ConnectionSettings::from_url(url.reveal()).is_ok_and(|url| url.password.is_some())),
        _ => config.postgres.password.is_some(),
    };
    ["postgres.url", "postgres.password"].into_iter().filter(|key| has_password(key)).find_map(|key| match config.source(key) {
        SettingSource::User(file) | SettingSource::Project(file) if !files::is_private(&file) => Some(file),
        _ => None,
    })
}

fn describe(store: &mut PostgresStore) -> Result<String, StoreError> {
    let words = if store.has_vectors()? { "" } else { ", without pgvector: keyword search only" };
    Ok(format!("answers as PostgreSQL {}, to {}{words}", store.server_version()?, store.user()))
}
