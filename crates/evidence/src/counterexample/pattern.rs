//! Describes where wrong elements are: everywhere, one row or column, the tail of an axis, stripes with a period,
//! whole tiles, one side of the diagonal, or scattered.

/// Among the indices of wrong elements, at least this fraction must be wrong for the sentence to name those indices.
const DENSE: f64 = 0.5;
/// The longest period that is searched for, and the number of indices at the beginning that are searched.
const PERIOD: usize = 512;
const LOOKED_AT: usize = 1 << 16;
/// Sides of tiles that are tried, the largest first.
const TILES: [usize; 6] = [128, 64, 32, 16, 8, 4];

/// Where the wrong elements of an output are.
pub(super) fn sentence(wrong: &[bool], dims: &[usize], axes: &[String]) -> String {
    let count = wrong.iter().filter(|wrong| **wrong).count();
    let all = wrong.len();
    let some = format!("{count} of {all} elements are wrong");
    if count == 0 {
        return "every element is within its limit, but the overall error (RMSE or bias) is too large"
            .to_owned();
    }
    if count == all {
        return format!("every element is wrong ({count})");
    }
    if count == 1 {
        return format!("1 of {all} elements is wrong");
    }
    let used = used(wrong, dims);
    let combinations: usize =
        used.iter().map(|indices| indices.iter().filter(|used| **used).count()).product();
    let narrowed: Vec<usize> =
        (0..dims.len()).filter(|axis| used.get(*axis).is_some_and(|used| used.contains(&false))).collect();
    let dense = real(count) >= DENSE * real(combinations);
    // Any set of wrong elements of a vector is a set of indices of its axis, so only a regular pattern carries
    // information.
    let says = dims.len() > 1 || regular(wrong).is_some();
    // A triangle fills half of the rows and columns it spans, and would be reported as most of them.
    if count != combinations
        && let Some(side) = of_diagonal(wrong, dims)
    {
        return format!("{some}: {side} the diagonal of the last two axes");
    }
    if !narrowed.is_empty() && dense && says {
        let mostly = if count == combinations { "" } else { ", mostly" };
        let parts: Vec<String> = narrowed
            .iter()
            .filter_map(|axis| {
                let name = axes.get(*axis).filter(|name| !name.is_empty());
                let name =
                    name.map_or_else(|| format!("axis {axis}"), |name| format!("axis {axis} (`{name}`)"));
                Some(along(&name, used.get(*axis)?))
            })
            .collect();
        return format!("{some}{mostly}: {}", parts.join(", and "));
    }
    if let Some((side, tiles, of)) = tiles(wrong, dims) {
        return format!("{some}: whole tiles of {side} × {side}, {tiles} of {of}");
    }
    if dims.len() > 1
        && let Some(place) = regular(wrong)
    {
        return format!("{some}: in memory order, {place}");
    }
    format!("{some}: scattered")
}

/// For each axis, which of its indices a wrong element has.
fn used(wrong: &[bool], dims: &[usize]) -> Vec<Vec<bool>> {
    let mut all = Vec::with_capacity(dims.len());
    let mut stride = 1;
    for extent in dims.iter().rev() {
        let mut used = vec![false; *extent];
        for (at, _) in wrong.iter().enumerate().filter(|(_, wrong)| **wrong) {
            if let Some(one) = used.get_mut(at / stride % (*extent).max(1)) {
                *one = true;
            }
        }
        stride *= (*extent).max(1);
        all.push(used);
    }
    all.reverse();
    all
}

/// The wrong indices of one axis, as text.
fn along(axis: &str, used: &[bool]) -> String {
    let count = used.iter().filter(|used| **used).count();
    let place = regular(used).unwrap_or_else(|| format!("{count} of its {} indices", used.len()));
    format!("{axis}: {place}")
}

/// One index, a range, or stripes of one width and period; `None` if the pattern is irregular.
fn regular(used: &[bool]) -> Option<String> {
    let extent = used.len();
    let first = used.iter().position(|used| *used)?;
    let last = used.iter().rposition(|used| *used)?;
    let count = used.iter().filter(|used| **used).count();
    if count == 1 {
        return Some(format!("index {first} alone"));
    }
    if last - first + 1 == count {
        return Some(match (first, last + 1 == extent) {
            (0, _) => format!("the first {count} of {extent}"),
            (_, true) => format!("the tail, from index {first} on (the last {count} of {extent})"),
            _ => format!("indices {first} to {last}"),
        });
    }
    // A period with at least two repetitions and one stripe in each.
    let beginning = used.get(..LOOKED_AT).unwrap_or(used);
    for period in 2..=(beginning.len() / 2).min(PERIOD) {
        let repeats = |used: &[bool]| used.iter().skip(period).zip(used).all(|(one, other)| one == other);
        if !repeats(beginning) || !repeats(used) {
            continue;
        }
        let residues = beginning.get(..period)?;
        let width = residues.iter().filter(|used| **used).count();
        let begins = (0..period).find(|at| residues[*at] && !residues[(*at + period - 1) % period])?;
        let stripe = (0..width).all(|step| residues[(begins + step) % period]);
        return match (stripe, width) {
            (true, 1) => Some(format!("every index that is {begins} modulo {period}")),
            (true, _) => {
                Some(format!("stripes of {width} that repeat every {period}, from index {begins} on"))
            }
            (false, _) => Some(format!("a pattern that repeats every {period}")),
        };
    }
    None
}

/// The side of the diagonal that contains all wrong elements, if they fill at least half of it.
fn of_diagonal(wrong: &[bool], dims: &[usize]) -> Option<&'static str> {
    let [.., rows, columns] = dims else { return None };
    let (rows, columns) = ((*rows).max(1), (*columns).max(1));
    let (mut above, mut below, mut count) = (0usize, 0usize, 0usize);
    let (mut room_above, mut room_below) = (0usize, 0usize);
    for (at, wrong) in wrong.iter().enumerate() {
        let (row, column) = (at / columns % rows, at % columns);
        room_above += usize::from(column > row);
        room_below += usize::from(column < row);
        if *wrong {
            count += 1;
            above += usize::from(column > row);
            below += usize::from(column < row);
        }
    }
    let fills = |some: usize, room: usize| some == count && real(some) >= DENSE * real(room);
    if fills(above, room_above) {
        return Some("above");
    }
    fills(below, room_below).then_some("below")
}

/// The largest side of tiles of the last two axes that are each all wrong or all correct: side, wrong tiles, tiles.
fn tiles(wrong: &[bool], dims: &[usize]) -> Option<(usize, usize, usize)> {
    let [.., rows, columns] = dims else { return None };
    let (rows, columns) = ((*rows).max(1), (*columns).max(1));
    for side in TILES.into_iter().filter(|side| *side < rows.max(columns) && *side <= rows.min(columns)) {
        let (down, across) = (rows.div_ceil(side), columns.div_ceil(side));
        let mut state: Vec<Option<bool>> =
            vec![None; down * across * (wrong.len() / (rows * columns)).max(1)];
        let mut whole = true;
        for (at, wrong) in wrong.iter().enumerate() {
            let (row, column) = (at / columns % rows, at % columns);
            let tile = (at / (rows * columns)) * down * across + row / side * across + column / side;
            match state.get_mut(tile) {
                Some(known @ None) => *known = Some(*wrong),
                Some(Some(known)) if known == wrong => {}
                _ => {
                    whole = false;
                    break;
                }
            }
        }
        if whole {
            return Some((side, state.iter().filter(|one| **one == Some(true)).count(), state.len()));
        }
    }
    None
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts of elements are far below 2^53"
)]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dims: &[usize], wrong: impl Fn(usize, usize) -> bool) -> String {
        let columns = dims.last().copied().unwrap_or(1);
        let all: usize = dims.iter().product();
        let axes: Vec<String> = ["n", "m"].iter().take(dims.len()).map(ToString::to_string).collect();
        let mask: Vec<bool> = (0..all).map(|at| wrong(at / columns, at % columns)).collect();
        sentence(&mask, dims, &axes)
    }

    #[test]
    fn places_have_names() {
        let of_matrix = |wrong: fn(usize, usize) -> bool| of(&[32, 100], wrong);
        assert_eq!(of_matrix(|_, _| true), "every element is wrong (3200)");
        assert_eq!(of_matrix(|row, column| (row, column) == (3, 4)), "1 of 3200 elements is wrong");
        assert_eq!(
            of_matrix(|_, column| column >= 97),
            "96 of 3200 elements are wrong: axis 1 (`m`): the tail, from index 97 on (the last 3 of 100)"
        );
        assert_eq!(
            of_matrix(|row, _| row == 5),
            "100 of 3200 elements are wrong: axis 0 (`n`): index 5 alone"
        );
        assert_eq!(
            of_matrix(|_, column| column == 9),
            "32 of 3200 elements are wrong: axis 1 (`m`): index 9 alone"
        );
        assert_eq!(
            of_matrix(|row, column| row < 8 && (16..32).contains(&column)),
            "128 of 3200 elements are wrong: axis 0 (`n`): the first 8 of 32, and axis 1 (`m`): indices 16 to 31"
        );
        assert_eq!(
            of_matrix(|_, column| column % 4 == 3),
            "800 of 3200 elements are wrong: axis 1 (`m`): every index that is 3 modulo 4"
        );
        assert_eq!(
            of_matrix(|_, column| column % 20 >= 16),
            "640 of 3200 elements are wrong: axis 1 (`m`): stripes of 4 that repeat every 20, from index 16 on"
        );
    }

    #[test]
    fn some_right_elements_among_wrong_ones_do_not_hide_the_place() {
        // Every seventh element of the tail happens to be correct.
        let sentence = of(&[32, 100], |row, column| column >= 90 && (row * 100 + column) % 7 != 0);
        assert!(sentence.contains("mostly: axis 1 (`m`): the tail, from index 90 on"), "{sentence}");
    }

    #[test]
    fn tiles_and_triangles_are_recognized() {
        let checkered = of(&[64, 64], |row, column| (row / 16 + column / 16) % 2 == 1);
        assert_eq!(checkered, "2048 of 4096 elements are wrong: whole tiles of 16 × 16, 8 of 16");
        let triangle = of(&[64, 64], |row, column| column > row);
        assert_eq!(triangle, "2016 of 4096 elements are wrong: above the diagonal of the last two axes");
    }

    #[test]
    fn what_has_no_order_is_scattered() {
        let sentence = of(&[64, 64], |row, column| {
            ((row * 64 + column).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 97 < 30
        });
        assert!(sentence.ends_with("elements are wrong: scattered"), "{sentence}");
        let vector = of(&[4096], |_, at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 97 < 30);
        assert!(vector.contains("axis 0 (`n`):") || vector.ends_with("scattered"), "{vector}");
    }

    #[test]
    fn a_vector_has_a_tail_too() {
        assert_eq!(
            of(&[1000], |_, at| at >= 992),
            "8 of 1000 elements are wrong: axis 0 (`n`): the tail, from index 992 on (the last 8 of 1000)"
        );
    }

    #[test]
    fn nothing_panics_on_odd_extents() {
        for dims in [&[][..], &[0], &[1], &[0, 5], &[5, 0], &[1, 1, 1], &[3, 1, 2]] {
            let count: usize = dims.iter().product();
            for mask in [vec![false; count], vec![true; count], (0..count).map(|at| at % 2 == 0).collect()] {
                assert!(!sentence(&mask, dims, &[]).is_empty());
            }
        }
    }
}
