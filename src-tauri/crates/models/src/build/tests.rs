//! Builds without a backend.

use super::*;

#[test]
fn plan_that_does_not_fit_its_weights_is_refused_without_a_backend() {
    let file = cairn_testkit::write(&cairn_testkit::tiny_llama());
    let gguf = Gguf::parse(&file).expect("testkit writes complete files");
    let name = "blk.0.attn_q.weight";
    let [cols, rows] = gguf.tensor(name).expect("a Llama has it").dims[..] else { panic!("a matrix") };
    let (rows, cols) = (rows as usize, cols as usize);
    let check = |width: usize, is_first: bool| {
        let mut b = Builder::new(Source::Head(&gguf), &[], 0, None);
        let weight = b.matrix(name, rows, cols);
        let (x, out) = (b.buffer(width), b.buffer(rows));
        b.push(Op::MatMul { x, projections: vec![Projection { weight, bias: None, out }] });
        if is_first {
            // As the encoder of a model that has a decoder beside it.
            b.take_plan()?;
        }
        b.finish().map(drop)
    };
    for is_first in [false, true] {
        check(cols, is_first).expect("the input is as wide as the matrix");
        let error = check(cols + 32, is_first).expect_err("a wider input").to_string();
        assert!(error.contains(&format!("its input is {} wide", cols + 32)), "{error}");
    }
}
