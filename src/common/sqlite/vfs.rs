/*!
Checksums of pages below SQLite: computed as a page is written to a database file, verified as it is read.

SQLite has a place for this, its VFS, but rusqlite has no safe way there. So this is the one file with calls to SQLite itself. It
changes as little as can be: a file is opened by the system's own VFS and stays its file; only its functions to read and to write
are replaced by two that also look at whole pages. SQLite's own checksum VFS works in the same place
(<https://sqlite.org/cksumvfs.html>).

Pages in the log (`-wal`) have no checksum here: the log has its own for each of them. A page gets its checksum when it is
checkpointed into the database file. A program without this VFS that does so leaves pages whose checksum does not fit; whoever
mends the archive tells them from damaged ones.
*/
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::{Connection, ffi};

use super::page_sum::{self, PAGE_BYTES, SUM_BYTES};

/// Name of the VFS.
const NAME: &CStr = c"ctxbridge";

/// Bytes of a database's header, which SQLite reads first and alone.
const HEADER_BYTES: c_int = 100;

/// The start of every database file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The system's own VFS, and ours, which is a copy of it but for a few fields. Both stay for as long as the process.
struct Registered {
    original: *mut ffi::sqlite3_vfs,
    /// Offset of [`FileState`] in a file: behind what the system's VFS keeps there.
    state_at: usize,
}

// SAFETY: both fields are written once, before anybody can read them; SQLite calls the VFS from any thread.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

static REGISTERED: OnceLock<Option<Registered>> = OnceLock::new();

/// Data of an open database file.
struct FileState {
    original: *const ffi::sqlite3_io_methods,
    methods: ffi::sqlite3_io_methods,
    has_sums: bool,
}

/// Registers the VFS, and returns its name; `None` if SQLite has no VFS that it could stand on.
pub(super) fn register() -> Option<&'static CStr> {
    REGISTERED.get_or_init(register_once).as_ref().map(|_| NAME)
}

/// Name of the system's own VFS.
pub(super) fn system_name() -> &'static CStr {
    match REGISTERED.get_or_init(register_once) {
        // SAFETY: a registered VFS and its name stay for as long as the process.
        Some(registered) => unsafe { CStr::from_ptr((*registered.original).zName) },
        // There is none, and to open it says so.
        None => NAME,
    }
}

/// Makes the VFS the default one of this process, for programs that open our databases with SQLite alone: they too have to leave
/// checksums that fit.
pub fn register_as_default() {
    if register().is_some() {
        // SAFETY: the name ends with a zero byte; a VFS that is registered may be registered again.
        unsafe { ffi::sqlite3_vfs_register(ffi::sqlite3_vfs_find(NAME.as_ptr()), 1) };
    }
}

fn register_once() -> Option<Registered> {
    // SAFETY: SQLite may be initialized again and again; the default VFS that it returns stays valid, and is copied only once.
    unsafe {
        if ffi::sqlite3_initialize() != ffi::SQLITE_OK {
            return None;
        }
        let original = ffi::sqlite3_vfs_find(ptr::null());
        if original.is_null() {
            return None;
        }
        let aligned = usize::try_from((*original).szOsFile).ok()?.next_multiple_of(align_of::<FileState>());
        let registered = Registered { original, state_at: aligned };
        let ours = ffi::sqlite3_vfs {
            szOsFile: c_int::try_from(aligned + size_of::<FileState>()).ok()?,
            pNext: ptr::null_mut(),
            zName: NAME.as_ptr(),
            xOpen: Some(open),
            ..*original
        };
        // SQLite keeps the pointer for as long as the process lives.
        let ours = Box::leak(Box::new(ours));
        (ffi::sqlite3_vfs_register(ours, 0) == ffi::SQLITE_OK).then_some(registered)
    }
}

/// Asks SQLite to leave room for the checksum at the end of each page: in a new database from its first page on, in another one
/// from the next `VACUUM` on.
pub(super) fn reserve_sums(db: &Connection) -> rusqlite::Result<()> {
    let mut reserved = SUM_BYTES as c_int;
    // SAFETY: the connection is open while it is borrowed, and this operation reads and writes one int.
    let code = unsafe {
        ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_RESERVE_BYTES,
            (&raw mut reserved).cast::<c_void>(),
        )
    };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)) }
}

/// Opens a file with the system's VFS, and puts our functions before its own if it is a database.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(Some(registered)) = REGISTERED.get() else { return ffi::SQLITE_CANTOPEN };
    // SAFETY: SQLite hands over a buffer of `szOsFile` bytes: the system's part comes first, and then ours, aligned. The system's
    // functions get the same pointer that they would get without us.
    unsafe {
        let Some(original_open) = (*registered.original).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = original_open(registered.original, name, file, flags, out_flags);
        let original = (*file).pMethods;
        if code != ffi::SQLITE_OK || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 || original.is_null() {
            return code;
        }
        let mut methods = *original;
        methods.xRead = Some(read);
        methods.xWrite = Some(write);
        methods.xDeviceCharacteristics = Some(device_characteristics);
        // Without memory maps, which would not come by here.
        methods.iVersion = methods.iVersion.min(2);
        let state = state_of(registered, file);
        state.write(FileState { original, methods, has_sums: false });
        (*file).pMethods = &raw const (*state).methods;
        code
    }
}

/// SAFETY: `file` was opened by [`open`] as a database.
unsafe fn state_of(registered: &Registered, file: *mut ffi::sqlite3_file) -> *mut FileState {
    // SAFETY: the caller's; the buffer of the file has room for the state, aligned.
    unsafe { file.cast::<u8>().add(registered.state_at).cast::<FileState>() }
}

/// The state of a database file that SQLite hands over.
///
/// SAFETY: `file` was opened by [`open`] as a database, and SQLite uses it in one thread at a time.
unsafe fn state<'f>(file: *mut ffi::sqlite3_file) -> Option<&'f mut FileState> {
    let registered = REGISTERED.get()?.as_ref()?;
    // SAFETY: the caller's.
    Some(unsafe { &mut *state_of(registered, file) })
}

impl FileState {
    /// Learns from the first page, or the header alone, whether pages have checksums.
    fn learn(&mut self, start: &[u8], offset: ffi::sqlite3_int64) {
        if offset == 0 && start.len() > MAGIC.len() {
            if page_sum::are_said_in(start) && start.starts_with(MAGIC) {
                self.has_sums = true;
            } else if start.len() >= PAGE_BYTES {
                self.has_sums = page_sum::are_in(start);
            }
        }
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, buffer: *mut c_void, amount: c_int, offset: ffi::sqlite3_int64) -> c_int {
    // SAFETY: only files of `open` have this function; SQLite's buffer has `amount` bytes, all of them written after a success.
    unsafe {
        let Some(state) = state(file) else { return ffi::SQLITE_IOERR_READ };
        let Some(original) = (*state.original).xRead else { return ffi::SQLITE_IOERR_READ };
        let code = original(file, buffer, amount, offset);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), usize::try_from(amount).unwrap_or(0));
        if amount >= HEADER_BYTES {
            state.learn(bytes, offset);
        }
        let is_damaged = state.has_sums && bytes.len() == PAGE_BYTES && !page_sum::is_sound(bytes);
        if is_damaged { ffi::SQLITE_IOERR_DATA } else { code }
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: only files of `open` have this function; SQLite's buffer has `amount` bytes, and stays SQLite's: a copy is changed.
    unsafe {
        let Some(state) = state(file) else { return ffi::SQLITE_IOERR_WRITE };
        let Some(original) = (*state.original).xWrite else { return ffi::SQLITE_IOERR_WRITE };
        let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), usize::try_from(amount).unwrap_or(0));
        if amount >= HEADER_BYTES {
            state.learn(bytes, offset);
        }
        if !state.has_sums || bytes.len() != PAGE_BYTES {
            return original(file, buffer, amount, offset);
        }
        let mut page = [0; PAGE_BYTES];
        page.copy_from_slice(bytes);
        page_sum::seal(&mut page);
        original(file, page.as_ptr().cast::<c_void>(), amount, offset)
    }
}

/// Without the right to read parts of pages, which have no checksum.
unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: only files of `open` have this function.
    unsafe {
        let Some(state) = state(file) else { return 0 };
        let told = (*state.original).xDeviceCharacteristics.map_or(0, |original| original(file));
        if state.has_sums { told & !ffi::SQLITE_IOCAP_SUBPAGE_READ } else { told }
    }
}
