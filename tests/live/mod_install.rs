//! The plugin is installed with the client's own commands, and taken out again.

use std::fs;

use super::{Installation, run_ctxbridge};

const SETTINGS: &str = "{\n    \"model\" : \"opus\",\n  \"permissions\": {\"allow\": [\"Bash(ls:*)\"]}\n}\n";

fn comes_and_goes(version: &str) {
    let installation = Installation::of(version);
    let client = installation.client();
    let data = installation.folder.path().join("data");
    let path = installation.path.to_str().unwrap();
    let settings = client.home().join(".claude/settings.json");
    let told = |args: &[&str]| String::from_utf8(run_ctxbridge(&client, &data, args)).unwrap();
    for before in [Some(SETTINGS), None] {
        fs::create_dir_all(settings.parent().unwrap()).unwrap();
        before.map_or(Ok(()), |text| fs::write(&settings, text)).unwrap();
        assert!(told(&["mod", "install", path]).starts_with("installed: "));
        let enabled = |name: &str| fs::read_to_string(&settings).unwrap().contains(name);
        assert!(enabled("ctxbridge@ctxbridge") && !enabled("ctxbridge-threshold"), "{version}");
        assert!(told(&["mod", "install", path]).starts_with("nothing to do"));
        assert!(told(&["mod", "uninstall", path]).starts_with("uninstalled: "));
        assert_eq!(fs::read_to_string(&settings).ok().as_deref(), before, "{version}: the settings are as they were");
        fs::remove_file(&settings).ok();
    }
}

#[test]
fn settings_come_back_to_the_byte_2_1_330() {
    comes_and_goes("2.1.330");
}
