//! What the commands say of themselves.

use ctxbridge_testkit::sandbox::Sandbox;

use super::prune;

#[test]
fn of_prune() {
    insta::assert_snapshot!(prune(&Sandbox::new(), &["--help"]));
}

#[test]
fn of_preview() {
    insta::assert_snapshot!(prune(&Sandbox::new(), &["preview", "--help"]));
}

#[test]
fn of_simulate() {
    insta::assert_snapshot!(prune(&Sandbox::new(), &["simulate", "--help"]));
}
