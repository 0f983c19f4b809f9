"""Loops of a reader's lines, watched: one that does not end would hang the GPU, and the page with it.

Each is left after ROUNDS rounds, and a buffer that is bound besides then says so. Where invocations are to wait for
each other, about half of them are held up a little between two rounds: where a barrier is missing they would often be
on time by chance. Nothing else changes, lines included.
"""

import re

ROUNDS = 4096  # no call of a lab's needs as many in one loop
SAYS = "lab_endless"  # the buffer, whose second word counts who comes by to be held up,
WAIT = 32  # so many reads of the buffer long,
HELD_UP = 16  # in so many rounds of a loop: llvmpipe leaves every loop after 65,535 rounds of all together
WORD = re.compile(r"[A-Za-z_0-9]+")


def masked(source: str) -> str:
    """The same without comments, at the same places."""
    made, i = [], 0
    while i < len(source):
        end = i
        if source[i : i + 2] == "//":
            end = source.find("\n", i)
            end = len(source) if end < 0 else end
        elif source[i : i + 2] == "/*":
            end = source.find("*/", i)
            end = len(source) if end < 0 else end + 2
        if end > i:
            made.append("".join(["\n" if letter == "\n" else " " for letter in source[i:end]]))
            i = end
        else:
            made.append(source[i])
            i += 1
    return "".join(made)


def body_of(code: str, start: int) -> int:
    """Where the body of the loop that begins here opens; -1 where it does not."""
    depth = 0
    for i in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if code[i] == "{" and depth == 0:
            return i
    return -1


def watched(source: str, hold_up: bool = False) -> str:
    """The lines, with their loops counted; as they are where there are none."""
    code, found, at = masked(source), [], 0
    while at < len(code):
        match = WORD.match(code[at:])
        word = match.group(0) if match else code[at]
        if word in ("for", "while", "loop"):
            body = body_of(code, at)
            if body < 0:
                return source  # the compiler says what is wrong with it
            found.append((at, body))
        at += len(word)
    holds_up = hold_up and len(found) > 0
    insertions = []
    for number in range(len(found)):
        name = f"lab_rounds_{number}"
        insertions.append((found[number][0], f"var {name} = 0u; "))
        held = f" if ({name} > 0u && {name} < {HELD_UP}u) {{ lab_hold_up(); }}" if holds_up else ""
        counted = f"{held} {name} += 1u; if ({name} > {ROUNDS}u) {{ atomicStore(&{SAYS}[0], 1u); break; }}"
        insertions.append((found[number][1] + 1, counted))
    for place, text in sorted(insertions, reverse=True):
        source = source[:place] + text + source[place:]
    return source


def free_binding(frame: str) -> int:
    """A number that no entry point of the file has."""
    taken = [int(part.split(")")[0]) for part in frame.split("@binding(")[1:]]
    return max(taken) + 1


def declared(binding: int) -> str:
    """32 that come by together are held up together, or not: by chance, as neighbours are to be apart."""
    return f"""@group(0) @binding({binding}) var<storage, read_write> {SAYS}: array<atomic<u32>, 2>;
fn lab_hold_up() {{
  if (atomicAdd(&{SAYS}[1], 1u) / 32u * 2654435769u >= 0x80000000u) {{
    for (var i = 0u; i < {WAIT}u; i++) {{
      if (atomicLoad(&{SAYS}[0]) == 2u) {{ break; }}
    }}
  }}
}}
"""
