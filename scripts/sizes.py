"""Print the lines of each room, and of code: without docstrings, comments and blank lines."""

import ast
import io
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDANCE = {"tuner": 20_000, "rand_malloc": 14_500, "allocator": 10_000, "tests": 16_000,
            "benchmarks": 4_000}  # fmt: skip
"""Lines that we would like; docs/decisions/packaging.md says why some rooms are larger."""
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENCODING, tokenize.ENDMARKER}  # fmt: skip


def code_lines(source: str) -> int:
    """Return the lines of Python that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def main() -> None:
    """Print the table."""
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    whole: Counter[str] = Counter()
    code: Counter[str] = Counter()
    for path in map(Path, listed.stdout.decode().split()):
        room = path.parts[0]
        if path.suffix in {".py", ".c", ".h", ".cpp", ".cc", ".def"}:
            source = (ROOT / path).read_text(encoding="utf-8")
            whole[room] += source.count("\n")
            code[room] += code_lines(source) if path.suffix == ".py" else 0
    print(f"{'room':<14}{'lines':>8}{'Python code':>13}{'guidance':>10}")
    for room, lines in whole.most_common():
        print(f"{room:<14}{lines:>8}{code[room] or '':>13}{GUIDANCE.get(room, ''):>10}")
    pages = sum(path.stat().st_size for path in (ROOT / "docs").rglob("*.md"))
    print(f"docs: {pages / 1000:.0f} kB of Markdown (guidance: 150)")


if __name__ == "__main__":
    main()
