"""Changes of C sources that tests should notice, one at a time; `scripts/mutants.py` uses them.

Works on the text, formatted by clang-format: comments, strings and preprocessor lines are blanked
first, positions stay.  What does not compile is left to the caller.

Operators: relational and logical operators, arithmetic, constants by one up or down and doubled,
negated conditions, deleted statements.
"""

import re
from collections.abc import Iterator

_NO_CODE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)

_SWAPS = {
    "<": ("<=",),
    "<=": ("<",),
    ">": (">=",),
    ">=": (">",),
    "==": ("!=",),
    "!=": ("==",),
    "&&": ("||",),
    "||": ("&&",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "%": ("/",),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|",),
    "|": ("&",),
    "+=": ("-=",),
    "-=": ("+=",),
}
_OPERATOR = re.compile(
    r"(?<= )(" + "|".join(map(re.escape, sorted(_SWAPS, key=len, reverse=True))) + r")(?=[ \n])"
)
"""A binary operator has spaces about it; a unary one, and a pointer's star, have not."""

_CONSTANT = re.compile(r"(?<![\w.])(\d+)(?=[uU]?[lL]{0,2}(?![\w.]))")
_CONDITION = re.compile(r"\b(?:if|while) \(")
_STATEMENT = re.compile(
    r"^[ \t]+(?!return\b|goto\b|break\b|continue\b|ASSERT|static_assert)"
    r"(?:\(void\))?\*?[a-z_][\w.]*(?:->\w+|\.\w+|\[[^]\n]*\])*"
    r"(?:\([^\n]*\)| (?:=|[-+*/|&^]=|<<=|>>=) [^\n]*|\+\+|--);$",
    re.MULTILINE,
)

Change = tuple[int, int, str, str]
"""Begin and end in the text, the new text, name of the operator."""


def changes(text: str) -> Iterator[Change]:
    """Yield every change of one source, in no particular order."""
    code = _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    for found in _OPERATOR.finditer(code):
        for new in _SWAPS[found.group()]:
            yield found.start(), found.end(), new, f"{found.group()} to {new}"
    for found in _CONSTANT.finditer(code):
        value = int(found.group())
        for new_value in sorted({value + 1, value - 1, value * 2} - {value, -1}):
            yield found.start(), found.end(), str(new_value), f"{value} to {new_value}"
    for found in _CONDITION.finditer(code):
        begin, end = found.end(), _closing(code, found.end())
        yield begin, end, f"!({text[begin:end]})", "condition negated"
    for found in _STATEMENT.finditer(code):
        begin = found.start() + len(found.group()) - len(found.group().lstrip())
        yield begin, found.end(), ";", "statement deleted"


def _closing(code: str, begin: int) -> int:
    """Return where the parenthesis that is open at `begin` closes."""
    depth = 1
    for position in range(begin, len(code)):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code)
