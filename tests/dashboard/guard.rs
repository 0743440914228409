//! Who is answered, and with which headers.

use ctxbridge_testkit::sandbox::{Sandbox, run};

use crate::dashboard::place::{Answer, Served};

#[track_caller]
fn refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    careful(answer);
    assert!(!answer.body.contains('<') && !answer.body.contains("sessions"), "{answer:?}");
}

/// What every answer carries.
#[track_caller]
fn careful(answer: &Answer) {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for (name, value) in [
        ("content-security-policy", policy),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(answer.header("set-cookie"), None);
}

#[test]
fn only_the_token_opens_anything() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox);
    let (token, host) = (served.token(), served.host());
    assert_eq!(token.len(), 64, "{token}");
    let other = Served::start(&sandbox);
    assert_ne!(token, other.token());
    let wrong = token.chars().rev().collect::<String>();
    let shorter = &token[..63];
    for path in
        ["/", "/api/overview", "//", &format!("/{wrong}/"), &format!("/{shorter}/api/overview"), &format!("/{}/", other.token())]
    {
        refused(&served.ask("GET", path, &[("Host", host)]), 403);
        refused(
            &served.ask("GET", &format!("{path}?token={token}"), &[("Host", host), ("Cookie", &format!("token={token}"))]),
            403,
        );
    }
    for path in ["", "app.js", "style.css", "vendor/uPlot.esm.js", "api/overview", "api/changes"] {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        careful(&answer);
    }
}

#[test]
fn another_host_or_origin_is_refused() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox);
    let path = format!("/{}/api/overview", served.token());
    let port = served.port();
    let ask = |headers: &[(&str, &str)]| served.ask("GET", &path, headers);
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}"), format!("LOCALHOST:{port}")] {
        assert_eq!(ask(&[("Host", &host)]).status, 200, "{host}");
        assert_eq!(ask(&[("Host", &host), ("Origin", &format!("http://{host}"))]).status, 200, "{host}");
    }
    // A name of somebody else that points to 127.0.0.1, as in DNS rebinding.
    let rebound = [
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1:1".to_owned(),
        "127.0.0.1".to_owned(),
        String::new(),
    ];
    for host in rebound {
        refused(&ask(&[("Host", &host)]), 403);
    }
    let ours = format!("127.0.0.1:{port}");
    refused(&ask(&[("Host", &ours), ("Host", "evil.example")]), 403);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", &format!("https://{ours}"), ""] {
        refused(&ask(&[("Host", &ours), ("Origin", origin)]), 403);
    }
}

#[test]
fn nothing_but_get_is_answered() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
        for path in [format!("/{}/", served.token()), format!("/{}/api/overview", served.token()), "/".to_owned()] {
            let answer = served.ask(method, &path, &[("Host", served.host()), ("Content-Length", "0")]);
            refused(&answer, 405);
            assert_eq!(answer.header("allow"), Some("GET"));
        }
    }
}

#[test]
fn no_path_leads_out_of_the_page() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.data()).unwrap();
    std::fs::write(sandbox.data().join("secret.txt"), "private").unwrap();
    let served = Served::start(&sandbox);
    for path in [
        "../secret.txt",
        "..%2fsecret.txt",
        "vendor/../../secret.txt",
        "vendor/..%2f..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "..\\secret.txt",
        "vendor/",
        "index.html%00.js",
        "/etc/passwd",
        "vendor/%2fetc%2fpasswd",
        "api/",
        "api/nothing",
        "secret.txt",
    ] {
        let answer = served.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        careful(&answer);
        assert!(!answer.body.contains("private"), "{path}");
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox);
    let ran = run(sandbox.command(&["dashboard", "--port", served.port()]), b"").with_code(3);
    assert!(
        ran.stderr.contains(&format!("cannot listen on 127.0.0.1:{}", served.port())) && ran.stderr.contains("--port"),
        "{ran:?}"
    );
}
