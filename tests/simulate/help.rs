//! What the commands say of themselves.

use crate::simulate::sandbox::Sandbox;

#[test]
fn of_prune() {
    insta::assert_snapshot!(Sandbox::new().run(&["--help"]));
}

#[test]
fn of_preview() {
    insta::assert_snapshot!(Sandbox::new().run(&["preview", "--help"]));
}

#[test]
fn of_simulate() {
    insta::assert_snapshot!(Sandbox::new().run(&["simulate", "--help"]));
}
