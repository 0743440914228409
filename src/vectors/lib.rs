/*!
Vectors of texts: [`embed`] makes them, [`Quantized`] keeps them in a byte a dimension, and [`ann`] finds the nearest of many.

Here is what has to be fast wherever it runs; so it is a crate that is optimized in development builds, too.
*/

pub mod ann;
mod dot;
pub mod embed;
mod quantized;

pub use quantized::{Matrix, Quantized, normalize};
