//! Random numbers that a replay repeats.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The random numbers of one execution: the ChaCha8 stream whose key is the execution's seed.
///
/// Stored executions depend on every bit of the stream. The key is therefore laid out here and not by the library, and
/// a test holds the first numbers of a seed fast.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    /// The stream, made by the first draw: most executions never ask, and a sleeping one should be small.
    stream: Option<Box<ChaCha8Rng>>,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, stream: None }
    }

    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Seed of the execution that follows this one: the next output of SplitMix64 (Steele, Lea and Flood 2014).
    pub(crate) const fn next_seed(&self) -> u64 {
        mix(self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15))
    }

    /// A number in 0..1 with 53 random bits, like that of `Math.random`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.stream().next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 UUID in lower case.
    pub(crate) fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.stream().fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .hyphenated()
            .to_string()
    }

    fn stream(&mut self) -> &mut ChaCha8Rng {
        self.stream.get_or_insert_with(|| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&self.seed.to_le_bytes());
            Box::new(ChaCha8Rng::from_seed(key))
        })
    }
}

/// Spreads the bits of a number over all of it: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
