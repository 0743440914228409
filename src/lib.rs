/*! ctxbridge */
pub mod patch;
