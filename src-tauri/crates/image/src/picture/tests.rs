//! Digests and scaling.

use proptest::prelude::*;

use super::*;

fn picture(width: u32, height: u32, rgb: &[u8]) -> Picture {
    Picture::new(width, height, rgb.to_vec()).expect("the bytes fit the size")
}

#[test]
fn pixels_must_fit_the_size() {
    for (width, height, bytes) in [(0, 1, 0), (1, 0, 0), (2, 2, 11), (2, 2, 13), (u32::MAX, u32::MAX, 3)] {
        let error = Picture::new(width, height, vec![0; bytes]).expect_err("the size does not fit");
        assert_eq!(error, InvalidPicture { width, height, bytes }, "{error}");
    }
}

#[test]
fn digest_covers_size_and_pixels() {
    let one = picture(2, 1, &[1, 2, 3, 4, 5, 6]);
    assert_eq!(one.digest(), one.clone().digest(), "equal pixels");
    assert_ne!(one.digest(), picture(1, 2, &[1, 2, 3, 4, 5, 6]).digest(), "another size");
    assert_ne!(one.digest(), picture(2, 1, &[1, 2, 3, 4, 5, 7]).digest(), "another pixel");
}

/// Weight at a distance, in pixels of the smaller picture.
fn weight(filter: Filter, distance: f64) -> f64 {
    let x = distance.abs();
    match filter {
        Filter::Linear => (1.0 - x).max(0.0),
        Filter::Cubic if x < 1.0 => 1.5 * x.powi(3) - 2.5 * x.powi(2) + 1.0,
        Filter::Cubic if x < 2.0 => -0.5 * x.powi(3) + 2.5 * x.powi(2) - 4.0 * x + 2.0,
        Filter::Cubic => 0.0,
    }
}

/// Weighted mean of the covered pixels in f64, in one direction.
fn scaled(from: &[f64], to: usize, filter: Filter) -> Vec<f64> {
    let scale = from.len() as f64 / to as f64;
    let radius = scale.max(1.0);
    let pixel = |at: usize| {
        let center = (at as f64 + 0.5) * scale;
        let weight = |other: usize| weight(filter, (other as f64 + 0.5 - center) / radius);
        let weights: Vec<f64> = (0..from.len()).map(weight).collect();
        from.iter().zip(&weights).map(|(value, weight)| value * weight).sum::<f64>() / weights.iter().sum::<f64>()
    };
    // Negative weights magnify the rounding of the first pass, so it is the same here.
    let pixel = |at: usize| if filter == Filter::Cubic { pixel(at).clamp(0.0, 255.0).round() } else { pixel(at) };
    (0..to).map(pixel).collect()
}

/// The same, of one color of a picture: rows first.
fn scaled_color(from: &Picture, color: usize, [width, height]: [usize; 2], filter: Filter) -> Vec<f64> {
    let columns = from.width() as usize;
    let value = |x: usize, y: usize| f64::from(from.rgb()[(y * columns + x) * 3 + color]);
    let row = |y: usize| scaled(&(0..columns).map(|x| value(x, y)).collect::<Vec<f64>>(), width, filter);
    let rows: Vec<Vec<f64>> = (0..from.height() as usize).map(row).collect();
    let column = |x: usize| scaled(&rows.iter().map(|row| row[x]).collect::<Vec<f64>>(), height, filter);
    let columns: Vec<Vec<f64>> = (0..width).map(column).collect();
    (0..height).flat_map(|y| columns.iter().map(move |column| column[y])).collect()
}

proptest! {
    #[test]
    fn resized_pixels_are_means_of_covered_ones(
        size in (1..20_u32, 1..20_u32),
        to in (1..20_u32, 1..20_u32),
        pixels in prop::collection::vec(any::<u8>(), 20 * 20 * 3),
        filter in prop::sample::select(vec![Filter::Linear, Filter::Cubic]),
    ) {
        let from = picture(size.0, size.1, &pixels[..(size.0 * size.1 * 3) as usize]);
        let resized = from.resize(to.0, to.1, filter).unwrap();
        prop_assert_eq!((resized.width(), resized.height()), to);
        for color in 0..3 {
            let expected = scaled_color(&from, color, [to.0 as usize, to.1 as usize], filter);
            for (pixel, expected) in resized.rgb().chunks(3).zip(expected) {
                // Each of the two passes rounds once, and a pixel near the middle may be rounded otherwise in f64.
                let most = if filter == Filter::Linear { 1.01 } else { 2.01 };
                prop_assert!((f64::from(pixel[color]) - expected).abs() <= most, "{} for {expected}", pixel[color]);
            }
        }
    }
}

#[test]
fn same_size_changes_nothing_and_no_size_is_refused() {
    let one = picture(2, 1, &[1, 2, 3, 4, 5, 6]);
    for filter in [Filter::Linear, Filter::Cubic] {
        assert_eq!(one.resize(2, 1, filter).unwrap(), one, "equal pixels");
        assert_eq!(one.fit(2, 1, filter, [9; 3]).unwrap(), one, "nothing to fill");
        assert!(one.resize(0, 5, filter).is_err() && one.resize(5, 0, filter).is_err(), "no pixels");
        assert!(one.fit(0, 5, filter, [9; 3]).is_err() && one.fit(5, 0, filter, [9; 3]).is_err(), "no pixels");
    }
}

#[test]
fn fitted_picture_keeps_its_proportions_in_the_middle() {
    let one = picture(2, 1, &[7; 6]);
    let color = [1, 2, 3];
    let fitted = one.fit(4, 5, Filter::Cubic, color).unwrap();
    let rows: Vec<&[u8]> = fitted.rgb().chunks(12).collect();
    let filled = color.repeat(4);
    assert_eq!(rows, [&filled[..], &[7; 12], &[7; 12], &filled, &filled], "two of five rows, the odd one below");
    let high = picture(1, 3, &[7; 9]).fit(4, 3, Filter::Linear, color).unwrap();
    let row = [&color[..], &[7; 3], &color, &color].concat();
    assert!(high.rgb().chunks(12).all(|found| found == row), "one of four columns, the odd one on the right");
}
