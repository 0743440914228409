//! Products of bytes, with the widest instructions of the processor, chosen when the program runs.

use rten_simd::{Isa, SimdOp};

/// Computes the product of a vector with each of many vectors that are stored in sequence.
pub(crate) fn dots(one: &[i8], others: &[i8], into: &mut Vec<i32>) {
    into.clear();
    if !one.is_empty() {
        Dots { one, others, into }.dispatch();
    }
}

/// Returns the product of two vectors.
pub(crate) fn dot(one: &[i8], other: &[i8]) -> i32 {
    Dot { one, other }.dispatch()
}

struct Dots<'a> {
    one: &'a [i8],
    others: &'a [i8],
    into: &'a mut Vec<i32>,
}

impl SimdOp for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        self.into.extend(self.others.chunks_exact(self.one.len()).map(
            #[inline(always)]
            |other| product(self.one, other),
        ));
    }
}

struct Dot<'a> {
    one: &'a [i8],
    other: &'a [i8],
}

impl SimdOp for Dot<'_> {
    type Output = i32;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> i32 {
        product(self.one, self.other)
    }
}

/// The compiler makes the processor's multiply-and-add of this: products of bytes fit 16 bits, and sums of them 32.
#[inline(always)]
fn product(one: &[i8], other: &[i8]) -> i32 {
    let mut sum = 0;
    for (one, other) in one.iter().zip(other) {
        sum += i32::from(i16::from(*one) * i16::from(*other));
    }
    sum
}
