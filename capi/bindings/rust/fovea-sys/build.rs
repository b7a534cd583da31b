// Finds the library, or builds it: see src/lib.rs. Calls programs rather than crates, so that nothing has to be fetched.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for variable in ["FOVEA_LIB_DIR", "FOVEA_STATIC", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return; // documentation needs no library
    }
    let wants_static = env::var("FOVEA_STATIC").map_or(false, |value| value == "1");
    if let Some(folder) = env::var_os("FOVEA_LIB_DIR") {
        link_folder(Path::new(&folder), wants_static);
    } else if let Err(without_package) = link_package(wants_static) {
        match build() {
            Ok(folder) => link_folder(&folder, true),
            Err(without_sources) => panic!(
                "fovea is not installed ({without_package}) and could not be built ({without_sources}).\n\
                 Install it, or set FOVEA_LIB_DIR to the folder that holds libfovea.so or libfovea.a."
            ),
        }
    }
}

fn link_folder(folder: &Path, wants_static: bool) {
    let folder = folder.canonicalize().unwrap_or_else(|error| panic!("FOVEA_LIB_DIR is {folder:?}: {error}"));
    let shared = ["libfovea.so", "libfovea.dylib"].iter().any(|name| folder.join(name).exists());
    if !shared && !folder.join("libfovea.a").exists() {
        panic!("{folder:?} holds neither libfovea.so nor libfovea.a");
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:libdir={}", folder.display());
    if shared && !wants_static {
        println!("cargo:rustc-link-lib=dylib=fovea");
        return;
    }
    println!("cargo:rustc-link-lib=static=fovea");
    if uses_tbb(&folder.join("libfovea.a")) {
        println!("cargo:rustc-link-lib=dylib=tbb");
    }
    for library in ["stdc++", "m"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

/// Built with -Dthreads=caller it does without oneTBB, whose names all begin like this.
fn uses_tbb(archive: &Path) -> bool {
    let name = b"_ZN3tbb";
    std::fs::read(archive).map_or(true, |bytes| bytes.windows(name.len()).any(|window| window == name))
}

fn link_package(wants_static: bool) -> Result<(), String> {
    let package = if wants_static { "fovea-static" } else { "fovea" };
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output =
        Command::new(&program).args(["--libs", package]).output().map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "));
    }
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(name) = word.strip_prefix("-l:lib").and_then(|name| name.strip_suffix(".a")) {
            println!("cargo:rustc-link-lib=static={name}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={name}");
        }
    }
    Ok(())
}

/// Builds the repository that this crate lies in, below Cargo's folder for build output.
fn build() -> Result<PathBuf, String> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../../..");
    if !root.join("include/fovea/fovea.h").exists() {
        return Err("its sources are not here".into());
    }
    for part in ["src", "capi", "include", "meson.build"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    let folder = PathBuf::from(env::var("OUT_DIR").unwrap()).join("fovea");
    if !folder.join("build.ninja").exists() {
        run(Command::new("meson").arg("setup").arg(&folder).arg(&root).arg("--buildtype=release"))?;
    }
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "1".into());
    run(Command::new("ninja").arg("-C").arg(&folder).args(["-j", &jobs, "library"]))?;
    Ok(folder.join("capi"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().rev().find(|line| line.contains("ERROR") || line.contains("error")).unwrap_or("");
    Err(format!("{:?} failed: {last}", command.get_program()))
}
