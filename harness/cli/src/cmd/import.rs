//! `toolgauge import`.

use datasets::import::{ImportError, ImportOptions, find};

use crate::args::ImportArgs;
use crate::exit::{Exit, OrExit as _, expected, print_out};

pub fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let importer = find(&args.format).or_exit(Exit::Usage)?;
    let options = ImportOptions {
        server: args.server.clone(),
        overwrite: args.overwrite,
        strict: args.strict,
        tools: args.tools,
        seed: args.seed,
        extras: args.extras.given(),
        ..ImportOptions::default()
    };
    let report = match &args.source {
        Some(source) => importer.import(source, &args.out, &options),
        None => importer.generate(&args.out, &options),
    };
    let report = report.map_err(|error| {
        let exit = match error {
            ImportError::UnknownImporter { .. }
            | ImportError::UnfitOption { .. }
            | ImportError::ForeignOption { .. }
            | ImportError::SourceMissing { .. }
            | ImportError::SourceUnused { .. }
            | ImportError::TargetExists { .. }
            | ImportError::TargetForeign { .. }
            | ImportError::Unwritable { .. } => Exit::Usage,
            ImportError::Unreadable { .. } | ImportError::Strict { .. } | ImportError::Invalid(_) => Exit::Dataset,
        };
        expected(exit, error)
    })?;
    print_out(&format!("{}: {report}\n", args.out.display()))?;
    Ok(Exit::Ok)
}
