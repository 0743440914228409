//! Targets that cannot be patched: each is refused with its cause and the next step, and stays as it is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ctxbridge_testkit::sandbox::run;

use super::bundle::{Bundle, VERSION};
use super::client::Client;

/// `apply` refuses these bytes, with or without a smoke run, and `revert` finds nothing of ours in them.
#[track_caller]
fn refuses(bytes: &[u8], words: &[&str]) {
    let client = Client::with_bytes(bytes);
    let before = client.photo();
    client.run(&["apply"]).refused(words);
    client.run(&["apply", "--json", "--no-smoke"]).refused(words);
    client.run(&["apply", "--dry-run"]).refused(words);
    client.assert_untouched(&before);
    assert!(client.run(&["revert"]).says_no().stdout.contains("not patched"));
    assert_eq!(client.state(), "unpatched");
    client.assert_untouched(&before);
}

#[test]
fn not_javascript() {
    refuses(b"Dear diary,\ntoday I was installed.\n", &["cli.js is not JavaScript", "line 1", "reinstall the client"]);
}

#[test]
fn javascript_cut_in_half() {
    let whole = Bundle::new().into_bytes();
    let mut half = whole.len() / 2;
    while std::str::from_utf8(&whole[..half]).is_err() {
        half -= 1;
    }
    // Not between two functions, where the half would be a whole.
    while whole[half - 1] != b'{' {
        half -= 1;
    }
    refuses(&whole[..half], &["cli.js is not JavaScript", "reinstall the client"]);
}

#[test]
fn an_empty_file() {
    refuses(b"", &["the file is empty", "reinstall the client"]);
}

#[test]
fn not_utf8() {
    let mut bytes = Bundle::new().into_bytes();
    let offset = bytes.len() / 3;
    bytes[offset] = 0xFF;
    refuses(&bytes, &["not text: byte ", "is not UTF-8", "is this the client's cli.js?"]);
}

#[test]
fn a_native_executable() {
    for (bytes, kind) in [
        (b"\x7FELF\x02\x01\x01 and so on".as_slice(), "Linux executable"),
        (b"\xCF\xFA\xED\xFE and so on", "macOS executable"),
        (b"MZ\x90 and so on", "Windows executable"),
    ] {
        let client = Client::with_bytes(bytes);
        let before = client.photo();
        for command in ["apply", "verify", "revert", "locate"] {
            client.run(&[command]).refused(&[kind, "ctxbridge does not know the layout of this", "upgrade ctxbridge"]);
        }
        client.assert_untouched(&before);
    }
}

/// A pipe would wait for somebody to write into it, a device may never end.
#[test]
fn what_is_no_file() {
    let client = Client::new(Bundle::new());
    let pipe = client.target().with_file_name("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [&pipe, Path::new("/dev/zero"), Path::new("/dev/null")] {
        for command in ["apply", "verify", "revert", "locate", "check"] {
            client.run_on(path, &[command]).refused(&["is not a Claude Code client", "name the client's executable"]);
        }
    }
}

/// Deeper than anything could be walked without overflowing the stack, which would end the process.
#[test]
fn nesting_without_end() {
    for (open, close) in [("(", ")"), ("[", "]")] {
        let deep = format!("x={}1{}", open.repeat(1_000_000), close.repeat(1_000_000));
        refuses(deep.as_bytes(), &["cli.js is not JavaScript", "brackets are open", "reinstall the client"]);
    }
}

#[test]
fn a_path_that_is_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let client = Client::new(Bundle::new());
    let odd = client.target().with_file_name(std::ffi::OsStr::from_bytes(b"odd\xFF"));
    // Not every file system takes such a name.
    if fs::create_dir(&odd).is_err() {
        return;
    }
    fs::copy(client.target(), odd.join("cli.js")).unwrap();
    fs::copy(client.target().with_file_name("package.json"), odd.join("package.json")).unwrap();
    let link = client.target().with_file_name("even");
    symlink(&odd, &link).unwrap();
    for command in ["apply", "verify", "revert", "locate"] {
        client.run_on(&link, &[command, "--json"]).refused(&["is not Unicode", "rename"]);
    }
}

#[test]
fn a_release_with_no_known_signature() {
    for version in ["1.0.0", "0.2.9"] {
        let bytes = Bundle::new().version(version).into_bytes();
        refuses(&bytes, &["is for releases >=1.0.60", &format!("and this is {version}"), "use a release that it is for"]);
    }
}

/// No newer ctxbridge would have it, so none is advised.
#[test]
fn a_patch_that_ended_before_this_release() {
    let client = Client::new(Bundle::new().version("2.1.111"));
    let before = client.photo();
    let ran = client.run(&["apply", "--no-smoke", "--patch", "microcompact-thresholds"]);
    let ran = ran.refused(&["is for releases >=1.0.60, <2.1.69", "and this is 2.1.111", "leave this patch out"]);
    assert!(!ran.stderr.contains("upgrade ctxbridge"), "{ran:?}");
    client.assert_untouched(&before);
}

#[test]
fn a_release_whose_sites_have_moved() {
    let drifted = Bundle::new().text().replace("compactionResult", "compactionOutcome");
    refuses(drifted.as_bytes(), &["site autocompact.call was not found", "upgrade ctxbridge"]);
}

#[test]
fn a_version_in_the_header_that_is_none() {
    let client = Client::new(Bundle::new().version("two point oh"));
    let before = client.photo();
    for command in ["apply", "verify", "revert"] {
        let words = ["cli.js gives its version as `two point oh`", "not a version number", "reinstall the client"];
        client.run(&[command]).refused(&words);
    }
    client.assert_untouched(&before);
}

#[test]
fn a_version_in_the_manifest_that_is_none() {
    let headless = Bundle::new().text().replace(&format!("// Version: {VERSION}\n"), "");
    let client = Client::with_bytes(headless.as_bytes());
    client.manifest("latest");
    let before = client.photo();
    let words = ["package.json gives its version as `latest`", "not a version number", "reinstall the client"];
    client.run(&["apply"]).refused(&words);
    client.assert_untouched(&before);

    // The header goes first: it tells the client's version in packages that have another.
    client.install(&Bundle::new().into_bytes());
    client.run(&["apply", "--no-smoke"]).done();
}

#[test]
fn a_dangling_link() {
    let client = Client::new(Bundle::new());
    let link = client.path("claude");
    symlink(client.path("gone/cli.js"), &link).unwrap();
    let before = client.photo();
    for command in ["apply", "verify", "revert"] {
        let ran = client.run_on(&link, &[command]);
        ran.refused(&["claude is a link to", "gone/cli.js, which does not exist", "reinstall the client or name it"]);
    }
    client.assert_untouched(&before);
}

#[test]
fn a_circle_of_links() {
    let client = Client::new(Bundle::new());
    let (one, other) = (client.path("one"), client.path("other"));
    symlink(&one, &other).unwrap();
    symlink(&other, &one).unwrap();
    client.run_on(&one, &["apply"]).refused(&["one leads in a circle", "name the client's executable"]);
    // Neither does a launcher that starts itself through another end.
    let (sh, bash) = (client.path("claude.sh"), client.path("claude.bash"));
    for (path, next) in [(&sh, &bash), (&bash, &sh)] {
        fs::write(path, format!("#!/bin/sh\nexec {} \"$@\"\n", next.display())).unwrap();
    }
    client.run_on(&sh, &["apply"]).refused(&["claude.sh", "name the client's executable"]);
}

#[test]
fn a_folder_without_a_client() {
    let client = Client::new(Bundle::new());
    let empty = client.path("home");
    for command in ["apply", "verify", "revert"] {
        let ran = client.run_on(&empty, &[command]);
        ran.refused(&["no client in", "looked for cli.js", "name the client's executable"]);
    }
}

#[test]
fn a_target_that_is_not_there() {
    let client = Client::new(Bundle::new());
    let nowhere = client.path("nowhere/cli.js");
    client.run_on(&nowhere, &["apply"]).refused(&["nowhere/cli.js does not exist", "name the client's executable"]);
    // A file is no folder.
    let below = client.target().join("cli.js");
    client.run_on(&below, &["apply"]).refused(&["cli.js/cli.js", "name the client's executable"]);
}

#[test]
fn no_client_on_the_path() {
    let client = Client::new(Bundle::new());
    let mut command = client.bare(&["apply"]);
    command.env("PATH", client.path("home"));
    run(command, b"").refused(&["no `claude` on the PATH", "name the client"]);
}

#[test]
fn what_leads_to_the_client_is_followed_and_stays() {
    let client = Client::new(Bundle::new());
    let link = client.path("claude");
    symlink(client.target(), &link).unwrap();
    let original = client.bytes();
    let applied = client.run_on(&link, &["apply", "--json", "--no-smoke"]).done().json();
    assert_eq!(Path::new(applied["target"].as_str().unwrap()), client.target());
    assert_eq!(fs::read_link(&link).unwrap(), client.target(), "the link is no link any more");
    assert_ne!(client.bytes(), original);
    client.run_on(&link, &["revert"]).done();
    assert_eq!(client.bytes(), original);
}
