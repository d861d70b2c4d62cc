//! The provider's own migrations, so that the floor writes the tables that Perdure writes.

use std::fs;
use std::path::PathBuf;

use crate::Failure;
use crate::arguments::Arguments;

/// The texts of the `.sql` files in `--migrations`, in the order of their numbers.
pub(crate) fn texts(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let directory = arguments.text("migrations")?;
    let mut files = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    if files.is_empty() {
        return Err(format!("there are no migrations in {directory}").into());
    }
    files.iter().map(|file| Ok(fs::read_to_string(file)?)).collect()
}
