"""Random and hostile texts, by kind. Each kind takes a random generator and the names of special tokens."""

import unicodedata

WORDS = (
    "the of and Hello WORLD it's they'LL we'Ve I'm don't O'Neill x2 3.14 1234567 don’t naïve café Straße ΑΒΓ αβγς привет ПРИВЕТ"
    " これは テスト です 漢字 测试文本 中文字符 한국어 시험 สวัสดี नमस्ते हिन्दी مرحبا العربية שלום ភាសាខ្មែរ İstanbul ſtraße Kelvin ﬁne ＦＵＬＬ ½ ② Ⅷ ٣٤٥ १२३"
    " fn main() { return 0; } if(x!=y) std::vector<int> a[i]++ // -> => == &&= #include <stdio.h> \\n %s {} [] ../../ http://a.b/?c=d&e"
).split(" ")
EMOJI = "😀 😂 🦙 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 ❤️ 🚀 (normal) 😶‍🌫️ ✅ 1️⃣".split(" ")
MARKS = [chr(c) for c in (*range(0x300, 0x33F), *range(0x591, 0x5A0), *range(0x64B, 0x653), 0x93C, 0x94D, 0x20DD, 0xFE0F, 0x200D)]
SPACES = [" "] * 12 + ["\n"] * 5 + ["\t"] * 3 + list("\r\v\f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000") + ["\r\n", "  ", "    "]
CONTROLS = [chr(c) for c in (*range(1, 32), 0x7F, *range(0x80, 0xA0), 0xAD, 0x200B, 0x200E, 0x2060, 0xFEFF, 0xFFFD, 0xE000, 0xF8FF)]
ASSIGNED = [chr(c) for c in range(1, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
PLANES = [(0x20, 0x7F), (0x80, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x1100, 0x1200), (0x3040, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x1F300, 0x1FA00)]


def blend(chance, parts, least, most, joint=("", " ", " ", "  ", "\n")):
    return "".join(chance.choice(parts) + chance.choice(joint) for _ in range(chance.randint(least, most)))


def block(chance):
    first, last = chance.choice(PLANES)
    return "".join(chr(chance.randrange(first, last)) for _ in range(chance.randint(1, 6)))


KINDS = {
    "words": lambda c, s: blend(c, WORDS, 1, 30),
    "spaces": lambda c, s: blend(c, SPACES + ["a", "1", ".", "é"], 1, 25, ("",)),
    "marks": lambda c, s: blend(c, MARKS + ["e", "A", " ", "ا", "न", "漢", "1"], 1, 20, ("",)),
    "controls": lambda c, s: blend(c, CONTROLS + ["a", " ", "é", "漢"], 1, 20, ("",)),
    "emoji": lambda c, s: blend(c, EMOJI + ["a", " "], 1, 15),
    "numbers": lambda c, s: blend(c, list("0123456789") * 3 + list("½②Ⅷ٣१., a-+e"), 1, 30, ("",)),
    "quotes": lambda c, s: blend(c, ["'", "’", "s", "S", "ſ", "t", "T", "re", "RE", "ve", "ll", "Ll", "m", "d", "D", " ", "K", "a"], 1, 15, ("",)),
    "blocks": lambda c, s: blend(c, [block(c) for _ in range(6)], 1, 12),
    "assigned": lambda c, s: blend(c, ASSIGNED, 1, 20, ("", "", " ")),
    "repeats": lambda c, s: c.choice(WORDS + EMOJI + SPACES + list("ab-=_#*.▁")) * c.randint(1, 80) + c.choice(["", "a", " b"]),
    "any": lambda c, s: "".join(chr(c.choice([c.randrange(1, 0xD800), c.randrange(0xE000, 0x110000)])) for _ in range(c.randint(1, 12))),
    "special": lambda c, s: blend(c, s + WORDS[:20] + SPACES[:20] if s else WORDS, 1, 12, ("", "", " ", "\n")),
}
