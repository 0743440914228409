/*!
Access control of the dashboard.

The port is open to every program and every web page on this machine, and transcripts are private:

- The **token** is the first segment of every path. A cookie would be nicer to look at, but browsers send cookies of 127.0.0.1 to
  every
  port of it, and so to every other local server. The token ends with the server; no referrer carries it away.
- The **Host** has to be ours, or a page elsewhere could reach us by a name of its own that points to 127.0.0.1 (DNS rebinding).
- The **Origin**, where a browser sends it, has to be ours. Only GET is answered, and nothing is ever changed.
- The **policy** allows what comes from us and no inline script: a transcript that got into the page as HTML would still do nothing.
*/

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer, refusals as well.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Makes a new token: 256 random bits in hexadecimal.
pub(super) fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Requirements on a request.
#[derive(Debug)]
pub(super) struct Guard {
    token: String,
    hosts: [String; 3],
}

/// Reasons for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Method,
    Host,
    Origin,
    Token,
}

impl Guard {
    pub fn new(token: String, port: u16) -> Arc<Self> {
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        Arc::new(Self { token, hosts })
    }

    fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        if method != Method::GET {
            return Err(Refusal::Method);
        }
        let is_ours = |value: &HeaderValue, scheme: &str| {
            let host = value.to_str().ok().and_then(|value| value.strip_prefix(scheme));
            host.is_some_and(|host| self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)))
        };
        // Two of them could be read in two ways.
        let all = |name| headers.get_all(name).iter();
        if all(header::HOST).count() != 1 || !all(header::HOST).all(|value| is_ours(value, "")) {
            return Err(Refusal::Host);
        }
        if !all(header::ORIGIN).all(|value| is_ours(value, "http://")) {
            return Err(Refusal::Origin);
        }
        let given = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        if !constant_time_eq::constant_time_eq(given.as_bytes(), self.token.as_bytes()) {
            return Err(Refusal::Token);
        }
        Ok(())
    }
}

/// Passes allowed requests on, refuses the others, and sets the headers.
pub(super) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.check(request.method(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, told) = match self {
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "only GET is answered: nothing can be changed here\n"),
            Self::Host => {
                (StatusCode::FORBIDDEN, "not a host of this server; open the address that `ctxbridge dashboard` printed\n")
            }
            Self::Origin => (StatusCode::FORBIDDEN, "another page asked for this, which is not allowed\n"),
            Self::Token => (
                StatusCode::FORBIDDEN,
                "the token is missing or of an earlier run; open the address that `ctxbridge dashboard` printed\n",
            ),
        };
        let mut response = (status, told).into_response();
        if self == Self::Method {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}
