"""Changes of Python sources, one at a time; `scripts/mutants.py` uses them.

The operators are cosmic-ray's.  What changes nothing but annotations, whether a record is frozen,
or whether a parameter has to be named is left out: that is mypy's part.
"""

import ast
from collections.abc import Iterator

Change = tuple[str, int]
"""Name of cosmic-ray's operator, and at which of its places from 0."""

_IDENTITY = {"ReplaceComparisonOperator_Is_Eq", "ReplaceComparisonOperator_IsNot_NotEq"}
"""Left out: an object equals itself, and what we compare by identity equals nothing else."""


def changes(text: str) -> Iterator[Change]:
    """Yield every change of one source, in no particular order."""
    import parso  # noqa: F401, PLC0415  (cosmic-ray's plugins import it the wrong way round)
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator, operator_names  # noqa: PLC0415

    tree = get_ast(text)
    for name in operator_names():
        if name.rpartition("/")[2] in _IDENTITY:
            continue
        operator = get_operator(name)
        if operator.arguments():
            continue
        n_places = sum(1 for node in ast_nodes(tree) for _ in operator().mutation_positions(node))
        yield from ((name, occurrence) for occurrence in range(n_places))


def apply(text: str, change: Change) -> str | None:
    """Return the changed source; None when it is no program, or behaves as before by its syntax."""
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator  # noqa: PLC0415

    name, occurrence = change
    try:
        changed: str | None = mutate_code(text, get_operator(name)(), occurrence)
    except AttributeError:  # cosmic-ray 8.4 takes a dotted exception for a name
        return None
    if changed is None or _behaviour(changed) in (None, _behaviour(text)):
        return None
    return changed


class _Behaviour(ast.NodeTransformer):
    """Leave out what is mypy's part.

    That is annotations, that a record is frozen, and that a parameter has to be named.
    """

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.posonlyargs, node.kwonlyargs = [], []
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)


def _behaviour(text: str) -> str | None:
    """Return what a program does, as text; None when it is no program."""
    try:
        return ast.dump(_Behaviour().visit(ast.parse(text)))
    except SyntaxError:
        return None
