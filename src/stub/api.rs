//! The routes: bytes in, JSON or an event stream out.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use serde_json::{Value, json};

use super::StubContext;
use super::request::{ApiRequest, RequestKind};
use super::respond;
use super::tokens::CacheUsage;
use super::validate::{Violation, validate, validate_prompt};

/// The API's endpoints; any other path gets a 404 in the API's format.
pub(super) fn router(desk: Arc<StubContext>) -> Router {
    let limit = DefaultBodyLimit::max(desk.options.max_body);
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(limit)
        .with_state(desk)
}

async fn messages(State(desk): State<Arc<StubContext>>, body: Result<Bytes, BytesRejection>) -> Result<Response, ApiError> {
    let mut state = desk.lock();
    if state.admitted >= desk.options.max_requests {
        return Err(ApiError::Overloaded);
    }
    state.admitted += 1;

    let body = match read_json(body) {
        Ok(body) => body,
        Err(error) => {
            state.violations.push(error.to_string());
            return Err(error);
        }
    };
    let kind = RequestKind::of(&body);
    let number = 1 + state.requests.iter().filter(|seen| seen.kind == kind).count();
    let verdict = validate(&body).and_then(|()| state.signatures.check(&body));
    let cached = match &mut state.cache {
        Some(cache) if verdict.is_ok() => cache.serve(&body, Instant::now()),
        _ => CacheUsage::default(),
    };
    let request = Arc::new(ApiRequest::new(number, kind, body, cached, verdict.as_ref().err()));
    state.requests.push(Arc::clone(&request));
    if let Err(violation) = verdict {
        state.violations.push(violation.to_string());
        return Err(violation.into());
    }

    let reply = match kind {
        RequestKind::Main => state.responder.reply(&request),
        RequestKind::Side | RequestKind::Compaction => state.responder.side_reply(&request),
    };
    let usage = state.responder.usage(&request, &reply);
    if request.is_main() {
        state.totals.add(&usage);
    }
    // The client takes answers with the same id for parts of one answer, so ids never repeat.
    let serial = state.admitted;
    let thought = state.signatures.give(serial, &request.body);
    let message = respond::message(serial, &request.model, thought, &reply, usage);
    Ok(if request.streams() {
        let events = respond::event_stream(&message);
        ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response()
    } else {
        Json(message).into_response()
    })
}

async fn count_tokens(body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, ApiError> {
    let body = read_json(body)?;
    validate_prompt(&body)?;
    Ok(Json(json!({ "input_tokens": super::request::prompt_tokens(&body) })))
}

async fn not_found() -> ApiError {
    ApiError::NotFound
}

fn read_json(body: Result<Bytes, BytesRejection>) -> Result<Value, ApiError> {
    let bytes = body.map_err(ApiError::Body)?;
    serde_json::from_slice(&bytes).map_err(ApiError::Json)
}

/// Errors that the stub answers with, in the API's words.
#[derive(Debug, thiserror::Error)]
enum ApiError {
    #[error(transparent)]
    Invalid(#[from] Violation),
    /// Invalid JSON; a lone surrogate in a string is an example.
    #[error("The request body is not valid JSON: {0}")]
    Json(serde_json::Error),
    #[error("{}", .0.body_text())]
    Body(BytesRejection),
    #[error("Not found")]
    NotFound,
    #[error("Overloaded")]
    Overloaded,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, kind) = match &self {
            Self::Invalid(_) | Self::Json(_) => (StatusCode::BAD_REQUEST, "invalid_request_error"),
            Self::Body(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large")
            }
            Self::Body(_) => (StatusCode::BAD_REQUEST, "invalid_request_error"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found_error"),
            Self::Overloaded => (overloaded(), "overloaded_error"),
        };
        let body = json!({
            "type": "error",
            "error": { "type": kind, "message": self.to_string() },
        });
        (status, Json(body)).into_response()
    }
}

/// 529, the API's own status for "try again later"; it has no name in the registry.
fn overloaded() -> StatusCode {
    StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
}
