//! Handles of Windows that a process inherits from another.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};

/// Keeps our standard input and output out of the processes that we start. They would get them whatever their own are, and the client
/// waits for a hook until nobody has its output any more.
pub fn keep_to_ourselves() {
    for handle in [io::stdin().as_raw_handle(), io::stdout().as_raw_handle(), io::stderr().as_raw_handle()] {
        if !handle.is_null() {
            // SAFETY: the handle is one of this process, open as long as it runs; only its flag for children is changed. If it is none,
            // the call fails, and nothing is changed.
            unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) };
        }
    }
}
