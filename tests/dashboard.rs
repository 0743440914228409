//! `ctxbridge dashboard`: who is answered, what is answered, and the page in a real browser.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "dashboard/answers.rs"]
mod answers;
#[path = "dashboard/browser.rs"]
mod browser;
#[path = "dashboard/guard.rs"]
mod guard;
#[path = "dashboard/place.rs"]
mod place;
#[path = "archive/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;
