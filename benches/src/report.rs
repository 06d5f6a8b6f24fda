//! Numbers as text: medians, spreads, aligned tables.

/// The median and the extremes of some figures.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Spread { median, min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// `1234 (1200-1300)`
    pub fn text(self, decimals: usize) -> String {
        format!("{:.*} ({:.*}-{:.*})", decimals, self.median, decimals, self.min, decimals, self.max)
    }
}

/// Prints a table whose first column is words and whose others are figures; the first row is its head.
pub fn table(rows: &[Vec<String>]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        println!("  {}", cells.join("  ").trim_end());
        if number == 0 {
            println!("  {}", widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>().join("  "));
        }
    }
    println!();
}

/// A heading with a rule below it.
pub fn heading(text: &str) {
    println!("{text}\n{}\n", "=".repeat(text.chars().count()));
}

/// A row of a table, from anything that is text.
#[macro_export]
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
