//! The routes: an address in, a file of the page or JSON out.

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
use super::data::{Desk, Trouble};
use super::guard::{self, Guard};

/// Requests that may be reading at the same time; more wait for their turn.
const READERS: usize = 4;

#[derive(Clone)]
struct Shared {
    desk: Arc<Desk>,
    readers: Arc<Semaphore>,
}

pub(super) fn router(desk: Arc<Desk>, guard: Arc<Guard>) -> Router {
    let shared = Shared { desk, readers: Arc::new(Semaphore::new(READERS)) };
    Router::new()
        .route("/{token}/", get(|| file(String::new())))
        .route("/{token}/api/changes", get(|shared: State<Shared>| answer(shared, |desk| Ok(json!({ "mark": desk.mark() })))))
        .route("/{token}/api/overview", get(|shared: State<Shared>| answer(shared, Desk::overview)))
        .route("/{token}/api/sessions", get(|shared: State<Shared>| answer(shared, Desk::sessions)))
        .route("/{token}/api/session/{id}", get(session))
        .route("/{token}/api/savings/{id}", get(savings))
        .route("/{token}/api/search/{words}", get(search))
        .route("/{token}/api/state", get(|shared: State<Shared>| answer(shared, Desk::state)))
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

/// Behind the token: the id of a session, or words to look for.
type Asked = Path<(String, String)>;

async fn session(shared: State<Shared>, Path((_, id)): Asked) -> Response {
    answer(shared, move |desk| desk.session(&id)).await
}

async fn savings(shared: State<Shared>, Path((_, id)): Asked) -> Response {
    answer(shared, move |desk| desk.savings(&id)).await
}

async fn search(shared: State<Shared>, Path((_, words)): Asked) -> Response {
    answer(shared, move |desk| desk.search(&words)).await
}

/// Reads on a thread of its own, since files and databases block.
async fn answer<T, F>(State(shared): State<Shared>, work: F) -> Response
where
    T: Serialize + Send + 'static,
    F: FnOnce(&Desk) -> Result<T, Trouble> + Send + 'static,
{
    let Shared { desk, readers } = shared;
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

fn status(trouble: &Trouble) -> StatusCode {
    match trouble {
        Trouble::Unknown => StatusCode::NOT_FOUND,
        Trouble::TooLarge { .. } | Trouble::NoCalls => StatusCode::UNPROCESSABLE_ENTITY,
        Trouble::Store(_) | Trouble::Search(_) | Trouble::Prices(_) | Trouble::Hurry => StatusCode::SERVICE_UNAVAILABLE,
    }
}
