//! The routes: each address returns a file of the page, or JSON.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::assets;
use super::data::{DashboardService, DataError};
use super::guard::{self, Guard};

/// Maximum number of requests that read at the same time; others wait.
const MAX_READERS: usize = 4;

#[derive(Clone)]
struct RouterState {
    desk: Arc<DashboardService>,
    readers: Arc<Semaphore>,
}

pub(super) fn router(desk: Arc<DashboardService>, guard: Arc<Guard>) -> Router {
    let shared = RouterState { desk, readers: Arc::new(Semaphore::new(MAX_READERS)) };
    Router::new()
        .route("/{token}/", get(|| file(String::new())))
        .route(
            "/{token}/api/changes",
            get(|shared: State<RouterState>| answer(shared, |desk| Ok(json!({ "mark": desk.data_fingerprint() })))),
        )
        .route("/{token}/api/overview", get(|shared: State<RouterState>| answer(shared, DashboardService::overview)))
        .route("/{token}/api/sessions/{skipped}", get(sessions))
        .route("/{token}/api/session/{id}", get(session))
        .route("/{token}/api/savings/{id}", get(savings))
        .route("/{token}/api/total", get(total))
        .route("/{token}/api/memory", get(|shared: State<RouterState>| answer(shared, DashboardService::memory_use)))
        .route("/{token}/api/conversation/{id}/{at}", get(conversation))
        .route("/{token}/api/turn/{id}/{position}", get(turn))
        .route("/{token}/api/learnings/{kind}", get(learnings))
        .route("/{token}/api/learnings/{kind}/{words}", get(learnings_with))
        .route("/{token}/api/learned/{id}", get(learned))
        .route("/{token}/api/search/{words}", get(search))
        .route("/{token}/api/state", get(|shared: State<RouterState>| answer(shared, DashboardService::health_report)))
        .route("/{token}/{name}", get(|Path((_, name)): Path<(String, String)>| file(name)))
        .route("/{token}/vendor/{name}", get(|Path((_, name)): Path<(String, String)>| file(format!("vendor/{name}"))))
        .layer(middleware::from_fn_with_state(guard, guard::guard))
        .with_state(shared)
}

async fn file(name: String) -> Response {
    match assets::named(&name) {
        Some((kind, bytes)) => ([(header::CONTENT_TYPE, kind)], bytes).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Parts of the path: the token, and the id of a session or words to search.
type PathArguments = Path<(String, String)>;

async fn session(shared: State<RouterState>, Path((_, id)): PathArguments) -> Response {
    answer(shared, move |desk| desk.session(&id)).await
}

async fn savings(shared: State<RouterState>, Path((_, id)): PathArguments) -> Response {
    answer(shared, move |desk| desk.savings(&id)).await
}

async fn total(shared: State<RouterState>) -> Response {
    shared.desk.replay_pending();
    answer(shared, DashboardService::total_savings).await
}

async fn sessions(shared: State<RouterState>, Path((_, skipped)): Path<(String, usize)>) -> Response {
    answer(shared, move |desk| desk.sessions(skipped)).await
}

async fn conversation(shared: State<RouterState>, Path((_, id, at)): Path<(String, String, String)>) -> Response {
    answer(shared, move |desk| desk.conversation(&id, &at)).await
}

async fn turn(shared: State<RouterState>, Path((_, id, position)): Path<(String, String, usize)>) -> Response {
    answer(shared, move |desk| desk.whole_turn(&id, position)).await
}

async fn learnings(shared: State<RouterState>, Path((_, kind)): PathArguments) -> Response {
    answer(shared, move |desk| desk.learnings(&kind, "")).await
}

async fn learnings_with(shared: State<RouterState>, Path((_, kind, words)): Path<(String, String, String)>) -> Response {
    answer(shared, move |desk| desk.learnings(&kind, &words)).await
}

async fn learned(shared: State<RouterState>, Path((_, id)): PathArguments) -> Response {
    answer(shared, move |desk| desk.learnings_of(&id)).await
}

async fn search(shared: State<RouterState>, Path((_, words)): PathArguments) -> Response {
    answer(shared, move |desk| desk.search(&words)).await
}

/// Reads on a thread of its own, since files and databases block.
async fn answer<T, F>(State(shared): State<RouterState>, work: F) -> Response
where
    T: Serialize + Send + 'static,
    F: FnOnce(&DashboardService) -> Result<T, DataError> + Send + 'static,
{
    let RouterState { desk, readers } = shared;
    let Ok(_reader) = readers.acquire_owned().await else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    match tokio::task::spawn_blocking(move || work(&desk)).await {
        Ok(Ok(value)) => Json(value).into_response(),
        Ok(Err(trouble)) => (status(&trouble), Json(json!({ "error": trouble.to_string() }))).into_response(),
        Err(error) => {
            let told = format!("a bug in ctxbridge {}: {error}. Please report it", env!("CARGO_PKG_VERSION"));
            (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": told }))).into_response()
        }
    }
}

fn status(trouble: &DataError) -> StatusCode {
    match trouble {
        DataError::UnknownSession | DataError::UnknownTurn => StatusCode::NOT_FOUND,
        DataError::TooLarge { .. } | DataError::NoCalls => StatusCode::UNPROCESSABLE_ENTITY,
        DataError::Store(_) | DataError::Search(_) | DataError::Prices(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
