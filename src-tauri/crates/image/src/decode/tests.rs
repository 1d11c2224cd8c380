//! Formats, limits and broken files.

use image::codecs::gif::GifEncoder;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, Frame, ImageEncoder, Rgb, RgbImage, Rgba, RgbaImage};
use proptest::prelude::*;

use super::*;

/// A picture of 5 x 3 pixels with different colors.
fn pattern() -> RgbImage {
    RgbImage::from_fn(5, 3, |x, y| Rgb([(x * 50) as u8, (y * 100) as u8, 200]))
}

fn encode(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, format).expect("the format can store the picture");
    file.into_inner()
}

fn png(image: &RgbImage) -> Vec<u8> {
    encode(&image.clone().into(), ImageFormat::Png)
}

/// Checks that a file is refused with these words.
fn check_refused(file: &[u8], words: &[&str]) {
    let error = decode(file).expect_err("the file is refused").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error} has {words:?}");
}

#[test]
fn formats_without_loss_keep_all_pixels() {
    let expected = Picture::new(5, 3, pattern().into_raw()).unwrap();
    for format in [ImageFormat::Png, ImageFormat::WebP] {
        assert_eq!(decode(&encode(&pattern().into(), format)).unwrap(), expected, "{format:?}");
    }
}

#[test]
fn jpeg_keeps_size_and_about_the_colors() {
    let flat = RgbImage::from_pixel(40, 20, Rgb([200, 100, 50]));
    let picture = decode(&encode(&flat.into(), ImageFormat::Jpeg)).unwrap();
    assert_eq!((picture.width(), picture.height()), (40, 20), "the size");
    for (at, (&value, expected)) in picture.rgb().iter().zip([200, 100, 50].iter().cycle()).enumerate() {
        assert!(value.abs_diff(*expected) < 6, "byte {at} is {value}, not about {expected}");
    }
}

#[test]
fn animation_gives_its_first_frame() {
    let mut file = Vec::new();
    let mut encoder = GifEncoder::new(&mut file);
    for color in [[255, 0, 0, 255], [0, 255, 0, 255]] {
        encoder.encode_frame(Frame::new(RgbaImage::from_pixel(4, 2, Rgba(color)))).unwrap();
    }
    drop(encoder);
    let picture = decode(&file).unwrap();
    assert_eq!(picture.rgb(), [255, 0, 0].repeat(8), "the first frame is red");
}

#[test]
fn transparent_pixels_are_drawn_on_white() {
    let pixels = [[10, 20, 30, 255], [10, 20, 30, 0], [0, 0, 0, 128]];
    let image = RgbaImage::from_fn(3, 1, |x, _| Rgba(pixels[x as usize]));
    let picture = decode(&encode(&image.into(), ImageFormat::Png)).unwrap();
    assert_eq!(picture.rgb(), [10, 20, 30, 255, 255, 255, 127, 127, 127], "opaque, transparent, half");
}

#[test]
fn gray_and_16_bit_pixels_become_rgb() {
    let gray = image::GrayImage::from_pixel(2, 1, image::Luma([77]));
    assert_eq!(decode(&encode(&gray.into(), ImageFormat::Png)).unwrap().rgb(), [77; 6], "gray");
    let deep = image::ImageBuffer::from_pixel(1, 1, Rgb([0xffff_u16, 0x8080, 0]));
    let file = encode(&DynamicImage::ImageRgb16(deep), ImageFormat::Png);
    assert_eq!(decode(&file).unwrap().rgb(), [255, 128, 0], "16 bits");
}

#[test]
fn orientation_in_the_file_is_applied() {
    let exif = [b"II*\0\x08\0\0\0".as_slice(), &[1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]].concat();
    let mut file = Vec::new();
    let mut encoder = PngEncoder::new(&mut file);
    encoder.set_exif_metadata(exif).unwrap();
    encoder.write_image(pattern().as_raw(), 5, 3, ExtendedColorType::Rgb8).unwrap();
    let picture = decode(&file).unwrap();
    assert_eq!((picture.width(), picture.height()), (3, 5), "rotated by 90 degrees");
    assert_eq!(picture.rgb()[..3], pattern().get_pixel(0, 2).0, "the last row is the first column");
}

#[test]
fn other_formats_and_broken_files_are_refused() {
    for file in [b"".as_slice(), b"hi", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"BM\0\0\0\0"] {
        check_refused(file, &["supported format", "JPEG, PNG, WebP or GIF"]);
    }
    let whole = png(&pattern());
    check_refused(&whole[..20], &["PNG image cannot be decoded"]);
    check_refused(&whole[..whole.len() - 20], &["PNG image cannot be decoded"]);
    check_refused(b"GIF89a", &["GIF image cannot be decoded"]);
    check_refused(b"\xff\xd8\xff", &["JPEG image cannot be decoded"]);
}

#[test]
fn limits_are_checked_before_pixels_are_decoded() {
    check_refused(&vec![0; MAX_FILE_BYTES + 1], &["33554433 bytes", "smaller image"]);
    check_refused(&with_size(7072, 7072), &["7072 x 7072", "scale the image down"]);
    check_refused(&with_size(65_536, 1), &["65536 x 1", "sides of 65528", "scale the image down"]);
    let whole = with_size(7000, 7000);
    check_refused(&whole, &["PNG image cannot be decoded"]);
    let mut deep = whole;
    // 16 bits for each of four channels.
    deep[24] = 16;
    deep[25] = 6;
    check_refused(&with_checksum(deep), &["392000000 bytes", "8 bits"]);
}

/// A PNG file with this size in its header.
fn with_size(width: u32, height: u32) -> Vec<u8> {
    let mut file = png(&pattern());
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    with_checksum(file)
}

/// Corrects the checksum of the header (PNG specification, annex D).
fn with_checksum(mut file: Vec<u8>) -> Vec<u8> {
    let mut sum = u32::MAX;
    for &byte in &file[12..29] {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 };
        }
    }
    file[29..33].copy_from_slice(&(!sum).to_be_bytes());
    file
}

proptest! {
    #[test]
    fn changed_files_never_panic(format in 0..4_usize, at in 0..400_usize, byte: u8, end in 0..600_usize) {
        let mut file = encode(&pattern().into(), FORMATS[format].0);
        let at = at % file.len();
        file[at] = byte;
        file.truncate(end.max(8));
        if let Ok(picture) = decode(&file) {
            prop_assert_eq!(picture.rgb().len() as u64, 3 * u64::from(picture.width()) * u64::from(picture.height()));
        }
    }
}

/// Inserts bytes in front of the end of a JPEG file.
fn with_segments(file: &[u8], segments: &[u8]) -> Vec<u8> {
    let (before, end) = file.split_at(file.len() - 2);
    assert_eq!(end, [0xff, 0xd9], "the end of the picture");
    [before, segments, end].concat()
}

#[test]
fn scans_of_a_jpeg_are_limited() {
    let jpeg = encode(&pattern().into(), ImageFormat::Jpeg);
    let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0, 0x55];
    assert_eq!(jpeg_scans(&jpeg), 1, "one scan");
    assert_eq!(jpeg_scans(&with_segments(&jpeg, &scan.repeat(31))), 32, "32 scans");
    check_refused(&with_segments(&jpeg, &scan.repeat(32)), &["JPEG", "it has 33 scans, and at most 32 are decoded"]);
    let preview = [&[0xff, 0xe1, 1, 100][..], &scan.repeat(32), &[0; 2]].concat();
    assert_eq!(jpeg_scans(&with_segments(&jpeg, &preview)), 1, "those of metadata do not count");
    let hidden_end = [&[0xff, 0xf0, 0, 4, 0xff, 0xd9][..], &scan.repeat(40)].concat();
    assert_eq!(jpeg_scans(&with_segments(&jpeg, &hidden_end)), 41, "bytes of a segment are no end");
    assert_eq!(jpeg_scans(&[&jpeg[..], &scan.repeat(40)].concat()), 1, "nor those behind the end");
    for end in 0..jpeg.len() {
        assert!(jpeg_scans(&jpeg[..end]) <= 1, "a file that is cut");
    }
}

#[test]
fn narrow_pictures_are_decoded() {
    for (width, height) in [(MAX_SIDE, 1), (1, MAX_SIDE)] {
        let picture = decode(&png(&RgbImage::from_pixel(width, height, Rgb([9, 8, 7])))).unwrap();
        assert_eq!((picture.width(), picture.height()), (width, height), "a strip");
        let square = picture.resize(28, 28, crate::Filter::Linear).unwrap();
        let mut pairs = square.rgb().iter().zip([9u8, 8, 7].iter().cycle());
        assert!(pairs.all(|(value, expected)| value.abs_diff(*expected) < 2), "{width} x {height}: the same color");
    }
}

#[test]
fn picture_without_pixels_is_refused() {
    let mut gif = Vec::new();
    GifEncoder::new(&mut gif).encode_frame(Frame::new(RgbaImage::from_pixel(4, 2, Rgba([1, 2, 3, 255])))).unwrap();
    gif[6..10].fill(0);
    check_refused(&gif, &["GIF image cannot be decoded: it has no pixels"]);
}
