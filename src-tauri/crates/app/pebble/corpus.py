"""Pebble's training text: questions written as small grammars in facts/*.txt, answers beside them, and everything else
declined. `conversations(seed)` yields chats for ever; the same seed gives the same chats. `generated_by(question)` says
whether the grammars can produce a question, so that the test can be kept apart from the training.

A fact file holds intents (`## name`) with lines `V:` (verb phrases, put into "how do I ..."), `N:` (noun phrases, put
into "what is ..."), `Q:` (whole questions), `C:` (the plainest questions, drawn more often) and `A:` (answers). `[a|b|]` is a choice, `{m}` a model's name, which the
answer repeats; other `{words}` are lists of facts/off-topic.txt.
"""

import random
import re
from functools import lru_cache
from pathlib import Path

FACTS = Path(__file__).parent / "facts"
PARAMETERS_MILLIONS, FILE_MEGABYTES = "3", "3"

MODELS = """llama3.2 llama3.2:1b llama3.2:3b llama3.1 llama3.1:8b llama3 llama3.3 qwen3 qwen3:0.6b qwen3:4b qwen3:8b qwen2.5
qwen2.5:7b gemma3 gemma3:4b gemma3:12b gemma2 gemma2:2b mistral mistral:7b mistral-small phi3 phi4 phi3:mini gpt-oss
gpt-oss:20b deepseek-r1 deepseek-r1:14b codellama starcoder2 granite3 olmo2 command-r smollm2 tinyllama nomic-embed-text
codestral:22b mixtral vicuna falcon3 yi:6b solar orca-mini zephyr my-model test-model""".split()
SYLLABLES = "ba be bi bo bra cro da del dun fa fi flo ga gli go gru ka kel ki la lo lum ma mi mon na ni nor pa pli po qua ra ri ro sa shi sto ta ti tor va ve vo wix xan yo zam zi zu".split()
NUMBERS = [str(n) for n in [*range(2, 17), *range(18, 23), *range(24, 100), 125, 144, 256, 365, 512, 999, 1024, 2500]]

HOW = """how do i *|how can i *|how to *|how do you *|how does one *|how would i *|how could i *|how should i *|how might i *|what do i do to *|what must i type to *
what do i type to *|what do i enter to *|what is the command to *|what's the command to *|which command do i use to *|i want to *|i'd like to *|i need to *|i would like to *
i have to *|i'm trying to *|i am trying to *|i wish to *|can i *|could i *|may i *|is it possible to *|is there a way to *|is there any way to *|is there a command to *|does cairn let me *
can cairn *|can you *|could you *|please *|* please|*|* how|tell me how to *|show me how to *|explain how to *|could you tell me how to *|can you explain how to *|i'd like to know how to *
what is the best way to *|what's the easiest way to *|the quickest way to *|help me *|help me to *|i don't know how to *|i can't figure out how to *|no idea how to *|steps to *|where do i go to *
where can i *|am i able to *|any way to *|teach me to *|let me *|i want you to *|how do people *|how is one supposed to *|is it hard to *|what if i want to *|suppose i want to *, what then
i want to *, what do i type|i want to *, how|i need to *, what is the command|* - how do i do that|we want to *|how do we *|can we *|guide me to *|instructions to *|command to *|what's needed to *"""
WHAT = """what is *|what's *|what are *|whats *|explain *|explain * to me|explain * please|can you explain *|could you explain *|please explain *|what does * mean|what is meant by *|what do you mean by *|tell me about *
tell me more about *|tell me something about *|* ?|define *|describe *|how does * work|how do * work|what is * for|what is * good for|i don't understand *|i do not understand *|i don't get *|what exactly is *|what is * exactly
* - what is that|*, what is it|in simple words, what is *|give me a short explanation of *|what do i need to know about *|why is there *|do you know *|do you know what * is|what can you tell me about *|i have heard of *, what is it
i keep reading about *, what does it mean|help me understand *|information on *|meaning of *|i'd like to know what * is|could you say what * is|is there something like *|someone mentioned *|what role does * play|question about *"""
ANY = """*|*|*|*|*|*|*|*|*|*|*|*|do you know *|can you tell me *|tell me, *|i'd like to know: *|i wonder, *|please tell me, *|i want to know *|say, *|let me ask: *|could you tell me *|any idea *|question: *"""
BEFORE = """hi|hello|hey|hi pebble|hey pebble|hello pebble|pebble|dear pebble|ok|okay|so|well|um|sorry|excuse me|quick question|a question|one more thing|another question|also|and|then|now|by the way|btw|listen
i'm new here|i am new to this|just installed cairn|i have just installed it|i am a beginner|stupid question|maybe a silly question|my friend asks|my boss wants to know|i read the docs but|thanks|great|cool|alright|good morning
i'm on linux|i use windows|i have a mac|i use a laptop|my machine has 16 gb|i come from ollama|i'm not a programmer|i like this app|first question|next question|last question|hm|one thing i don't understand"""
AFTER = """please|thanks|thank you|in cairn|with cairn|here|on my machine|on my computer|on linux|on windows|pebble|again|now|quickly|exactly|if possible|for me|at all|then|actually|by the way|in the terminal|on this computer|asap|i'm lost
sorry if that is obvious|i could not find it|on my laptop|right now|these days|i'm a beginner|in detail|in short|really"""
LINK = ["and ", "ok, and ", "thanks. ", "great, ", "thanks! ", "good. ", "also, ", "and then, ", "one more: ", "next: ", "ah ok. "]
AGAIN = ["can you repeat that", "say that again", "once more please", "what did you say", "repeat please", "come again", "pardon", "please repeat your last answer", "again please", "i missed that, once more"]
SYSTEMS = """You are a helpful assistant.|You are Pebble.|You are Pebble, the guide of Cairn.|Answer briefly.|You are a friendly assistant.|Be concise.|You are an AI assistant. Answer the user's questions.|Help the user.
You are a helpful, harmless assistant.|Answer in English.|Keep answers short.|You are a chatbot in a terminal.|You are a pirate.|Today is Monday.|The user is a beginner."""
STOP_WORDS = {"how", "do", "i", "the", "a", "is", "to", "can", "my", "what", "an", "are", "of", "me", "does", "please", "you"}


def split(text):
    """The alternatives of a table above, where a line break separates as `|` does."""
    return [part.strip() for line in text.splitlines() for part in line.split("|")]


HOW, WHAT, ANY, BEFORE, AFTER, SYSTEMS = map(split, (HOW, WHAT, ANY, BEFORE, AFTER, SYSTEMS))


class Intent:
    """One thing that Pebble can answer: lines as (wrappers, grammar) and the answers."""

    def __init__(self, name):
        self.name, self.lines, self.plain, self.answers = name, [], [], []


def load():
    """Reads facts/*.txt, where an intent may be met again: (intents, the declining intent, the word lists)."""
    intents, words, off = [], {"a": NUMBERS, "b": NUMBERS, "c": NUMBERS, "year": [str(y) for y in range(1900, 2026)]}, Intent("off-topic")
    for path in sorted(FACTS.glob("*.txt")):
        current = off
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("## "):
                name = line[3:].strip()
                current = next((i for i in intents if i.name == name), None) or Intent(name)
                if current not in intents:
                    intents.append(current)
            elif match := re.match(r"([VNQTCA]): (.*)", line):
                kind, text = match.groups()
                if kind == "A":
                    current.answers.append(text.strip())
                elif kind == "C":
                    current.plain += [(["*"], plain.strip()) for plain in text.split("|")]
                else:
                    assert text.count("[") == text.count("]"), f"{path.name}:{number}: unbalanced choice"
                    current.lines.append(({"V": HOW, "N": WHAT, "Q": ANY, "T": ANY}[kind], text.strip()))
            elif path.name == "off-topic.txt" and (match := re.match(r"(\w+): (.*)", line)):
                words[match[1]] = match[2].split("|")
    return intents, off, words


INTENTS, OFF_TOPIC, WORDS = load()
CHOICE = re.compile(r"\[([^\[\]]*)\]|\{(\w+)\}")


def nonsense(rng):
    """A word that does not exist, so that unknown words lead to an honest answer."""
    return "".join(rng.choices(SYLLABLES, k=rng.choice((2, 2, 3))))


def model_name(rng):
    """The name of a model, sometimes an invented one, so that the model learns to copy names."""
    if rng.random() < 0.8:
        return rng.choice(MODELS)
    return nonsense(rng) + rng.choice(("", "", "2", "3", "-mini", ":7b", ":1b", "3.1", "-chat", ":latest"))


def expand(grammar, rng, bound):
    """One sentence of `grammar`; a model's name is drawn once and kept in `bound`."""

    def fill(match):
        if match[1] is not None:
            return expand(rng.choice(match[1].split("|")), rng, bound)
        if match[2] == "m":
            return bound.setdefault("m", model_name(rng))
        return nonsense(rng) if match[2] == "nonsense" else rng.choice(WORDS[match[2]])

    return re.sub(r"\s+", " ", CHOICE.sub(fill, grammar)).strip()


def typo(word, rng):
    """One slip of the finger."""
    at = rng.randrange(len(word) - 1)
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return rng.choice((swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], word[:at] + rng.choice("aeionrst") + word[at + 1 :]))


def roughen(text, rng):
    """What people do to a sentence: they leave words out, slip, forget capitals and the question mark."""
    words = text.split()
    if len(words) > 4 and rng.random() < 0.06:
        words = [w for w in words if w not in STOP_WORDS] or words
    elif len(words) > 4 and rng.random() < 0.06:
        words.pop(rng.randrange(len(words)))
    if rng.random() < 0.12:
        at = rng.randrange(len(words))
        if words[at].isalpha() and len(words[at]) > 3:
            words[at] = typo(words[at], rng)
    text = " ".join(words)
    if rng.random() < 0.1:
        text = text.replace("'", "")
    if rng.random() < 0.55:
        text = text[:1].upper() + text[1:]
        text = re.sub(r"\bi\b(?!['.:])", "I", text) if rng.random() < 0.8 else text
        text = re.sub(r"\bi'(?=m|v|d|l)", "I'", text)
        for low, high in (("cairn", "Cairn"), ("ollama", "Ollama"), ("openai", "OpenAI"), ("hugging face", "Hugging Face"), ("gguf", "GGUF"), ("kv", "KV"), ("ssd", "SSD"), ("ram", "RAM"), ("api", "API"), ("pebble", "Pebble"), ("avx", "AVX"), ("cpu", "CPU"), ("gb", "GB"), ("lan", "LAN"), ("q4_k_m", "Q4_K_M"), ("q8_0", "Q8_0"), ("anthropic", "Anthropic"), ("json", "JSON"), ("arm", "Arm"), ("python", "Python"), ("pc", "PC"), ("llm", "LLM")):
            text = re.sub(rf"(?<![\w./-]){low}(?![\w/:-]|\.\w)", high, text)
        text = re.sub(r"\b(ollama|cairn)_(\w+)", lambda m: m[0].upper(), text, flags=re.I)
        for name in WORDS["country"] + WORDS["city"] + WORDS["person"] + WORDS["tongue"]:
            if name in text and rng.random() < 0.9:
                text = re.sub(rf"\b{name}\b", name.title(), text)
    elif rng.random() < 0.06:
        text = text.upper()
    if text[-1:].isalnum():
        text += rng.choices(("?", "", ".", "!", "??", " ?"), (55, 30, 9, 3, 2, 1))[0]
    return text


def ask(intent, rng):
    """A question of the intent and the model's name in it, if any."""
    bound = {}
    wrappers, grammar = rng.choice(intent.plain if intent.plain and rng.random() < 0.25 else intent.lines)
    core = expand(grammar, rng, bound)
    text = rng.choice(wrappers).replace("*", core).replace(" ?", "?")
    if rng.random() < 0.14:
        text = rng.choice(BEFORE) + rng.choice((", ", ". ", ": ", " ", "! ", " - ")) + text
    if rng.random() < 0.12:
        text = text + rng.choice((" ", ", ")) + rng.choice(AFTER)
    return (text if "m" in bound and rng.random() < 0.7 else roughen(text, rng)), bound.get("m")


def answer(intent, rng, name):
    """One of the intent's answers, with the model that was asked about."""
    text = rng.choice(intent.answers).replace("{m}", name or "llama3.2")
    return text.replace("{mb}", FILE_MEGABYTES).replace("{params}", PARAMETERS_MILLIONS)


WEIGHTS = [len(intent.lines) ** 0.5 for intent in INTENTS]


def turn(rng):
    """One question with its answer: a quarter is about anything but Cairn."""
    intent = OFF_TOPIC if rng.random() < 0.28 else rng.choices(INTENTS, WEIGHTS)[0]
    question, name = ask(intent, rng)
    return question, answer(intent, rng, name)


def conversation(rng):
    """A chat as a list of (role, text): mostly one question, sometimes up to five, sometimes with a system message."""
    chat = [("system", rng.choice(SYSTEMS))] if rng.random() < 0.15 else []
    turns = 1 if rng.random() < 0.78 else rng.randint(2, 5)
    said = None
    for index in range(turns):
        question, reply = turn(rng)
        if said and rng.random() < 0.04:
            question, reply = roughen(rng.choice(AGAIN), rng), said
        elif index and rng.random() < 0.2:
            question = rng.choice(LINK) + question[:1].lower() + question[1:]
        chat += [("user", question), ("assistant", reply)]
        said = reply
    return chat


def conversations(seed):
    """Chats for ever."""
    rng = random.Random(seed)
    while True:
        yield conversation(rng)


def bare(text):
    """Letters and digits only, in lower case: how questions are compared."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def pattern(grammar):
    """The grammar as a regular expression over bare text."""
    out, at = "", 0
    for match in CHOICE.finditer(grammar):
        out += bare(grammar[at : match.start()])
        if match[1] is not None:
            out += "(?:" + "|".join(pattern(part) for part in match[1].split("|")) + ")"
        elif match[2] == "m":
            out += "(?:" + "|".join(map(bare, MODELS)) + ")"
        elif match[2] == "nonsense":
            out += "(?:" + "|".join(SYLLABLES) + "){2,3}"
        else:
            out += "(?:" + "|".join(map(bare, WORDS[match[2]])) + ")"
        at = match.end()
    return out + bare(grammar[at:])


@lru_cache
def patterns():
    """For each intent, expressions of the wrapped lines without the words before and after."""
    table = []
    for intent in [*INTENTS, OFF_TOPIC]:
        for wrappers, grammar in intent.lines + intent.plain:
            inner = pattern(grammar)
            wrapped = "|".join(f"{bare(w.split('*')[0])}(?:{inner}){bare(w.split('*')[1])}" for w in sorted(set(wrappers)))
            table.append((intent.name, re.compile(wrapped)))
    return table


def generated_by(question):
    """The intent whose grammar produces `question` (words before and after included), or None."""
    wanted = bare(question)
    starts = [""] + [b for b in map(bare, BEFORE) if wanted.startswith(b)]
    ends = [""] + [b for b in map(bare, AFTER) if wanted.endswith(b)]
    for name, expression in patterns():
        for start in starts:
            for end in ends:
                if expression.fullmatch(wanted, len(start), len(wanted) - len(end)):
                    return name
    return None


if __name__ == "__main__":
    for _, chat in zip(range(30), conversations(1)):
        print(*(f"{role:>9}: {text}" for role, text in chat), "", sep="\n")
