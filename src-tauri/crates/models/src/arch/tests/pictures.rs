//! Positions with components, and rows of a tower behind the first layers.

use cairn_gguf::Value;
use cairn_tensor::{Op, Reference};

use super::{file, with_layers};
use crate::load;
use crate::tiny::Tiny;

#[test]
fn pairs_turn_by_components_in_sections_or_in_turns() {
    let components = |family: &str, sections: Vec<i32>| {
        let mut model = Tiny::new(family, 5);
        model.set("rope.dimension_sections", sections);
        let model = load(&file(&model.bytes()), 64, &mut Reference::new()).expect("the model is whole");
        model.plan.ropes[0].components.clone()
    };
    assert_eq!(components("qwen2vl", vec![1, 2, 1, 0]), [0, 1, 1, 2], "one section after the other");
    assert_eq!(components("qwen2vl", vec![1, 1, 1]), [0, 1, 2, 2], "the last section has the rest");
    assert_eq!(components("qwen3vl", vec![2, 1, 1, 0]), [0, 1, 2, 0], "components take turns");
    assert_eq!(components("qwen3vl", vec![3, 1, 0, 0]), [0, 1, 0, 0], "time has the pairs of an empty section");
    assert_eq!(components("qwen3vlmoe", vec![2, 1, 1, 0]), [0, 1, 2, 0], "with experts, too");
    assert_eq!(components("qwen3vl", vec![4, 0, 0, 0]), [0; 0], "one section is the usual rotation");
}

#[test]
fn rows_of_a_tower_are_added_behind_the_first_layers() {
    for family in ["qwen3vl", "qwen3vlmoe"] {
        let mut model = with_layers(&Tiny::new(family, 5), 3);
        model.set("n_deepstack_layers", 2u32);
        let model = load(&file(&model.bytes()), 64, &mut Reference::new()).expect("the model is whole");
        let (plan, width) = (&model.plan, model.hparams.embedding_length);
        let mut attentions = 0;
        let mut added = Vec::new();
        for ops in plan.ops.windows(2) {
            attentions += usize::from(matches!(ops[0], Op::Attention { .. }));
            if let Op::AddInput { x, first } = ops[1] {
                assert!(matches!(ops[0], Op::Add { x: stream, .. } if stream == x), "{family}: behind the layer's sum");
                added.push((attentions, first));
            }
        }
        assert_eq!(added, [(1, width), (2, 2 * width)], "{family}: layers before, and the part of an embedding row");
        assert_eq!(plan.input_width(), 3 * width, "{family}: elements of an embedding row");
    }
    let mut model = Tiny::new("qwen3vl", 5);
    model.set("n_deepstack_layers", Value::from(99u32));
    let error = load(&file(&model.bytes()), 64, &mut Reference::new()).expect_err("there are not so many layers");
    assert!(error.to_string().contains("n_deepstack_layers`: 99 of"), "{error}");
}
