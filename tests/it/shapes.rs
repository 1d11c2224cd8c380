//! A small model that sees (`tests/shapes/README.md`) names shapes and colors in pictures, through every API.

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_testkit::random::Random;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, succeeded};

const QUESTION: &str = "What do you see?";
/// Rows of a picture in the prompt.
const PICTURE_ROWS: u64 = 36;

/// Colors, backgrounds and shapes: the facts that the model was trained with.
static FACTS: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("shapes/shapes.json");
    serde_json::from_slice(&std::fs::read(path).expect("the file exists")).expect("valid JSON")
});

/// A shape on a plain background.
pub(crate) struct Figure {
    shape: &'static str,
    color: &'static str,
    picture: RgbImage,
}

fn number(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn rgb(value: &Value) -> [u8; 3] {
    std::array::from_fn(|at| number(&value[at]) as u8)
}

fn entries(key: &str) -> impl Iterator<Item = (&'static str, &'static Value)> {
    FACTS[key].as_object().expect("an object").iter().map(|(name, value)| (name.as_str(), value))
}

impl Figure {
    /// Draws a shape with a random color, place, size and angle.
    pub(crate) fn random(shape: &'static str, random: &mut Random) -> Self {
        let backgrounds = FACTS["backgrounds"].as_array().expect("a list");
        let background = rgb(&backgrounds[random.below(backgrounds.len() as u64) as usize]);
        let differs = |rgb: [u8; 3]| rgb.iter().zip(background).any(|(a, b)| a.abs_diff(b) > 60);
        let colors: Vec<_> = entries("colors").filter(|(_, value)| differs(rgb(value))).collect();
        let (color, value) = colors[random.below(colors.len() as u64) as usize];
        let side = 96 + random.below(160) as u32;
        let mut between = |low: f32, high: f32| low + (high - low) * random.below(1000) as f32 / 1000.0;
        let radius = side as f32 * between(0.25, 0.42);
        let reach = side as f32 / 2.0 - radius;
        let center = [(); 2].map(|()| side as f32 / 2.0 + between(-reach, reach));
        let (sin, cos) = between(-0.25, 0.25).sin_cos();
        let to_pixels = |point: &Value| {
            let (x, y) = (number(&point[0]) * radius, number(&point[1]) * radius);
            [center[0] + cos * x - sin * y, center[1] + sin * x + cos * y]
        };
        let polygons: Vec<Vec<[f32; 2]>> = FACTS["shapes"][shape]
            .as_array()
            .expect("polygons")
            .iter()
            .map(|polygon| polygon.as_array().expect("points").iter().map(to_pixels).collect())
            .collect();
        let picture = RgbImage::from_fn(side, side, |x, y| {
            Rgb(if is_inside(&polygons, [x as f32 + 0.5, y as f32 + 0.5]) { rgb(value) } else { background })
        });
        Self { shape, color, picture }
    }

    fn encoded(&self, format: ImageFormat) -> String {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::from(self.picture.clone()).write_to(&mut bytes, format).expect("the format has an encoder");
        STANDARD.encode(bytes.into_inner())
    }

    /// The picture as a PNG file in base64.
    pub(crate) fn png(&self) -> String {
        self.encoded(ImageFormat::Png)
    }

    /// The answer to [`QUESTION`].
    pub(crate) fn expected(&self) -> String {
        let article = if self.color.starts_with('o') { "an" } else { "a" };
        format!("This is {article} {} {}.", self.color, self.shape)
    }
}

/// Returns whether a ray from the point crosses an odd number of edges.
fn is_inside(polygons: &[Vec<[f32; 2]>], [x, y]: [f32; 2]) -> bool {
    let crosses =
        |[[x0, y0], [x1, y1]]: [[f32; 2]; 2]| (y0 > y) != (y1 > y) && x < x0 + (y - y0) * (x1 - x0) / (y1 - y0);
    let edges =
        polygons.iter().flat_map(|points| (0..points.len()).map(|at| [points[at], points[(at + 1) % points.len()]]));
    edges.filter(|edge| crosses(*edge)).count() % 2 == 1
}

/// Creates the model `shapes`.
pub(crate) fn create(home: &Home) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shapes");
    let modelfile = home.folder.path().join("Modelfile");
    let from = |name: &str| format!("FROM {}\n", folder.join(name).display());
    let parameters = "PARAMETER temperature 0\nPARAMETER num_predict 24\n";
    std::fs::write(&modelfile, from("text.gguf") + &from("tower.gguf") + parameters).expect("the home is writable");
    succeeded(&home.run(&["create", "shapes", "-f", &modelfile.to_string_lossy()]));
}

fn post(daemon: &Daemon<'_>, path: &str, body: &Value) -> Value {
    let body = daemon.post(path, body).expect("the daemon answers");
    let value: Value = serde_json::from_str(&body).expect("valid JSON");
    assert!(value["error"].is_null(), "{body}");
    value
}

/// Asks about a picture; returns the answer and the number of rows of the prompt that were not computed.
fn ask(daemon: &Daemon<'_>, image: &str, question: &str) -> (String, u64) {
    let message = json!({"role": "user", "content": question, "images": [image]});
    let answer = post(daemon, "/api/chat", &json!({"model": "shapes", "stream": false, "messages": [message]}));
    let text = answer["message"]["content"].as_str().expect("a text").to_owned();
    // Absent without any.
    (text, answer["cached_tokens"].as_u64().unwrap_or_default())
}

#[test]
fn model_names_shapes_and_colors_in_pictures_of_every_format() {
    let home = Home::new();
    let daemon = home.serve();
    create(&home);
    let formats = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif];
    let mut random = Random::new(31);
    let (mut asked, mut wrong) = (0, Vec::new());
    for (shape, _) in entries("shapes") {
        for format in formats {
            let figure = Figure::random(shape, &mut random);
            let (answer, _) = ask(&daemon, &figure.encoded(format), QUESTION);
            asked += 1;
            if answer != figure.expected() {
                wrong.push(format!("{format:?}: {answer:?} instead of {:?}", figure.expected()));
            }
        }
    }
    assert!(asked >= 40 && wrong.len() * 20 <= asked, "{} of {asked} answers are wrong: {wrong:#?}", wrong.len());
}

#[test]
fn second_question_about_a_picture_computes_no_row_of_it() {
    let home = Home::new();
    let daemon = home.serve();
    create(&home);
    let mut random = Random::new(33);
    let [first, second] = ["star", "ring"].map(|shape| Figure::random(shape, &mut random));
    let (answer, _) = ask(&daemon, &first.png(), QUESTION);
    assert_eq!(answer, first.expected());
    // The same pixels in another format.
    let (answer, cached) = ask(&daemon, &first.encoded(ImageFormat::Gif), "Which shape is this?");
    assert_eq!(answer, "The shape is a star.");
    assert!(cached >= PICTURE_ROWS, "the rows of the picture are computed once: {cached} rows are cached");
    let (answer, cached) = ask(&daemon, &second.png(), QUESTION);
    assert_eq!(answer, second.expected());
    assert!(cached < PICTURE_ROWS, "the rows of another picture are computed: {cached} rows are cached");
}

#[test]
fn every_api_takes_pictures() {
    let home = Home::new();
    let daemon = home.serve();
    create(&home);
    let shown = post(&daemon, "/api/show", &json!({"model": "shapes"}));
    let capabilities = shown["capabilities"].as_array().expect("a list");
    assert!(capabilities.contains(&json!("vision")), "{capabilities:?}");
    let figure = Figure::random("heart", &mut Random::new(35));
    let (png, expected) = (figure.png(), figure.expected());

    let body = json!({"model": "shapes", "stream": false, "prompt": QUESTION, "images": [png]});
    assert_eq!(post(&daemon, "/api/generate", &body)["response"], expected.as_str());

    let url = format!("data:image/png;base64,{png}");
    let parts = json!([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]);
    let body = json!({"model": "shapes", "messages": [{"role": "user", "content": parts}]});
    assert_eq!(post(&daemon, "/v1/chat/completions", &body)["choices"][0]["message"]["content"], expected.as_str());

    let parts = json!([{"type": "input_image", "image_url": url}, {"type": "input_text", "text": QUESTION}]);
    let body = json!({"model": "shapes", "input": [{"role": "user", "content": parts}]});
    assert_eq!(post(&daemon, "/v1/responses", &body)["output"][0]["content"][0]["text"], expected.as_str());

    let source = json!({"type": "base64", "media_type": "image/png", "data": png});
    let parts = json!([{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]);
    let body = json!({"model": "shapes", "max_tokens": 30, "messages": [{"role": "user", "content": parts}]});
    assert_eq!(post(&daemon, "/v1/messages", &body)["content"][0]["text"], expected.as_str());

    let path = home.folder.path().join("heart.png");
    figure.picture.save(&path).expect("the home is writable");
    let answer = succeeded(&home.run(&["run", "shapes", &format!("{QUESTION} {}", path.display())]));
    assert_eq!(answer.trim(), expected);
}
