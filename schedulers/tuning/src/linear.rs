//! Symmetric matrices: the factor of Cholesky and what is solved with it. Rows are stored one after the other.

/// A lower triangle L with L·Lᵀ = the matrix; the upper part is not looked at.
#[derive(Debug, Clone)]
pub(crate) struct Factor {
    size: usize,
    rows: Vec<f64>,
}

/// The sum of products; four sums at once let the processor work on all of them.
pub(crate) fn dot(one: &[f64], two: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let fours = one.chunks_exact(4);
    let twos = two.chunks_exact(4);
    let rest: f64 = fours.remainder().iter().zip(twos.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in fours.zip(twos) {
        for place in 0..4 {
            sums[place] += a[place] * b[place];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

impl Factor {
    /// The factor of a matrix, of which the lower triangle is read; `None` if it is not positive definite.
    pub fn new(mut rows: Vec<f64>, size: usize) -> Option<Factor> {
        for row in 0..size {
            let (above, own) = rows.split_at_mut(row * size);
            for column in 0..row {
                let start = column * size;
                let sum = own[column] - dot(&own[..column], &above[start..start + column]);
                own[column] = sum / above[start + column];
            }
            let rest = own[row] - dot(&own[..row], &own[..row]);
            if rest.is_nan() || rest <= 0.0 {
                return None;
            }
            own[row] = rest.sqrt();
        }
        Some(Factor { size, rows })
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.rows[row * self.size..row * self.size + row + 1]
    }

    /// L⁻¹·b, in place.
    pub fn forward(&self, b: &mut [f64]) {
        for row in 0..self.size {
            let own = self.row(row);
            b[row] = (b[row] - dot(&own[..row], &b[..row])) / own[row];
        }
    }

    /// L⁻ᵀ·b, in place.
    pub fn backward(&self, b: &mut [f64]) {
        for row in (0..self.size).rev() {
            let own = self.row(row);
            b[row] /= own[row];
            let value = b[row];
            for (left, factor) in b[..row].iter_mut().zip(own) {
                *left -= factor * value;
            }
        }
    }

    /// L·b.
    pub fn times(&self, b: &[f64]) -> Vec<f64> {
        (0..self.size).map(|row| dot(self.row(row), &b[..row + 1])).collect()
    }

    pub fn log_determinant(&self) -> f64 {
        2.0 * (0..self.size).map(|row| self.row(row)[row].ln()).sum::<f64>()
    }

    /// The inverse of the matrix, whole.
    pub fn inverse(&self) -> Vec<f64> {
        let size = self.size;
        // The rows of L⁻ᵀ: column after column of L⁻¹.
        let mut columns = vec![0.0; size * size];
        for column in 0..size {
            let own = &mut columns[column * size..(column + 1) * size];
            own[column] = 1.0 / self.row(column)[column];
            for row in column + 1..size {
                let factor = self.row(row);
                own[row] = -dot(&factor[column..row], &own[column..row]) / factor[row];
            }
        }
        let mut inverse = vec![0.0; size * size];
        for one in 0..size {
            for two in 0..=one {
                let (a, b) = (
                    &columns[one * size + one..(one + 1) * size],
                    &columns[two * size + one..(two + 1) * size],
                );
                let sum = dot(a, b);
                inverse[one * size + two] = sum;
                inverse[two * size + one] = sum;
            }
        }
        inverse
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn solutions_solve_and_inverses_invert() {
        let size = 9;
        let entry = |row: usize, column: usize| {
            if row == column { 5.0 + row as f64 } else { ((row * column) as f64).sin().abs() }
        };
        let matrix: Vec<f64> = (0..size * size).map(|at| entry(at / size, at % size)).collect();
        let factor = Factor::new(matrix.clone(), size).unwrap();
        let inverse = factor.inverse();
        for row in 0..size {
            for column in 0..size {
                let product: f64 =
                    (0..size).map(|at| matrix[row * size + at] * inverse[at * size + column]).sum();
                let expected = f64::from(u8::from(row == column));
                assert!((product - expected).abs() < 1e-12, "{row} {column}: {product}");
            }
        }
        let b: Vec<f64> = (0..size).map(|at| at as f64).collect();
        let mut x = b.clone();
        factor.forward(&mut x);
        assert!(factor.times(&x).iter().zip(&b).all(|(one, two)| (one - two).abs() < 1e-12));
        factor.backward(&mut x);
        let back: Vec<f64> = (0..size).map(|row| dot(&matrix[row * size..(row + 1) * size], &x)).collect();
        assert!(back.iter().zip(&b).all(|(one, two)| (one - two).abs() < 1e-12));
    }

    #[test]
    fn what_is_not_positive_definite_has_no_factor() {
        assert!(Factor::new(vec![1.0, 2.0, 2.0, 1.0], 2).is_none());
        assert!(Factor::new(vec![f64::NAN], 1).is_none());
    }
}
