//! `ctxbridge dashboard`: who is answered, what is answered, and the page in a real browser.

mod answers;
mod browser;
mod conversations;
mod figures;
mod guard;
mod place;
