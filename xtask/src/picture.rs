//! `cargo xtask picture`: the picture in README.md, from a real run.

use anyhow::{Result, ensure};

use crate::tools::{cargo, require_node, root};

pub fn run() -> Result<bool> {
    require_node()?;
    let mut demo = cargo();
    demo.args(["run", "--quiet", "--", "demo", "--color", "always"]).env("COLUMNS", "88");
    let output = demo.output()?;
    ensure!(output.status.success(), "the demo failed: {}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout)?;
    // Where the scratch folder happened to be is of no interest.
    let shown = shown.replace(&*std::env::temp_dir().to_string_lossy(), "/tmp");
    let prompt = "\u{1b}[1m$\u{1b}[0m ctxbridge demo\n";
    let picture = anstyle_svg::Term::new().min_width_px(860).render_svg(&format!("{prompt}{shown}"));
    let path = root().join("docs").join("demo.svg");
    std::fs::write(&path, picture)?;
    println!("wrote {}", path.display());
    Ok(true)
}
