//! `ctxbridge dashboard`: who is answered, what is answered, and the page in a real browser.
#![cfg(unix)]

mod answers;
mod browser;
mod guard;
mod place;
