/*! Patching */
pub mod catalogue;
pub mod container;
pub mod locate;
pub mod pattern;
pub mod signature;
pub mod syntax;
