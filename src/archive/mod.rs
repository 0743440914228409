/*!
The archive of turns.

So far only its arithmetic, which needs no store: how much a turn matters. Numbers and formulas are those of the design
documents; everything takes values and returns values, and the clock is passed in.
*/

mod importance;

pub use importance::{HALF_LIFE_DAYS, Traits, importance};
