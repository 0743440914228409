//! Secrets in text: what is found, what is left, and what holds for any text.

mod lines;

use ctxbridge::redact::{RedactionPatterns, Redactor};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Secrets that are none, put together so that no scanner takes this file for a leak.
fn fake(begin: &str, rest: &str, length: usize) -> String {
    let body: String = rest.chars().cycle().take(length).collect();
    format!("{begin}{body}")
}

const ALNUM: &str = "a8Kd03mXq9ZbL2wR7tYv";

fn tokens() -> Vec<(&'static str, String)> {
    let hex = "0a1b2c3d4e5f6978";
    let jwt = [fake("eyJ", "hbGciOiJIUzI1NiJ9", 17), fake("eyJ", "zdWIiOiIxMjM0NTY3", 30), fake("", ALNUM, 43)].join(".");
    vec![
        ("anthropic-key", fake(&["sk", "ant", "api03", ""].join("-"), "a8Kd03mX_9Zb-2wR", 95)),
        ("anthropic-key", fake(&["sk", "ant", "admin01", ""].join("-"), ALNUM, 95)),
        ("openai-key", fake(&["sk", "proj", ""].join("-"), "a8Kd03mX_9Zb-2wR", 120)),
        ("openai-key", [fake(&["sk", ""].join("-"), ALNUM, 20), fake("T3Blbk", "FJ", 2), fake("", ALNUM, 20)].concat()),
        ("aws-key-id", fake("AKI", "AQ2W3E4R5T6Y7UABC", 17)),
        ("github-token", fake("gh", "p_", 2) + &fake("", ALNUM, 36)),
        ("github-token", fake("gh", "s_", 2) + &fake("", ALNUM, 36)),
        ("github-token", fake("github", "_pat_", 5) + &fake("", ALNUM, 82)),
        ("gitlab-token", fake("glp", "at-", 3) + &fake("", ALNUM, 20)),
        ("slack-token", fake("xox", "b-", 2) + "123456789012-123456789012-" + &fake("", ALNUM, 24)),
        ("google-key", fake("AI", "za", 2) + &fake("", ALNUM, 35)),
        ("stripe-key", fake("sk", "_live_", 6) + &fake("", ALNUM, 24)),
        ("stripe-key", fake("rk", "_test_", 6) + &fake("", ALNUM, 24)),
        ("npm-token", fake("np", "m_", 2) + &fake("", ALNUM, 36)),
        ("pypi-token", fake("pypi-AgEIcHlwa", "S5vcmc", 6) + &fake("", ALNUM, 80)),
        ("huggingface-token", fake("h", "f_", 2) + &fake("", ALNUM, 34)),
        ("sendgrid-key", fake("S", "G.", 2) + &fake("", ALNUM, 22) + "." + &fake("", ALNUM, 43)),
        ("twilio-key", fake("S", "K", 1) + &fake("", hex, 32)),
        ("shopify-token", fake("shp", "at_", 3) + &fake("", hex, 32)),
        ("digitalocean-token", fake("dop", "_v1_", 4) + &fake("", hex, 64)),
        ("databricks-token", fake("da", "pi", 2) + &fake("", hex, 32)),
        ("mailgun-key", fake("ke", "y-", 2) + &fake("", hex, 32)),
        ("mailchimp-key", fake("", hex, 32) + "-us12"),
        ("telegram-token", fake("", "123456789", 9) + ":" + &fake("AA", ALNUM, 33)),
        ("linear-key", fake("lin", "_api_", 5) + &fake("", ALNUM, 40)),
        ("notion-token", fake("nt", "n_", 2) + &fake("", ALNUM, 46)),
        ("notion-token", fake("sec", "ret_", 4) + &fake("", ALNUM, 43)),
        ("figma-token", fake("fi", "gd_", 3) + &fake("", ALNUM, 40)),
        ("postman-key", fake("PM", "AK-", 3) + &fake("", hex, 24) + "-" + &fake("", hex, 34)),
        ("pulumi-token", fake("pu", "l-", 2) + &fake("", hex, 40)),
        ("vault-token", fake("hv", "s.", 2) + &fake("", ALNUM, 90)),
        ("terraform-token", fake("", ALNUM, 14) + ".atlas" + "v1." + &fake("", ALNUM, 67)),
        ("doppler-token", fake("dp", ".pt.", 4) + &fake("", ALNUM, 43)),
        ("doppler-token", fake("dp", ".st.", 4) + "dev." + &fake("", ALNUM, 43)),
        ("grafana-token", fake("gl", "sa_", 3) + &fake("", ALNUM, 32) + "_" + &fake("", hex, 8)),
        ("newrelic-key", fake("NR", "AK-", 3) + &fake("", "A8KD03MXQ9Z", 27)),
        ("sentry-token", fake("sntr", "yu_", 3) + &fake("", hex, 64)),
        ("planetscale-token", fake("pscale", "_tkn_", 5) + &fake("", ALNUM, 43)),
        ("supabase-key", fake("sb", "p_", 2) + &fake("", hex, 40)),
        ("atlassian-token", fake("ATA", "TT3xFfGF0", 9) + &fake("", ALNUM, 180)),
        ("age-key", fake("AGE-SECRET", "-KEY-1", 6) + &fake("", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
        ("rubygems-key", fake("ruby", "gems_", 5) + &fake("", hex, 48)),
        ("crates-token", fake("ci", "o", 1) + &fake("", ALNUM, 32)),
        ("model-key", fake("gs", "k_", 2) + &fake("", ALNUM, 52)),
        ("model-key", fake("x", "ai-", 3) + &fake("", ALNUM, 80)),
        ("model-key", fake("pp", "lx-", 3) + &fake("", ALNUM, 48)),
        ("model-key", fake("r", "8_", 2) + &fake("", ALNUM, 37)),
        ("docker-token", fake("dckr", "_pat_", 5) + &fake("", ALNUM, 27)),
        ("azure-secret", fake("aB~", "8Q~", 3) + &fake("", ALNUM, 34)),
        ("airtable-token", fake("pa", "t", 1) + &fake("", ALNUM, 14) + "." + &fake("", hex, 64)),
        ("netlify-token", fake("nf", "p_", 2) + &fake("", ALNUM, 36)),
        ("jwt", jwt),
    ]
}

fn key(kind: &str, newline: &str) -> String {
    let line = fake("MII", ALNUM, 61);
    let (begin, end) = (format!("-----{} {kind}-----", "BEGIN"), format!("-----{} {kind}-----", "END"));
    [begin, line.clone(), line, "a8Kd==".to_owned(), end].join(newline)
}

fn redact(text: &str) -> String {
    Redactor::standard().redact(text).text.into_owned()
}

#[test]
fn tokens_are_known_by_their_form_wherever_they_stand() {
    for (rule, token) in tokens() {
        for (before, after) in [
            ("", ""),
            ("see ", " there"),
            ("(", ")"),
            ("\"", "\""),
            ("first\n", "\nlast"),
            ("{\"a\":\"x\\n", "\\n\"}"),
            ("ü", "ü"),
        ] {
            let text = format!("{before}{token}{after}");
            let redacted = Redactor::standard().redact(&text);
            assert_eq!(redacted.text, format!("{before}[redacted:{rule}]{after}"), "{token}");
            assert_eq!(redacted.found.get(rule), Some(&1), "{token}");
        }
        let inside = format!("word{token}");
        assert_eq!(redact(&inside), inside, "no boundary before it");
    }
    let hook = format!("https://hooks.slack.com/services/{}", fake("T00000000/B00000000/", ALNUM, 24));
    assert_eq!(redact(&hook), "https://hooks.slack.com/services/[redacted:slack-webhook]");
    let hook = format!("https://discord.com/api/webhooks/123456789012345678/{}", fake("", ALNUM, 68));
    assert_eq!(redact(&hook), "https://discord.com/api/webhooks/123456789012345678/[redacted:discord-webhook]");
    let pair = fake("AKI", "AQ2W3E4R5T6Y7UABC", 17) + "," + &fake("", "wJalrXUtnFEMI/K7MDENG", 40);
    assert_eq!(redact(&pair), "[redacted:aws-key-id],[redacted:aws-secret-key]");
}

#[test]
fn passwords_behind_short_flags_and_cookies_are_found() {
    for (text, expected) in [
        ("mysql -u root -phunter2 -e 'select 1'", "mysql -u root -p[redacted:command-password] -e 'select 1'"),
        ("mysqldump -h db -p'hunter2' app > a.sql", "mysqldump -h db -p'[redacted:command-password]' app > a.sql"),
        (r#"{"cmd":"mariadb -p\"hunter2\" app"}"#, r#"{"cmd":"mariadb -p\"[redacted:command-password]\" app"}"#),
        ("sshpass -p hunter2 ssh me@host", "sshpass -p [redacted:command-password] ssh me@host"),
        ("redis-cli -h cache -a hunter2 ping", "redis-cli -h cache -a [redacted:command-password] ping"),
        ("docker login -u me -p hunter2 host", "docker login -u me -p [redacted:command-password] host"),
        ("curl -H 'Cookie: sid=0a1b2c3d; theme=dark' x", "curl -H 'Cookie: [redacted:cookie]' x"),
        ("Set-Cookie: sid=0a1b2c3d4e; HttpOnly\r\nA: b", "Set-Cookie: [redacted:cookie]\r\nA: b"),
        (r#"{"Cookie": "sid=0a1b2c3d4e"}"#, r#"{"Cookie": "[redacted:cookie]"}"#),
    ] {
        assert_eq!(redact(text), expected);
    }
    for text in [
        "mysql -u root -p",
        "mysql -u root -p -e 'select 1'",
        "mysql -p$PASSWORD app",
        "the mysql container; docker run -p 8080:80 x",
        "Cookie: a small file that a browser keeps",
        "docker login -u me --password-stdin",
        "a key-value store and a status of 12-us1",
    ] {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn passwords_in_files_and_addresses_of_services_are_found() {
    let signature = fake("", ALNUM, 43) + "%3D";
    let hex = fake("", "0123456789abcdef", 64);
    let token = fake("", ALNUM, 40);
    for (text, secret, rule) in [
        (format!("https://x.blob.core.windows.net/c/b?sv=2022-11-02&sp=r&sig={signature}"), &*signature, "signed-url"),
        (format!("https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature={hex} is it"), &hex, "signed-url"),
        ("Server=db;Database=app;Uid=sa;Pwd=hunter2;Encrypt=true".to_owned(), "hunter2", "connection-password"),
        ("data source=db; pwd = hunter2".to_owned(), "hunter2", "connection-password"),
        ("machine api.example.com login me password hunter2".to_owned(), "hunter2", "netrc-password"),
        ("machine api.example.com\n  login me\n  password hunter2\n".to_owned(), "hunter2", "netrc-password"),
        ("# who\ndb.example.com:5432:*:me:hunter2\n".to_owned(), "hunter2", "pgpass-password"),
        ("*:*:*:me:hunter2".to_owned(), "hunter2", "pgpass-password"),
        (r#"{"auths": {"ghcr.io": {"auth": "bWU6aHVudGVyMg=="}}}"#.to_owned(), "bWU6aHVudGVyMg==", "registry-auth"),
        (r#"a \"auth\":\"bWU6aHVudGVyMg==\" b"#.to_owned(), "bWU6aHVudGVyMg==", "registry-auth"),
        (format!("git clone https://{token}@github.com/acme/app.git"), &token, "url-password"),
    ] {
        assert_eq!(redact(&text), text.replace(secret, &format!("[redacted:{rule}]")));
    }
    for text in [
        "git clone https://git@github.com/acme/app.git",
        "https://some.colleague@example.com/x",
        "cd /srv; PWD=/srv; echo $PWD",
        "Uid=sa;Pwd=$DB_PASSWORD;",
        "machine learning with a login and a password",
        "12:30:*: a:b",
        r#"{"auth": "required"}"#,
        "https://example.com/?sig=short&x=1",
        "localhost:5432:app:me:",
    ] {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn private_keys_are_found_on_lines_and_in_escapes() {
    for kind in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "EC PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        for newline in ["\n", "\r\n", "\\n", "\n    "] {
            let redacted = redact(&format!("a {} b", key(kind, newline)));
            assert_eq!(redacted, format!("a -----BEGIN {kind}-----[redacted:private-key]-----END {kind}----- b"));
        }
    }
    let whole = key("PRIVATE KEY", "\n");
    assert_eq!(redact(&whole[..120]), "-----BEGIN PRIVATE KEY-----[redacted:private-key]", "its end was cut off");
    let mentioned = "A file that begins with -----BEGIN PRIVATE KEY-----, then the key, then -----END PRIVATE KEY-----.";
    assert_eq!(redact(mentioned), mentioned);
    let public = key("PUBLIC KEY", "\n");
    assert_eq!(redact(&public), public);
}

#[test]
fn private_keys_are_found_however_their_lines_are_shown() {
    let whole = key("RSA PRIVATE KEY", "\n");
    let lines: Vec<&str> = whole.lines().collect();
    let numbered = |show: &dyn Fn(usize, &str) -> String| {
        lines.iter().enumerate().map(|(at, line)| show(at + 1, line)).collect::<Vec<_>>().join("\n")
    };
    type Show<'s> = &'s dyn Fn(usize, &str) -> String;
    let shown: [Show<'_>; 14] = [
        &|number, line| format!("{number:>6}→{line}"),
        &|number, line| format!("{number:>6}\t{line}"),
        &|number, line| format!("{number}:{line}"),
        &|number, line| format!("/home/me/.ssh/id_rsa:{number}:{line}"),
        &|number, line| format!("id_rsa-{number}-{line}"),
        &|number, line| format!("{number:>4} │ {line}"),
        &|_, line| format!("| {line}"),
        &|_, line| format!("# {line}"),
        &|_, line| format!(" * {line}"),
        &|_, line| format!("+{line}"),
        &|_, line| format!("{line}$"),
        &|_, line| format!("  \"{line}\","),
        &|_, line| format!("    \"{line}\\n\" +"),
        &|_, line| format!("    '{line}' \\"),
    ];
    for show in shown {
        let text = format!("Here it is.\n{}\nThat was the file.", numbered(show));
        // Alone, in a line of a transcript, and with its end or its begin cut off.
        let cut = text.find("a8Kd==").unwrap();
        let begin = text.find("MII").unwrap();
        for text in [text.clone(), text[..cut].to_owned(), text[begin..].to_owned()] {
            let clean = redact(&text);
            assert!(clean.contains("[redacted:private-key]") && !clean.contains(&ALNUM[..12]), "{text}\n{clean}");
            assert!(!text.contains("That was") || clean.contains("That was the file."), "{clean}");
            assert_eq!(redact(&clean), clean);
            let line = json!({ "type": "user", "content": [{ "text": text }] }).to_string();
            let (clean, found) = Redactor::standard().redact_line(line.as_bytes());
            let clean = String::from_utf8(clean.into_owned()).unwrap();
            assert!(!clean.contains(&ALNUM[..12]) && found.contains_key("private-key"), "{clean}");
            serde_json::from_str::<Value>(&clean).unwrap();
            // As a text that is JSON, and within another one.
            for text in [line.clone(), Value::from(line).to_string()] {
                let clean = redact(&text);
                assert!(!clean.contains(&ALNUM[..12]), "{clean}");
                serde_json::from_str::<Value>(&clean).unwrap();
            }
        }
    }
    let public = numbered(&|number, line| format!("{number:>6}→{}", line.replace("RSA PRIVATE", "PUBLIC")));
    assert_eq!(redact(&public), public);
    let prose = "if text.starts_with(\"-----BEGIN PRIVATE KEY-----\") {\n    parse(text)\n} // up to -----END PRIVATE KEY-----\n";
    assert_eq!(redact(prose), prose);
}

#[test]
fn passwords_in_statements_pairs_and_numbered_lines_are_found() {
    for line in [
        "CREATE ROLE bob LOGIN PASSWORD '«hunter2»';",
        "alter user bob with encrypted password '«hunter2»'",
        "CREATE USER 'bob'@'%' IDENTIFIED BY '«hunter2»'",
        "ALTER USER bob IDENTIFIED WITH caching_sha2_password BY '«hunter2»';",
        "psql -c \"CREATE ROLE bob LOGIN PASSWORD '«hunter2»'\"",
        "- name: DB_PASSWORD\n  value: «hunter2»\n- name: PORT\n  value: 8080",
        "- name: DB_PASSWORD\n  value: \"«hunter2»\"",
        "{\"name\": \"API_KEY\", \"value\": \"«abcdef012345»\"}",
        "{\"key\":\"Authorization\",\"value\":\"Bearer «abcdefghijkl»\"}",
        "<add key=\"Password\" value=\"«hunter2»\"/>",
        "{\"cmd\": \"- name: DB_PASSWORD\\n  value: «hunter2»\"}",
        "FROM scratch\nENV API_TOKEN «abcdefgh»\n",
        "     3→ENV DB_PASSWORD «hunter2»",
        "Pwd=«hunter2»;Uid=sa;Server=db",
        "mongosh mongodb.example.org -u me -p «hunter2» app",
        "keytool -list -storepass «hunter2» -keystore a.jks",
        "openssl enc -d -aes-256-cbc -k «hunter2» -in a",
        "openssl rsa -in a.pem -passin pass:«hunter2»",
        "curl -b 'session=«0a1b2c3d4e»' https://example.org",
        "a=1%26password%3D«hunter2»",
        "{&quot;password&quot;:&quot;«hunter2»&quot;}",
        "     2→db.example.org:5432:app:me:«hunter2»",
        "/root/.pgpass:2:db.example.org:6432:app:me:«hunter2»",
        "     1→machine api.example.com\n     2→  login me\n     3→  password «hunter2»",
    ] {
        let (before, rest) = line.split_once('«').unwrap();
        let (secret, after) = rest.split_once('»').unwrap();
        let redacted = redact(&format!("{before}{secret}{after}"));
        assert!(!redacted.contains(secret) && redacted.contains("[redacted:"), "{line}\nbecame\n{redacted}");
        let behind = after.split(['\n', ';', ',']).next_back().unwrap();
        assert!(redacted.ends_with(behind), "{line}\nbecame\n{redacted}");
        assert_eq!(redact(&redacted), redacted);
    }
    for text in [
        "CREATE ROLE bob LOGIN PASSWORD '…';",
        "CREATE ROLE bob LOGIN PASSWORD '<password>';",
        "CREATE TABLE user (password text DEFAULT 'x')",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db, key: password}",
        "- name: DB_PASSWORD\n  value: ${DB_PASSWORD}",
        "{\"name\": \"password\", \"type\": \"string\"}",
        "(\"token\", value)",
        "the env TOKEN is read",
        "src/main.rs:5432:12:error:mismatched",
        "openssl x509 -in cert.pem -text",
        "curl -b cookies.txt https://example.org",
        "password%20reset",
    ] {
        assert_eq!(redact(text), text);
    }
}

/// Each line: what is written, with the secret in « ».
#[test]
fn secrets_are_known_by_their_name_and_place() {
    let table = r#"
export FOO_TOKEN=«s3cr3tvalue»
export FOO_TOKEN="«s3cr3t value»"
FOO_TOKEN=«swordfish» make
DB_PASSWORD=«hunter2»
DB_PASSWORD='«hunter2»'
PGPASSWORD=«hun,ter(2» psql
set SECRET_KEY=«abcdef»
password = "«hunter2»"
password = '«hunter2»'
password: "«hunter2»"
password: «hunter2»
  password: «swordfish»
- db_password: «sword-fish» # the old one
{"password": "«hunter2»", "user": "anna"}
{"password":"«hun\"ter2»","user":"anna"}
{"api_key": "«0a1b2c3d4e5f»"}
{'apiKey': '«0a1b2c3d4e5f»'}
{"cmd": "echo {\"password\": \"«hunter2»\"} | nc"}
{"cmd": "export API_TOKEN=«abcdefgh»\nls"}
{"cmd": "password='«abcdef»"}
config["password"] = "«hunter2»"
const API_KEY: &str = "«abcdef012345»";
let apiKey: string = `«abcdef012345»`
accessToken := "«abcdef012345»"
Authorization: Basic «YW5uYWJlbGw6UzNjcjN0QjRzaWNQYXNzdzByZDE=»
curl -H 'Authorization: Basic «YW5uYWJlbGw6UzNjcjN0QjRzaWNQYXNzdzByZDE=»' host
Authorization: Token «abcDEF123456ghiJKL789=»
Authorization: AWS4-HMAC-SHA256 «Credential=abc/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024»
api_key: «abcDEF123456ghiJKL789=»
client_secret: «Zx8Cv7Bn6Mm5Lk4Jh3GfQw2Er4Ty6Ui8Op0As2Df4Gg=»
password: «c3VwZXJzZWNyZXQxMjM0NTY=»
let secret: String="«abcdef012345»";
:client_secret => "«abcdef012345»"
if password == "«hunter2»" {
<password>«hunter2»</password>
AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz»
aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz»
//registry.example.org/:_authToken=«0a1b2c3d-4e5f-6978»
//registry.example.org/:_auth=«YWxhZGRpbjpvcGVuc2VzYW1l»
mysql --password «hunter2» -e 'select 1'
mysql --password=«hunter2» -e 'select 1'
tool --token=«abcdefgh» --verbose
tool --api-key '«abcdefgh»'
https://example.org/path?token=«a1b2c3d4e5»&page=2
user=anna&password=«hunter2»&x=1
Server=db;User=sa;Password=«hunter2»;Timeout=3
postgres://anna:«hunter2»@db.example.org:5432/app
redis://:«hunter2»@127.0.0.1
https://anna:«p@ssw0rd»@example.org/
https://«»example.org:8080/a@b
curl -u anna:«hunter2» https://example.org
curl -s --user "anna:«hunter2»" https://example.org
curl -uanna:«hunter2» https://example.org
Authorization: Bearer «abcdefghijkl»
Authorization: Basic «YWxhZGRpbjpvcGVu»
-H "Authorization: token «abcdefghijkl»"
{"Authorization": "Bearer «abcdefghijkl»"}
'Authorization': 'Bearer «abcdefghijkl»',
X-Api-Key: «0a1b2c3d4e5f»
the header is Bearer «a8Kd03mXq9ZbL2wR7tYv», I think
"#;
    for line in table.lines().filter(|line| !line.is_empty()) {
        let (before, rest) = line.split_once('«').unwrap();
        let (secret, after) = rest.split_once('»').unwrap();
        let text = format!("{before}{secret}{after}");
        let redacted = redact(&text);
        if secret.is_empty() {
            assert_eq!(redacted, text);
            continue;
        }
        let middle = redacted.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        let is_marked = middle.is_some_and(|middle| middle.starts_with("[redacted:") && middle.ends_with(']'));
        assert!(is_marked, "{text}\nbecame\n{redacted}");
        assert_eq!(redact(&redacted), redacted, "twice is once");
    }
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let table = r#"
export FOO_TOKEN=$BAR
export FOO_TOKEN="${BAR}"
FOO_TOKEN=$(cat token.txt)
FOO_TOKEN=`pass show token`
password: ${{ secrets.DB_PASSWORD }}
password: <your password>
api_key: YOUR_API_KEY
api_key = "your-api-key-here"
API_KEY=xxxxxxxxxxxx
password = "changeme"
"password": null,
"password": true
password: ""
PASSWORD=
const token = process.env.TOKEN;
token = os.environ["TOKEN"]
token = os.getenv("TOKEN", "")
token = get_token()
let token = tokens[0];
let token = self.next_token;
const password = req.body.password
login(user=user, password=password)
login(user, password=db_password, token=token)
tokens = 4096
max_tokens: 4096
"max_tokens": 4096,
token: 4096
token: String,
pub password: Option<String>,
password: string;
secret: SecretString
fn redact(token: &str) -> String {
token::Kind::Password
if (token === null) {
password != other
"token": "comment.line"
"nextToken": "eyJhbGciOiJub25lIn0"
The token is in the file. The secret: practice.
password: "Enter your password"
"password": "The password must have 8 characters"
Password: 
git rev-parse --show-secret
docker login --password-stdin
docker build --secret id=npm,src=.npmrc .
gh auth login --with-token < token.txt
tool --token "$TOKEN" --password ${PASSWORD}
tool --token <TOKEN>
password_file: /run/secrets/db
secret: /run/secrets/db
PWD=/home/anna/project
https://example.org/a:b@c
https://anna:$PASSWORD@example.org
https://user:password@example.org
ssh://git@example.org:22/a.git
curl -u "$USER:$PASSWORD" https://example.org
curl -H "Authorization: Bearer $TOKEN" https://example.org
Authorization: Bearer <token>
headers["Authorization"] = header
bearer of good news, who came a long way
compass: north2
AKIAIOSFODNN7EXAMPLE
sk-learn and task-oriented
ghp_short
commit 5f0c1d2e9a8b7c6d5e4f30219a8b7c6d5e4f3021
"integrity": "sha512-a8Kd03mXq9ZbL2wR7tYva8Kd03mXq9ZbL2wR7tYv=="
[redacted:github-token]: hunter2000
"#;
    for line in table.lines().filter(|line| !line.is_empty()) {
        assert_eq!(redact(line), line);
    }
}

#[test]
fn keys_of_json_say_what_is_in_them() {
    let mut value = json!({
        "user": "anna", "password": "correct horse battery staple", "apiKey": "s3cr3t", "tokens": 5, "token": "identifier",
        "headers": {"Authorization": "Bearer abcdefgh", "Accept": "*/*"}, "secrets": ["a"], "passwords": ["hunter2"],
        "db": {"url": "postgres://anna:hunter2@db/app", "password": null}, "note": "API_TOKEN=abcdefgh", "access_token": "$TOKEN",
    });
    let found = Redactor::standard().redact_json(&mut value);
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap(), @r#"
    {
      "user": "anna",
      "password": "[redacted:named-secret]",
      "apiKey": "[redacted:named-secret]",
      "tokens": 5,
      "token": "identifier",
      "headers": {
        "Authorization": "Bearer [redacted:authorization]",
        "Accept": "*/*"
      },
      "secrets": [
        "a"
      ],
      "passwords": [
        "[redacted:named-secret]"
      ],
      "db": {
        "url": "postgres://anna:[redacted:url-password]@db/app",
        "password": null
      },
      "note": "API_TOKEN=[redacted:named-secret]",
      "access_token": "$TOKEN"
    }
    "#);
    insta::assert_snapshot!(format!("{found:?}"), @r#"{"authorization": 1, "named-secret": 4, "url-password": 1}"#);
    let once = value.clone();
    assert!(Redactor::standard().redact_json(&mut value).is_empty());
    assert_eq!(value, once);
}

#[test]
fn a_token_is_no_scheme_of_another() {
    for (rule, token) in tokens() {
        let header = json!({"Authorization": format!("{token} ;Uid=\"")});
        let mut value = header.clone();
        Redactor::standard().redact_json(&mut value);
        assert!(!value.to_string().contains(&token), "{rule}: {value}");
        let header = header.to_string();
        let (line, _) = Redactor::standard().redact_line(header.as_bytes());
        assert!(!String::from_utf8_lossy(&line).contains(&token), "{rule}");
    }
}

#[test]
fn a_random_word_is_no_scheme() {
    let token = "a8f5f167f44f4964e6c998dee827110c";
    for text in [format!("Authorization: {token} HTTP/1.1"), format!("Authorization: {token} x=1234")] {
        assert!(!redact(&text).contains(token), "{}", redact(&text));
    }
    let mut value = json!({"Authorization": format!("{token} x=1234")});
    Redactor::standard().redact_json(&mut value);
    assert!(!value.to_string().contains(token), "{value}");
    let both = ["glp", "at-a8Kd03mXq9ZbL2wR7tYv new-hunter2pass"].concat();
    let mut value = json!({"Authorization": both});
    Redactor::standard().redact_json(&mut value);
    assert_eq!(value, json!({"Authorization": "[redacted:authorization]"}));
}

#[test]
fn the_user_s_patterns_count_as_well() {
    let (extra, allow) = ([r"ACME-\d{4}".to_owned(), r"ticket (\w+)".to_owned()], ["^hunter2$".to_owned()]);
    let redactor = Redactor::new(&RedactionPatterns { extra: &extra, allow: &allow }).unwrap();
    let redacted = redactor.redact("ACME-1234, ticket abc, password=hunter2; password=hunter3; redacted");
    assert_eq!(
        redacted.text,
        "[redacted:pattern], ticket [redacted:pattern], password=hunter2; password=[redacted:named-secret]; redacted"
    );
    assert_eq!(redacted.found, [("named-secret", 1), ("pattern", 2)].into());
    let greedy = ["".to_owned(), "redacted|x*".to_owned()];
    let redactor = Redactor::new(&RedactionPatterns { extra: &greedy, allow: &[] }).unwrap();
    assert_eq!(redactor.redact("axxb").text, "a[redacted:pattern]b");
    let error = Redactor::new(&RedactionPatterns { extra: &["(".to_owned()], allow: &[] }).unwrap_err();
    assert!(error.to_string().starts_with("`(` is no regular expression"), "{error}");
}

/// Pieces of what people write, with and without secrets, in any order.
fn text() -> impl Strategy<Value = String> {
    let token = || prop::sample::select(tokens().into_iter().map(|(_, token)| token).collect::<Vec<_>>());
    let words: Vec<&'static str> = "password|PASSWORD|token|api_key|secret|Authorization|Bearer |Basic |curl -u |://|--token|[redacted:|redacted|hunter2|s3cr3t|null|\
        $X|${X}|=|:| = |: |\"|'|`|\\|\\\"|\\\\|\\n|\n| |,|;|{|}|[|]|(|)|<|>|@|&|/|-|_|.|#|ü|\u{202e}|-----BEGIN PRIVATE KEY-----|-----END PRIVATE KEY-----|export |SK|AKIA|eyJ|\
        \n     2→|- name: |value: |\"value\":|ENV |%3D|&quot;|CREATE ROLE a PASSWORD '|IDENTIFIED BY '|:5432:|app|Pwd=|;Uid=|machine a login b password |curl -b |openssl -k ".split('|').collect();
    let piece = prop_oneof![8 => prop::sample::select(words).prop_map(str::to_owned), 2 => token(), 1 => "[A-Za-z0-9+/=]{1,50}", 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let key = || {
        prop_oneof![
            prop::sample::select(vec!["password", "token", "Authorization", "a", "apiKey"]).prop_map(str::to_owned),
            text()
        ]
    };
    let leaf = prop_oneof![4 => text().prop_map(Value::String), 1 => any::<i64>().prop_map(Value::from), 1 => Just(Value::Null)];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        let fields =
            prop::collection::vec((key(), inner.clone()), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect()));
        prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::Array), fields]
    })
}

#[test]
fn a_key_that_ends_with_backslashes_is_no_name() {
    for key in [r"password\\", r"password\\\\"] {
        let text = format!("{{\"password\":[{{\"{key}\":1000}}]}}");
        assert!(serde_json::from_str::<Value>(&redact(&text)).is_ok(), "{}", redact(&text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ctxbridge_testkit::share_of(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn twice_is_once(text in text()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }

    #[test]
    fn a_token_never_survives(before in text(), (_, token) in prop::sample::select(tokens()), after in "[ \n,;)\"']?") {
        // A mark that is not closed takes what follows it for what was redacted.
        prop_assume!(!before.contains("[redacted:"));
        let redacted = redact(&format!("{before} {token}{after}"));
        prop_assert!(!redacted.ends_with(&format!("{token}{after}")), "{}", redacted);
    }

    #[test]
    fn json_stays_json(value in value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let redacted = redact(&text);
        prop_assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{}\n{}", text, redacted);
    }

    #[test]
    fn redacting_json_twice_is_once(value in value()) {
        let mut once = value;
        Redactor::standard().redact_json(&mut once);
        let mut twice = once.clone();
        Redactor::standard().redact_json(&mut twice);
        prop_assert_eq!(twice, once);
    }
}

/// Somebody else may have written it, and wait for it to take as long as the square of its length: days, here.
#[test]
fn a_long_text_of_begins_is_read_once() {
    for begin in ["sk-ant-ab-", "ghp_", "eyJaaaaaaaa.", "AIza", "xoxb-", "pypi-Ag", "hvs.", "glpat-", "pscale_tkn_", "sig="] {
        let text = format!("look: x{}", format!("{begin}x").repeat((4 << 20) / begin.len()));
        let redacted = Redactor::standard().redact(&text);
        assert!(redacted.text.starts_with("look: "), "{begin}");
    }
}
