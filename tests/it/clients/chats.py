"""Chats through the `ollama` package: many conversations of five turns, several at a time.

Arguments: host, pid of the daemon, number of conversations, concurrency. Sampling is greedy. A first, sequential pass
over some conversations gives the expected answers. Prints one JSON object: the counts, the mismatches, and the daemon's
resident memory after a fifth of the conversations and after all.
"""

import concurrent.futures
import json
import sys

import ollama

host, pid, conversations, at_once = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

OPENERS = ["How do I pull a model?", "What is a cache tier?", "Who are you?", "Where are my models kept?", "Is this private?"]
TURNS = ["Tell me more.", "Why?", "How do I stop a model?", "Which kernel runs here?", "And the settings?", "Thanks!"]


def questions(number):
    """Return five questions; each conversation has another sequence."""
    opener = f"{OPENERS[number % len(OPENERS)]} I am user number {number}."
    return [opener] + [TURNS[(number // len(TURNS) ** turn) % len(TURNS)] for turn in range(4)]


def resident_bytes():
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def converse(number):
    client = ollama.Client(host=host)
    messages, answers, reused = [], [], 0
    for turn, question in enumerate(questions(number)):
        messages.append({"role": "user", "content": question})
        text, last = "", None
        # Odd turns stream.
        if turn % 2:
            for part in client.chat("pebble", messages, stream=True, options={"temperature": 0, "num_predict": 40}):
                text += part.message.content or ""
                last = part
        else:
            last = client.chat("pebble", messages, options={"temperature": 0, "num_predict": 40})
            text = last.message.content
        assert last.done and last.done_reason in ("stop", "length"), f"conversation {number} did not end: {last}"
        assert last.prompt_eval_count > 0 and last.eval_count > 0, f"counts are missing: {last}"
        reused += (last.model_extra or {}).get("cached_tokens", 0) if hasattr(last, "model_extra") else 0
        messages.append({"role": "assistant", "content": text})
        answers.append(text)
    return answers, reused


expected = {number: converse(number)[0] for number in range(0, conversations, max(1, conversations // 10))}
mixed_up, errors, rss_early, done = [], [], 0, 0
with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
    futures = {pool.submit(converse, number): number for number in range(conversations)}
    for future in concurrent.futures.as_completed(futures):
        number = futures[future]
        done += 1
        try:
            answers, _ = future.result()
            if number in expected and answers != expected[number]:
                mixed_up.append(number)
        except Exception as error:  # report every failure
            errors.append(f"conversation {number}: {error!r}")
        if done == max(1, conversations // 5):
            rss_early = resident_bytes()
print(json.dumps({
    "conversations": done, "compared": len(expected), "mixed_up": mixed_up, "errors": errors,
    "rss_early": rss_early, "rss_late": resident_bytes(),
}))
