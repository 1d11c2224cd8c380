"""Questions about a picture and their answers."""

ANSWERS = {
    "both": "This is {article} {color} {shape}.",
    "shape": "The shape is {article_of_shape} {shape}.",
    "color": "The color is {color}.",
}
QUESTIONS = {
    "both": ["What is this?", "What is in this picture?", "What do you see?", "Describe the image.", "What does the picture show?", "Describe this picture in one sentence.", "What's in the image?"],
    "shape": ["Which shape is this?", "What shape do you see?", "Name the shape.", "Which shape does the picture have?"],
    "color": ["Which color is it?", "What color is the shape?", "Name the color.", "Which colour is this?", "What color do you see?"],
}


def article(word):
    return "an" if word[0] in "aeiou" else "a"


def answer(kind, color, shape):
    """The answer to a question of this kind."""
    return ANSWERS[kind].format(article=article(color), article_of_shape=article(shape), color=color, shape=shape)


def chat(bpe, question, reply=None):
    """Ids of a chat of one question behind a picture, with its reply or up to it; and the place of the picture's rows."""
    head = [bpe.im_start] + bpe.encode("user\n")
    ids = head + bpe.encode(question) + [bpe.im_end] + bpe.encode("\n") + [bpe.im_start] + bpe.encode("assistant\n")
    start = len(ids)
    if reply is not None:
        ids += bpe.encode(reply) + [bpe.im_end]
    return ids, start, len(head)
