//! A client for the tests: a module of our own with compaction sites in the shape of era E1b (docs/releases.md), and as much
//! filler around them as a test wants, so that it takes a while to read, parse and write.

use std::fmt::Write as _;

/// A version of that era that was never published, so that no hash of it is known.
pub const VERSION: &str = "2.0.99";

/// A `cli.js` to be made.
#[derive(Clone, Debug)]
pub struct Bundle {
    version: String,
    filler_bytes: usize,
    start: String,
}

impl Bundle {
    /// A small one that works.
    pub fn new() -> Self {
        Self { version: VERSION.to_owned(), filler_bytes: 20_000, start: String::new() }
    }

    /// Says that it is another version.
    pub fn version(self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self }
    }

    /// Of about this size.
    pub fn bytes(self, filler_bytes: usize) -> Self {
        Self { filler_bytes, ..self }
    }

    /// Runs `code` when it starts, whatever it was started for. `fs` is the module `node:fs`, `self` its own source.
    pub fn start(self, code: &str) -> Self {
        Self { start: code.to_owned(), ..self }
    }

    /// The text of the `cli.js`.
    pub fn text(&self) -> String {
        let Self { version, filler_bytes, start } = self;
        let (front, back) = (filler(1, filler_bytes / 2), filler(2, filler_bytes / 2));
        format!(
            r#"#!/usr/bin/env node
// A stand-in for a client, made for tests.

// Version: {version}
import*as fs from"node:fs";
{front}var Ka=1,Kb=20000,Kc=40000,Kd=3,Ke="übrig";
function Fm(A){{return A.filter((B)=>!B.hidden)}}
function Tl(A,B){{Ke=A+B.length}}
async function Mc(A,B,C){{if(process.env.DISABLE_MICROCOMPACT)return{{messages:A}};let D=A.slice(-Kd);if(D.length*Ka>Kb+Kc)return{{messages:D,boundary:C}};return{{messages:A}}}}
async function Ac(A,B,C){{if(process.env.DISABLE_COMPACT||A.length<1e6)return{{wasCompacted:!1}};let D={{kept:A.slice(-9),source:B??C}};return{{wasCompacted:!0,compactionResult:D}}}}
async function*Ql({{messages:A,source:B}}){{yield{{type:"stream_request_start"}};let C=1,J=Fm(A),X=await Mc(J,void 0,B);if(J=X.messages,X.boundary)yield X.boundary;let{{compactionResult:K}}=await Ac(J,B,C);if(K)Tl("tengu_auto_compact_succeeded",K.kept);yield*J}}
{back}async function Main(A){{let self=fs.readFileSync(process.argv[1],"utf8");{start}
if(A.includes("--version"))return"{version} (Claude Code)";
let B=[];for await(let C of Ql({{messages:[{{type:"user",message:{{role:"user",content:"hello"}}}}],source:"test"}}))B.push(C.type);
if(A.includes("--wait")){{console.log("ready");for await(let C of process.stdin);}}
return B.join(" ")}}
Main(process.argv.slice(2)).then((A)=>console.log(A));
"#
        )
    }

    /// Its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

/// Functions that do nothing worth mentioning, with strings beyond ASCII, until there are `bytes` of them. `series` keeps the
/// names of two fillers apart.
fn filler(series: u32, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 256);
    let mut number = 0_u32;
    while text.len() < bytes {
        writeln!(
            text,
            "function f{series}_{number}(A,B,C){{let D=A?B:C,E=[D,{number},\"weiß – {number} 🧵\"];for(let G of E)if(G!==void 0&&G!=={number})D=`${{D}}:${{G}}`;return{{value:D,next:()=>f{series}_{}(B,C,E)}}}}",
            number.saturating_sub(1)
        )
        .unwrap();
        number += 1;
    }
    text
}
