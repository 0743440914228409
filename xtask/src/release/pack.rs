//! Archives of a release: a folder with the binary, the license and the readme. The same files make the same bytes.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use zip::write::SimpleFileOptions;

use super::targets::ReleaseTarget;
use crate::tools::root;

/// Time of all files in an archive: 2000-01-01. When something was built would make two archives of one binary differ.
const MODIFIED_SECONDS: u64 = 946_684_800;
const MODIFIED_YEAR: u16 = 2000;

/// A file of an archive.
struct Member {
    name: String,
    mode: u32,
    content: Vec<u8>,
}

/// Packs a binary into `out`, and returns the path of the archive.
pub fn pack(target: &ReleaseTarget, binary: &Path, out: &Path) -> Result<PathBuf> {
    let members = members(target, binary)?;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join(target.archive());
    let file = BufWriter::new(File::create(&path).with_context(|| format!("cannot write {}", path.display()))?);
    let written = if target.is_windows() { write_zip(file, &members) } else { write_tar(file, &members) };
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn members(target: &ReleaseTarget, binary: &Path) -> Result<Vec<Member>> {
    let sources = [
        (target.binary(), 0o755, binary.to_owned()),
        ("LICENSE", 0o644, root().join("LICENSE")),
        ("README.md", 0o644, root().join("README.md")),
    ];
    let read = |(name, mode, path): (&str, u32, PathBuf)| {
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Member { name: format!("{}/{name}", target.stem()), mode, content })
    };
    let mut members = sources.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    members.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(members)
}

fn write_tar(file: BufWriter<File>, members: &[Member]) -> Result<()> {
    // Nothing of this machine is in the head: no time, no name, no system.
    let gzip: GzEncoder<_> = GzBuilder::new().mtime(0).write(file, Compression::best());
    let mut tar = tar::Builder::new(gzip);
    for Member { name, mode, content } in members {
        let mut header = tar::Header::new_ustar();
        header.set_mode(*mode);
        header.set_size(content.len() as u64);
        header.set_mtime(MODIFIED_SECONDS);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, name, content.as_slice())?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(())
}

fn write_zip(file: BufWriter<File>, members: &[Member]) -> Result<()> {
    let mut zip = zip::ZipWriter::new(file);
    for Member { name, mode, content } in members {
        let time = zip::DateTime::from_date_and_time(MODIFIED_YEAR, 1, 1, 0, 0, 0)?;
        let options = SimpleFileOptions::default().last_modified_time(time).unix_permissions(*mode).compression_level(Some(9));
        zip.start_file(name, options)?;
        zip.write_all(content)?;
    }
    zip.finish()?.flush()?;
    Ok(())
}

/// Reads the binary out of an archive.
pub fn read_binary(target: &ReleaseTarget, archive: &[u8]) -> Result<Vec<u8>> {
    let wanted = format!("{}/{}", target.stem(), target.binary());
    let mut content = Vec::new();
    if target.is_windows() {
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(archive))?;
        zip.by_name(&wanted).with_context(|| format!("no {wanted}"))?.read_to_end(&mut content)?;
        return Ok(content);
    }
    let mut tar = tar::Archive::new(GzDecoder::new(archive));
    for entry in tar.entries()? {
        let mut entry = entry?;
        if entry.path()?.to_str() == Some(&wanted) {
            entry.read_to_end(&mut content)?;
            return Ok(content);
        }
    }
    anyhow::bail!("no {wanted}")
}
