//! The text columns of a Parquet file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ::parquet::basic::Type;
use ::parquet::column::reader::ColumnReader;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::ImportError;
use super::files;
use super::report::{Findings, Trouble};
use crate::problem::{clean, printable};

/// Values decoded at a time.
const BATCH: usize = 1024;
/// Most memory that cells may take, in bytes: a small file can repeat one value without end.
const MOST: usize = 1 << 30;
/// What a cell takes beside its text.
const CELL: usize = 64;

/// A row: its cells that are not null, by column.
pub(super) type Row = BTreeMap<String, String>;

/// All rows. Columns that are not flat text are listed and left out.
pub(super) fn rows(path: &Path, expected: &'static str, findings: &mut Findings) -> Result<Vec<Row>, ImportError> {
    let unreadable = |reason: &str| ImportError::Unreadable { path: printable(path), reason: clean(reason), expected };
    let open = || {
        // A pipe would be waited for.
        if fs::metadata(path)?.is_file() { File::open(path) } else { Err(std::io::Error::other("it is no file")) }
    };
    let file = open().map_err(|error| unreadable(&error.to_string()))?;
    // The decoder indexes by numbers that it reads; on a damaged file that may panic, which must not end the process.
    let read = catch_unwind(AssertUnwindSafe(|| decode(file)));
    let read = read.unwrap_or_else(|_| Err(ParquetError::General("it is damaged".to_owned())));
    let (rows, skipped) = read.map_err(|error| unreadable(&error.to_string()))?;
    for column in skipped {
        findings.add(Trouble::IgnoredKey, &format!("column {column} of {}", files::name(path)));
    }
    Ok(rows)
}

/// Rows, and the columns that are not text.
fn decode(file: File) -> Result<(Vec<Row>, Vec<String>), ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let (text, other): (Vec<_>, Vec<_>) = (0..schema.num_columns()).partition(|&index| {
        let column = schema.column(index);
        let flat = column.max_rep_level() == 0 && column.path().parts().len() == 1;
        flat && column.physical_type() == Type::BYTE_ARRAY
    });
    let mut rows: Vec<Row> = Vec::new();
    let mut taken = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let first = rows.len();
        for &index in &text {
            let ColumnReader::ByteArrayColumnReader(mut column) = group.get_column_reader(index)? else {
                return Err(ParquetError::General("a column is not of the type that the schema gives".to_owned()));
            };
            let (name, nullable) = (schema.column(index).name().to_owned(), schema.column(index).max_def_level() > 0);
            let mut row = first;
            loop {
                let (mut defined, mut values) = (Vec::new(), Vec::new());
                let (records, ..) = column.read_records(BATCH, Some(&mut defined), None, &mut values)?;
                if records == 0 {
                    break;
                }
                let mut values = values.into_iter();
                for record in 0..records {
                    if rows.len() <= row {
                        rows.push(Row::new());
                    }
                    if !nullable || defined.get(record).is_some_and(|&level| level > 0) {
                        let value = values.next().ok_or_else(|| ParquetError::EOF("a value is missing".to_owned()))?;
                        let value = value.as_utf8()?.to_owned();
                        taken += value.len();
                        rows[row].insert(name.clone(), value);
                    }
                    row += 1;
                    taken += CELL;
                    if taken > MOST {
                        return Err(ParquetError::General(format!("its cells take more than {MOST} bytes")));
                    }
                }
            }
        }
    }
    Ok((rows, other.into_iter().map(|index| schema.column(index).path().string()).collect()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use ::parquet::basic::Compression;
    use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::folder;

    /// A file with these text columns and a number, each value `None` for null.
    pub(in crate::import) fn file(columns: &[&str], rows: &[Vec<Option<&str>>]) -> Vec<u8> {
        let fields: Vec<_> = columns.iter().map(|name| format!("optional binary {name} (STRING); ")).collect();
        let schema =
            parse_message_type(&format!("message m {{ {} required int64 number; }}", fields.concat())).unwrap();
        let snappy = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(snappy)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for index in 0..columns.len() {
            let cells = || rows.iter().map(|row| row[index]);
            let values: Vec<_> = cells().flatten().map(ByteArray::from).collect();
            let defined: Vec<_> = cells().map(|cell| i16::from(cell.is_some())).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&defined), None).unwrap();
            column.close().unwrap();
        }
        let numbers: Vec<_> = rows.iter().map(|_| 7).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.into_inner().unwrap()
    }

    fn small() -> Vec<u8> {
        file(&["id", "query"], &[vec![Some("a"), Some("é")], vec![Some("b"), None], vec![None, Some("")]])
    }

    fn read(bytes: &[u8]) -> (Result<Vec<Row>, ImportError>, Findings) {
        let dir = folder(&[("f.parquet", bytes)]);
        let mut findings = Findings::default();
        (rows(&dir.path().join("f.parquet"), "rows", &mut findings), findings)
    }

    #[test]
    fn text_columns_are_read_and_others_listed() {
        let (rows, findings) = read(&small());
        let rows: Vec<_> = rows.unwrap().iter().map(|row| format!("{row:?}")).collect();
        assert_eq!(rows, [r#"{"id": "a", "query": "é"}"#, r#"{"id": "b"}"#, r#"{"query": ""}"#]);
        assert_eq!(
            findings.to_string().trim(),
            "1 × key of a tool that has no place in the format; left out: \"column number of f.parquet\""
        );
    }

    #[test]
    fn many_rows_are_read_in_batches() {
        let cells: Vec<_> = (0..3000).map(|number| number.to_string()).collect();
        let made: Vec<_> = cells.iter().map(|cell| vec![Some(cell.as_str())]).collect();
        let (rows, _) = read(&file(&["id"], &made));
        assert!(rows.unwrap().iter().map(|row| &row["id"]).eq(&cells));
    }

    #[test]
    fn files_of_another_kind_are_refused() {
        for bytes in [&b""[..], b"PAR1", b"{}", &small()[..40]] {
            let error = read(bytes).0.unwrap_err().to_string();
            assert!(error.contains("f.parquet cannot be read"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn damaged_files_never_end_the_process(
            at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 1..8), cut in any::<bool>()
        ) {
            let mut file = small();
            let at = at.index(file.len());
            if cut {
                file.truncate(at);
            }
            for (index, byte) in bytes.into_iter().enumerate() {
                match file.get_mut(at + index) {
                    Some(place) => *place = byte,
                    None => file.push(byte),
                }
            }
            let _ = read(&file);
        }
    }
}
