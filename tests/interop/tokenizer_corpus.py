"""Text that tokenizers stumble over, made the same on every machine: combining marks, emoji sequences, CJK, Hangul jamo,
right-to-left scripts, white space of all kinds, control characters, digits, contractions, code, very long words.

Only code points assigned in Unicode 13, so that libraries with newer tables agree with those with older ones.
"""
import random
import unicodedata

WORDS = (
    "The capital of France is Paris don't I'll we've it's you're I'm he'd CAN'T DON'T 'S function() { return x+1; } "
    '<div class="a"> 3.14159 1,000,000 0x1F 2024-01-02 foo_bar camelCase HTTPServer https://a.b/c?d=e&f=g x==y != <= '
    "-> :: /* c */ // # $HOME `ls` naïve café Über straße İstanbul ﬁ ﬂ ſ it'ſ ΑΣ Σίσυφος Привет мир שלום עולם مرحبا "
    "بالعالم हिन्दी ไทย 你好世界 こんにちは カタカナ 한국어 ᄀᆞᆨ 𝒜𝓁 𝟘𝟙 ①② ½ Ⅷ ٣٤٥ ४५ 👩‍👩‍👧‍👦 👍🏽 🇫🇷 ❤️ ▁ ▁▁ Ġ Ċ <0x0A> "
    "<s> </s> <unk> <|endoftext|> <|im_start|> <|im_end|> <bos> <eos> <pad> <think> </think> <start_of_turn> "
    "<|begin_of_text|> [INST] [/INST] [MASK] <｜User｜> ' '' \" ``' ... … — – • © ® ™ € £ ¥ ∑ ∀ ≠ → ■ \ufffd"
).split(" ") + ["e\u0301", "a\u0308\u0304", "o\u0327\u0302", "\ufeff", "\0", "\x01", "\x7f", "\u200d", "\u202e", "\u00ad", "\u0600"]
SPACES = ["  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\xa0", "\u2003", "\u3000", "\u200b", "\u180e", "\x85", "\u2028",
          "\u2029", "\x0b", "\x0c", " \n", " \t ", "\x1c"]
BLOCKS = [(0, 0x80), (0x80, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0xE00, 0x1200),
          (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2C00), (0x3000, 0x3400), (0x4E00, 0x9FFD),
          (0xAC00, 0xD7A4), (0xF900, 0x10000), (0x1D400, 0x1D7CC), (0x1F300, 0x1F6D8), (0, 0x110000)]
# Ranges that Unicode 14 and 15 filled, for a Python whose unicodedata is newer than 13.
LATER = """61D 870-88E 890-891 898-89F 8B5 8C8-8D2 C3C C5D CDD CF3 ECE 170D 1715 171F 180F 1AC1-1ACE 1B4C 1B7D-1B7E 1DFA 20C0
2C2F 2C5F 2E53-2E5D 9FFD-9FFF A7C0-A7C1 A7D0-A7D9 A7F2-A7F4 FBC2 FD40-FD4F FDCF FDFE-FDFF 10570-105BC 10780-107BA 10EFD-10EFF
10F70-10F89 11070-11075 110C2 11240-11241 116B9 11740-11746 11AB0-11ABF 11B00-11B09 11F00-11F59 12F90-12FF2 13430-13455
16A70-16AC9 1AFF0-1AFFE 1B11F-1B155 1CF00-1CFC3 1D1E9-1D1EA 1D2C0-1D2D3 1DF00-1DF2A 1E030-1E08F 1E290-1E2AE 1E4D0-1E4F9
1E7E0-1E7FE 1F6DC-1F6DF 1F774-1F776 1F77B-1F77F 1F7D9 1F7F0 1F979 1F9CC 1FA75-1FA77 1FA7B-1FA88 1FAA9-1FAAF 1FAB7-1FABF
1FAC3-1FAC5 1FACE-1FADB 1FAE0-1FAF8 2A6DE-2A6DF 2B735-2B739 31350-323AF"""


def code_points():
    """All that Unicode 13 assigns, private use left out."""
    later = set()
    for entry in LATER.split():
        first, _, last = entry.partition("-")
        later.update(range(int(first, 16), int(last or first, 16) + 1))
    return [c for c in range(0x110000) if c not in later and unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def corpus(count, seed=7):
    """`count` texts and a few short edge cases."""
    pick = random.Random(seed)
    known = code_points()
    blocks = [[c for c in known if low <= c < high] for low, high in BLOCKS]

    def characters(block, most):
        return "".join(chr(pick.choice(block)) for _ in range(pick.randrange(1, most)))

    def part():
        kind = pick.random()
        if kind < 0.45:
            return pick.choice(WORDS)
        if kind < 0.6:
            return "".join(characters(pick.choice(blocks), 3) for _ in range(pick.randrange(1, 5)))
        if kind < 0.8:
            return characters(pick.choice(blocks), 9)
        if kind < 0.85:
            return "".join(pick.choice("0123456789") for _ in range(pick.randrange(1, 12)))
        if kind < 0.87:
            return pick.choice(["a", "ab", "xyz", "=", "-", "é", "字", "1", " ", "\n"]) * pick.randrange(1, 300)
        return "".join(pick.choice(SPACES) for _ in range(pick.randrange(1, 5)))

    def separator():
        return (pick.choice(SPACES) if pick.random() < 0.3 else " ") if pick.random() < 0.55 else ""

    texts = ["".join(part() + separator() for _ in range(pick.choice([1, 2, 3, 5, 8, 13, 21, 40]))) for _ in range(count)]
    return texts + ["", " ", "  ", "\n", " a", "a ", "▁", " ▁", "<s>", "<s> a", " <s>a</s> b", "a\0b"]
