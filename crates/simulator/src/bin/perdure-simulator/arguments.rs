//! The arguments of the command.

use std::collections::BTreeSet;
use std::ops::Range;

use perdure_simulator::Place;

pub(crate) const HELP: &str =
    "Usage: perdure-simulator [--seeds A..B] [--seed N [--without a,b,c] [--log]] [--on a,b,c] [--threads N]

  --seeds A..B     run the seeds from A up to B, without B (0..1000)
  --seed N         run one seed
  --without a,b    leave out these acts of its plan
  --log            print the programs, the plan, and what happens, line by line
  --on a,b         run on these stores and compare what each keeps: memory, sqlite, postgres (PERDURE_TEST_POSTGRES_URL)
  --planted        plant each bug on purpose, and say after how many of the seeds it is found (feature planted)
  --bug TEXT       plant only bugs with this in their description
  --threads N      seeds that run at once (as many as there are cores)

Exit code: 0 all is well, 1 a seed has failed, 2 the arguments are wrong.";

/// The arguments that the command was called with.
pub(crate) struct Arguments {
    pub(crate) seeds: Range<u64>,
    pub(crate) without: BTreeSet<usize>,
    pub(crate) log: bool,
    pub(crate) places: Vec<Place>,
    pub(crate) threads: usize,
    pub(crate) planted: bool,
    pub(crate) bug: String,
}

/// Reads the arguments. An error says which argument is wrong.
pub(crate) fn arguments() -> Result<Arguments, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parsed = Arguments {
        seeds: 0..1_000,
        without: BTreeSet::new(),
        log: false,
        places: Vec::new(),
        threads: cores,
        planted: false,
        bug: String::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--planted" {
            parsed.planted = true;
            continue;
        }
        if name == "--log" {
            parsed.log = true;
            continue;
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} is unknown or needs a value"))?;
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{name}: '{text}' is no number"))
        };
        match name.as_str() {
            "--seeds" => {
                let (from, to) = value
                    .split_once("..")
                    .ok_or_else(|| format!("--seeds: '{value}' is not like 0..1000"))?;
                parsed.seeds = number(from)?..number(to)?;
            }
            "--seed" => parsed.seeds = number(&value)?..number(&value)? + 1,
            "--without" => {
                let places = value.split(',').map(|place| number(place).map(|place| place as usize));
                parsed.without = places.collect::<Result<_, _>>()?;
            }
            "--on" => parsed.places = value.split(',').map(place).collect::<Result<_, _>>()?,
            "--bug" => parsed.bug = value,
            "--threads" => parsed.threads = number(&value)?.max(1) as usize,
            _ => return Err(format!("{name} is unknown")),
        }
    }
    Ok(parsed)
}

fn place(name: &str) -> Result<Place, String> {
    match name {
        "memory" => Ok(Place::Memory),
        "sqlite" => Ok(Place::Sqlite),
        "postgres" => std::env::var("PERDURE_TEST_POSTGRES_URL")
            .map(Place::Postgres)
            .map_err(|_| "--on: postgres needs PERDURE_TEST_POSTGRES_URL".to_owned()),
        _ => Err(format!("--on: '{name}' is none of memory, sqlite, postgres")),
    }
}
