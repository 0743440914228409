//! Writes the file: the vectors as they come, then everything that is found by reading them again from the file. In memory are 24
//! bytes a vector, and the sample that centers are made from.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::bit_codes::{LANES, encode};
use super::centroids::{Centroids, SAMPLES_PER_LIST};
use super::file::{AnnLayout, DIRECTORY_LINE_BYTES, DirectoryPage, HEADER, IvfList, PAGE_LINES, Tables, header, read_exact_at};
use super::{AnnIdentity, Quantized, VectorRow};
use ctxbridge_common::files;

/// Number of vectors that are read at once.
const READ_BATCH_ROWS: usize = 1024;

/// Errors from writing the file.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    /// The vectors cannot be read.
    #[error(transparent)]
    Rows(E),
    /// Another process is making the same file.
    #[error("another process is writing {0}")]
    Busy(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
}

/// Writes a file of all these vectors and replaces the old file. Processes that have the old file open go on reading it. The file
/// is not synced: a loss of power may damage it, which is detected, and it is made again. Returns the number of vectors.
///
/// # Errors
/// If the vectors cannot be read or the file cannot be written. The old file is then still there.
pub(super) fn write<E>(
    path: &Path,
    identity: &AnnIdentity,
    rows: impl Iterator<Item = Result<VectorRow, E>>,
) -> Result<usize, WriteError<E>> {
    let failed = |cause| WriteError::File { path: path.to_owned(), cause };
    // One name for all, so that what a killed process left is overwritten, and a lock, so that it is not that of a living one.
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let lock = files::open_lock(beside(".lock")).map_err(failed)?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(WriteError::Busy(path.to_owned())),
        Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        Ok(()) => {}
    }
    let new = beside(".new");
    let file = files::private().create(true).truncate(true).open(&new).map_err(failed)?;
    let reader = File::open(&new).map_err(failed)?;
    let written = AnnFileWriter::fill(file, reader, identity, rows, failed).and_then(|count| {
        files::patiently(|| fs::rename(&new, path)).map_err(failed)?;
        Ok(count)
    });
    if written.is_err() {
        fs::remove_file(&new).ok();
    }
    written
}

struct AnnFileWriter {
    file: BufWriter<File>,
    /// The same file once more: on Windows, who reads at a position moves that of the next write.
    reader: File,
    layout: AnnLayout,
    /// Entries and their rows.
    directory: Vec<(i64, u32)>,
}

impl AnnFileWriter {
    fn fill<E>(
        file: File,
        reader: File,
        identity: &AnnIdentity,
        rows: impl Iterator<Item = Result<VectorRow, E>>,
        failed: impl Fn(io::Error) -> WriteError<E>,
    ) -> Result<usize, WriteError<E>> {
        let layout = AnnLayout { dimensions: identity.dimensions, rows: 0, lists: 0, blocks: 0, last: i64::MIN };
        let mut writer = Self { file: BufWriter::with_capacity(1 << 18, file), reader, layout, directory: Vec::new() };
        writer.file.write_all(&[0; HEADER]).map_err(&failed)?;
        let mut bytes = Vec::new();
        for row in rows {
            let row = row.map_err(WriteError::Rows)?;
            writer.push(&row, &mut bytes).map_err(&failed)?;
        }
        writer.finish(identity).map_err(&failed)
    }

    fn push(&mut self, row: &VectorRow, bytes: &mut Vec<u8>) -> io::Result<()> {
        let number = u32::try_from(self.layout.rows).map_err(io::Error::other)?;
        if row.vector.values.len() != self.layout.dimensions || !row.vector.scale.is_finite() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a vector is of another model"));
        }
        bytes.clear();
        row.write(self.layout.rows, bytes);
        self.file.write_all(bytes)?;
        self.directory.push((row.entry, number));
        self.layout.rows += 1;
        self.layout.last = self.layout.last.max(row.id);
        Ok(())
    }

    fn finish(mut self, identity: &AnnIdentity) -> io::Result<usize> {
        self.file.flush()?;
        let centers = self.centers()?;
        let lists = self.lists(&centers)?;
        let pages = self.pages()?;
        let tables = Tables { centers, lists, pages }.to_bytes();
        self.file.write_all(&tables)?;
        let header = header(&self.layout, identity, &tables)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a model of this name does not fit"))?;
        self.file.flush()?;
        io::Seek::rewind(&mut self.file)?;
        self.file.write_all(&header)?;
        self.file.flush()?;
        Ok(self.layout.rows)
    }

    fn centers(&mut self) -> io::Result<Centroids> {
        let lists = lists_for(self.layout.rows);
        let size = (lists * SAMPLES_PER_LIST).min(self.layout.rows);
        let mut sample = Vec::with_capacity(size);
        for number in 0..size {
            sample.push(self.read(number * self.layout.rows / size, 1)?.swap_remove(0).vector);
        }
        let centers = Centroids::train(&sample, self.layout.dimensions, lists);
        self.layout.lists = centers.len();
        Ok(centers)
    }

    /// Writes the codes of all vectors, list by list.
    fn lists(&mut self, centers: &Centroids) -> io::Result<Vec<IvfList>> {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); centers.len()];
        let mut products = Vec::new();
        for begin in (0..self.layout.rows).step_by(READ_BATCH_ROWS) {
            for (at, row) in self.read(begin, READ_BATCH_ROWS.min(self.layout.rows - begin))?.iter().enumerate() {
                members[centers.nearest(&row.vector, &mut products).0].push((begin + at) as u32);
            }
        }
        let mut lists = Vec::with_capacity(members.len());
        let mut first = 0_u32;
        for (number, members) in members.iter().enumerate() {
            let mut hasher = crc32fast::Hasher::new();
            for members in members.chunks(LANES) {
                let block = self.block(members, centers.get(number))?;
                hasher.update(&block);
                self.file.write_all(&block)?;
            }
            let blocks = members.len().div_ceil(LANES) as u32;
            lists.push(IvfList { first, blocks, crc: hasher.finalize() });
            first += blocks;
        }
        self.layout.blocks = first as usize;
        Ok(lists)
    }

    fn block(&self, members: &[u32], (scale, center): (f32, &[i8])) -> io::Result<Vec<u8>> {
        let mut block = vec![0; self.layout.block_bytes()];
        let (codes, rest) = block.split_at_mut(self.layout.block_bytes() - LANES * 16);
        let (factors, rest) = rest.split_at_mut(LANES * 4);
        let (rows, entries) = rest.split_at_mut(LANES * 4);
        // Lanes that nothing is in have a row that no vector has.
        rows.fill(0xff);
        let mut residual = vec![0.0; self.layout.dimensions];
        for (lane, member) in members.iter().enumerate() {
            let row = self.read(*member as usize, 1)?.swap_remove(0);
            let Quantized { values, scale: own } = &row.vector;
            for ((residual, value), middle) in residual.iter_mut().zip(values).zip(center) {
                *residual = f32::from(*value) * own - f32::from(*middle) * scale;
            }
            let factor = encode(&residual, codes, lane);
            factors[lane * 4..][..4].copy_from_slice(&factor.to_le_bytes());
            rows[lane * 4..][..4].copy_from_slice(&member.to_le_bytes());
            entries[lane * 8..][..8].copy_from_slice(&row.entry.to_le_bytes());
        }
        Ok(block)
    }

    fn pages(&mut self) -> io::Result<Vec<DirectoryPage>> {
        let mut directory = std::mem::take(&mut self.directory);
        directory.sort_unstable();
        let mut pages = Vec::with_capacity(directory.len().div_ceil(PAGE_LINES));
        for lines in directory.chunks(PAGE_LINES) {
            let mut bytes = Vec::with_capacity(PAGE_LINES * DIRECTORY_LINE_BYTES);
            for (entry, row) in lines {
                bytes.extend(entry.to_le_bytes());
                bytes.extend(row.to_le_bytes());
            }
            self.file.write_all(&bytes)?;
            pages.push(DirectoryPage { entry: lines[0].0, crc: crc32fast::hash(&bytes) });
        }
        Ok(pages)
    }

    /// Reads back some vectors in sequence.
    fn read(&self, begin: usize, count: usize) -> io::Result<Vec<VectorRow>> {
        let size = self.layout.row_bytes();
        let mut bytes = vec![0; count * size];
        read_exact_at(&self.reader, &mut bytes, self.layout.row_at(begin))?;
        let parsed = bytes.chunks_exact(size).enumerate().map(|(at, bytes)| VectorRow::parse(begin + at, bytes));
        parsed.collect::<Option<Vec<VectorRow>>>().ok_or_else(|| io::Error::other("what was written is not what is read"))
    }
}

/// Number of lists for a number of vectors. With more lists, making the file takes longer and the last blocks of lists are emptier.
/// With fewer, a search reads more vectors that are not near.
pub(super) fn lists_for(rows: usize) -> usize {
    ((rows as f64).sqrt() * 2.0).ceil() as usize
}
