//! The compiler, its library for each target, and the C compilers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::CrossTarget;
use crate::steps::Steps;
use crate::tools::{forget_package, root, runs, target};

/// The version of Debian's compiler, and its packages. A newer one may warn of more, so it is not taken by itself.
const RUST: &str = "1.96";
const PACKAGES: [&str; 5] = ["rustc-web", "libstd-rust-web-1.96", "libstd-rust-web-dev", "rust-web-src", "libllvm22"];
/// The C compiler and linker for all but Windows, and what calls it for cargo.
const ZIG: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];
/// The C compiler and linker for Windows.
pub const MINGW: &str = "x86_64-w64-mingw32-gcc";

/// Objects of musl that the compiler links from a folder of its own.
const MUSL_OBJECTS: [&str; 9] =
    ["crt1.o", "rcrt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o"];

/// Everything that `target/tools/cross` holds.
pub struct Toolchain {
    folder: PathBuf,
    /// The real cargo: rustup's stand-in would pick a compiler of its own.
    cargo: PathBuf,
}

impl Toolchain {
    /// Brings what is missing.
    pub fn prepare(steps: &mut Steps) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").map(PathBuf::from).filter(|cargo| cargo.is_absolute());
        let cargo = cargo.context("run it as `cargo xtask cross`, which says where cargo is")?;
        let toolchain = Self { folder: target().join("tools").join("cross"), cargo };
        toolchain.unpack_compiler(steps)?;
        toolchain.install_zig(steps)?;
        Ok(toolchain)
    }

    fn sysroot(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn library(&self, triple: &str) -> PathBuf {
        self.sysroot().join("usr/lib/rustlib").join(triple).join("lib")
    }

    /// Unpacks Debian's compiler beside everything else: nothing is installed, and it does not meet the one of rustup.
    fn unpack_compiler(&self, steps: &mut Steps) -> Result<()> {
        let rustc = self.folder.join("bin/rustc");
        if runs(Command::new(&rustc).arg("--version")) {
            return Ok(());
        }
        ensure!(
            runs(Command::new("apt-get").arg("--version")),
            "there is no `apt-get`, which brings the compiler; run this on Debian"
        );
        let packages = self.folder.join("deb");
        fs::create_dir_all(&packages)?;
        let mut download = Command::new("apt-get");
        download.args(["download", "--quiet"]).args(PACKAGES).current_dir(&packages);
        let hint =
            format!("Is this Debian 12 or newer with its security archive, and was `apt-get update` run? Rust {RUST} is wanted");
        steps.run(&format!("fetching Rust {RUST} with its source, once"), &mut download, &hint)?;
        for package in fs::read_dir(&packages)? {
            let package = package?.path();
            let mut unpack = Command::new("dpkg");
            unpack.arg("-x").arg(&package).arg(self.sysroot());
            steps.run(&format!("unpacking {}", file_name(&package)), &mut unpack, "Is the disk full?")?;
        }
        fs::remove_dir_all(&packages)?;
        fs::create_dir_all(self.folder.join("bin"))?;
        for program in ["rustc", "rustdoc"] {
            let libraries = ["usr/lib/x86_64-linux-gnu", "usr/lib/llvm-22/lib"].map(|folder| self.sysroot().join(folder));
            let [one, other] = libraries.map(|folder| folder.display().to_string());
            let real = self.sysroot().join("usr/bin").join(program);
            let script = format!("#!/bin/sh\nLD_LIBRARY_PATH='{one}:{other}' exec '{}' \"$@\"\n", real.display());
            let path = self.folder.join("bin").join(program);
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn install_zig(&self, steps: &mut Steps) -> Result<()> {
        let environment = self.folder.join("python");
        if environment.join("bin/cargo-zigbuild").is_file() {
            return Ok(());
        }
        let hint = "Is there Python 3 with venv and pip, and can it reach its index?";
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment);
        steps.run("making an environment of Python, once", &mut make, hint)?;
        let mut install = Command::new(environment.join("bin/pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check"]).args(ZIG);
        steps.run("installing zig, once", &mut install, hint)
    }

    /// Makes the standard library of a target, from its source, and lays it beside those that are there. Then cargo needs to be told of
    /// nothing but the target.
    pub fn make_std(&self, target: CrossTarget, steps: &mut Steps) -> Result<()> {
        let triple = target.triple;
        let library = self.library(triple);
        if library.is_dir() {
            return Ok(());
        }
        // Any crate serves that has a library.
        let empty = self.folder.join("empty");
        fs::create_dir_all(empty.join("src"))?;
        fs::write(empty.join("src/lib.rs"), "")?;
        fs::write(empty.join("Cargo.toml"), "[package]\nname = \"empty\"\nedition = \"2024\"\n[workspace]\n")?;
        let mut build = self.rust(Command::new(&self.cargo));
        build.current_dir(&empty).args(["build", "--quiet", "--release", "--lib", "--target", triple]);
        build.arg("-Zbuild-std=std,panic_abort,panic_unwind,test").env("CARGO_TARGET_DIR", empty.join("target"));
        // Only here: elsewhere it would change what build scripts find out about the compiler.
        build.env("RUSTC_BOOTSTRAP", "1");
        steps.run(&format!("making the standard library for {triple}, once"), &mut build, "Is crates.io reachable?")?;
        let new = library.with_extension("new");
        fs::create_dir_all(&new)?;
        let made = empty.join("target").join(triple).join("release/deps");
        for file in fs::read_dir(&made).with_context(|| format!("cannot read {}", made.display()))? {
            let file = file?.path();
            let is_library = file.extension().is_some_and(|extension| extension == "rlib" || extension == "rmeta");
            if is_library && !file_name(&file).starts_with("libempty-") {
                fs::copy(&file, new.join(file_name(&file)))?;
            }
        }
        if !target.by_zig {
            self.make_start_files(triple, &new)?;
        } else if triple.ends_with("musl") {
            // zig has all of them itself, and leaves out those that the compiler names with this folder.
            let folder = new.join("self-contained");
            fs::create_dir_all(&folder)?;
            MUSL_OBJECTS.iter().try_for_each(|name| fs::write(folder.join(name), ""))?;
        }
        fs::rename(&new, &library)?;
        Ok(fs::remove_dir_all(empty.join("target"))?)
    }

    /// The files that programs of Windows begin and end with, which mingw links and cargo does not make.
    fn make_start_files(&self, triple: &str, library: &Path) -> Result<()> {
        let source = self.sysroot().join(format!("usr/src/rustc-{RUST}.0/library/rtstartup"));
        for name in ["rsbegin", "rsend"] {
            let mut make = Command::new(self.folder.join("bin/rustc"));
            make.args(["--target", triple, "--emit=obj", "-o"]).arg(library.join(format!("{name}.o")));
            let made = make.arg(source.join(format!("{name}.rs"))).env("RUSTC_BOOTSTRAP", "1").status()?;
            ensure!(made.success(), "{name}.o cannot be made");
        }
        Ok(())
    }

    /// A command of cargo for a target, in a build folder of its own.
    pub fn cargo(&self, target: CrossTarget, verb: &str) -> Command {
        let mut command = match target.by_zig {
            true => Command::new(self.folder.join("python/bin/cargo-zigbuild")),
            false => Command::new(&self.cargo),
        };
        let verb = if target.by_zig && verb == "build" { "zigbuild" } else { verb };
        command.args([verb, "--target", target.triple]).current_dir(root());
        self.rust(command)
    }

    /// A program that was built for a target.
    pub fn built(&self, target: CrossTarget, name: &str) -> PathBuf {
        let extension = if target.triple.contains("windows") { ".exe" } else { "" };
        crate::tools::target().join("cross").join(target.triple).join("debug").join(format!("{name}{extension}"))
    }

    /// A folder for what running a target's programs needs.
    pub fn folder_for(&self, target: CrossTarget) -> Result<PathBuf> {
        let folder = self.folder.join("run").join(target.triple);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// `true` if C for Windows can be compiled.
    pub fn require_mingw() -> Result<()> {
        if !runs(Command::new(MINGW).arg("--version")) {
            bail!(
                "there is no `{MINGW}` on the PATH; `apt-get install --no-install-recommends gcc-mingw-w64-x86-64-posix` brings it"
            );
        }
        Ok(())
    }

    fn rust(&self, mut command: Command) -> Command {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let own = [self.folder.join("python/bin")];
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&paths))).unwrap_or(paths);
        command.env("RUSTC", self.folder.join("bin/rustc")).env("RUSTDOC", self.folder.join("bin/rustdoc")).env("PATH", path);
        command.env("CARGO", &self.cargo).env("CARGO_TARGET_DIR", target().join("cross")).env_remove("RUSTC_WRAPPER");
        // What the cargo that runs us has set for its own compiler.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO_ENCODED_RUSTFLAGS");
        forget_package(&mut command);
        command
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
