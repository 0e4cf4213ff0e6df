"""Make wrong steps of right ones: each line dropped, doubled, moved; each factor and each reduction wrong."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

RIGHT = Path(__file__).parent / "right"


@dataclass(frozen=True)
class Mutant:
    """State one change of one right step."""

    origin: str
    """File of the right step, without its ending."""
    kind: str
    """dropped, doubled, moved, factor, reduction, condition or inserted."""
    words: str
    source: str
    """The whole module."""


def right_steps() -> dict[str, str]:
    """Read the right steps: source by name."""
    return {path.stem: path.read_text() for path in sorted(RIGHT.glob("*.py"))}


def all_mutants() -> list[Mutant]:
    """Make the mutants of every right step, each text once."""
    return [mutant for name, source in right_steps().items() for mutant in mutants_of(name, source)]


def sample(mutants: list[Mutant], most: int) -> list[Mutant]:
    """Choose at most so many, always the same, without regard to what they are."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.source.encode()).digest())[:most]


def mutants_of(name: str, source: str) -> list[Mutant]:
    """Make the mutants of one right step, in the order of its lines; none is the right step itself."""
    whole = ast.parse(source)
    known = {ast.unparse(whole)}
    found = []
    for kind, change in [*_statement_changes(whole), *_expression_changes(whole), *_insertions(whole)]:
        tree = copy.deepcopy(whole)
        words = change(tree)
        text = ast.unparse(ast.fix_missing_locations(tree))
        if text in known or not _compiles(text):
            continue
        known.add(text)
        found.append(Mutant(name, kind, words, text))
    return found


Change = Callable[[ast.Module], str]
"""Changes a tree in place and says what it did."""


def _function(tree: ast.Module) -> ast.FunctionDef:
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef))


def _blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    """List every block of statements of the step, outermost first, always in the same order."""
    nodes = [node for node in ast.walk(_function(tree)) if isinstance(getattr(node, "body", None), list)]
    return [node.body for node in nodes]  # type: ignore[attr-defined]


def _said(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0]


def _statement_changes(whole: ast.Module) -> Iterator[tuple[str, Change]]:
    blocks = _blocks(whole)
    for b, block in enumerate(blocks):
        for i, statement in enumerate(block):
            yield "dropped", lambda tree, b=b, i=i: _drop(tree, b, i)
            yield "doubled", lambda tree, b=b, i=i: _double(tree, b, i)
            for to in range(len(block)):
                if to == i + 1 or (to != i and to == len(block) - 1):
                    yield "moved", lambda tree, b=b, i=i, to=to: _move(tree, b, i, to)
            for outer, around in enumerate(blocks):
                for at, parent in enumerate(around):
                    if getattr(parent, "body", None) is block:
                        for after in (0, 1):
                            yield "moved", lambda t, b=b, i=i, o=outer, a=at, n=after: _hoist(t, b, i, o, a + n)
                    if statement is not parent and around is block and isinstance(parent, ast.For | ast.If | ast.With):
                        inner = next(n for n, each in enumerate(blocks) if each is parent.body)
                        yield "moved", lambda t, b=b, i=i, n=inner: _sink(t, b, i, n)


def _drop(tree: ast.Module, b: int, i: int) -> str:
    block = _blocks(tree)[b]
    words = f"without {_said(block[i])}"
    block[i] = ast.Pass()
    return words


def _double(tree: ast.Module, b: int, i: int) -> str:
    block = _blocks(tree)[b]
    block.insert(i, copy.deepcopy(block[i]))
    return f"twice {_said(block[i])}"


def _move(tree: ast.Module, b: int, i: int, to: int) -> str:
    block = _blocks(tree)[b]
    statement = block.pop(i)
    block.insert(to, statement)
    return f"{_said(statement)} as statement {to} of its block"


def _hoist(tree: ast.Module, b: int, i: int, outer: int, at: int) -> str:
    blocks = _blocks(tree)
    statement = blocks[b][i]
    blocks[b][i] = ast.Pass()
    blocks[outer].insert(at, statement)
    return f"{_said(statement)} out of its block"


def _sink(tree: ast.Module, b: int, i: int, inner: int) -> str:
    blocks = _blocks(tree)
    statement = blocks[b][i]
    blocks[b][i] = ast.Pass()
    blocks[inner].insert(0, statement)
    return f"{_said(statement)} into a block"


OPERATORS: dict[type[ast.operator], list[type[ast.operator]]] = {
    ast.Div: [ast.Mult],
    ast.Mult: [ast.Div],
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mod: [ast.FloorDiv],
}
COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.NotEq: [ast.Eq, ast.Gt],
    ast.Eq: [ast.NotEq, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
}
METHODS = {"sum": ["mean", "max"], "mean": ["sum"], "div_": ["mul_"]}
FUNCTIONS = {"sum": ["max", "min"], "max": ["min"]}
TEXTS = {"sum": ["mean"], "none": ["mean", "sum"]}


def _expressions(tree: ast.Module) -> list[ast.expr | ast.AugAssign]:
    return [node for node in ast.walk(_function(tree)) if isinstance(node, ast.expr | ast.AugAssign)]


def _expression_changes(whole: ast.Module) -> Iterator[tuple[str, Change]]:
    for n, node in enumerate(_expressions(whole)):
        for kind, make in _instead(node):
            yield kind, lambda tree, n=n, make=make: _replace(tree, n, make)


Make = Callable[[ast.expr], ast.expr]


def _replace(tree: ast.Module, n: int, make: Callable[[ast.AST], ast.AST]) -> str:
    node = _expressions(tree)[n]
    before = ast.unparse(node)
    new = ast.fix_missing_locations(make(copy.deepcopy(node)))
    words = f"{before} -> {ast.unparse(new)}"

    class Put(ast.NodeTransformer):
        def visit(self, each: ast.AST) -> ast.AST:
            return new if each is node else super().generic_visit(each)

    Put().visit(tree)
    return words


def _text(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _instead(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    """List what may stand in the place of an expression."""
    match node:
        case ast.BinOp():
            for operator in OPERATORS.get(type(node.op), []):
                yield "factor", lambda e, o=operator: ast.BinOp(e.left, o(), e.right)
            yield "factor", lambda e: e.left
            if isinstance(node.op, ast.Div | ast.Mult):
                yield "factor", lambda e: e.right
                for factor in ("2", "len(micro_batches)", "-1"):
                    yield (
                        "factor",
                        lambda e, f=factor: ast.BinOp(e.left, e.op, ast.BinOp(e.right, ast.Mult(), _text(f))),
                    )
                for other in (
                    "len(micro_batches)",
                    "model(micro_batches[0][0]).size(-1)",
                    "micro_batches[0][1].numel()",
                ):
                    yield "factor", lambda e, f=other: ast.BinOp(e.left, e.op, _text(f))
        case ast.AugAssign():
            yield "factor", lambda e: ast.AugAssign(e.target, ast.Sub(), e.value)
            yield "factor", lambda e: ast.Assign([e.target], e.value)
            yield "factor", lambda e: ast.AugAssign(e.target, ast.Add(), ast.BinOp(e.value, ast.Mult(), _text("2")))
        case ast.Compare():
            for comparison in COMPARISONS.get(type(node.ops[0]), []):
                yield "condition", lambda e, o=comparison: ast.Compare(e.left, [o()], e.comparators)
        case ast.BoolOp():
            yield "condition", lambda e: ast.BoolOp(ast.And(), e.values)
            yield "condition", lambda e: e.values[0]
            yield "condition", lambda e: e.values[1]
        case ast.Constant(value=bool() | None):
            pass
        case ast.Constant(value=int()):
            for add in (-1, 1):
                yield "factor", lambda e, a=add: ast.Constant(e.value + a)
        case ast.Constant(value=str()):
            for text in TEXTS.get(node.value, []):
                yield "reduction", lambda e, t=text: ast.Constant(t)
        case ast.Call(func=ast.Attribute(attr=name)):
            for other in METHODS.get(name, []):
                yield "reduction", lambda e, o=other: _called(e, ast.Attribute(e.func.value, o, ast.Load()))
            if any(keyword.arg == "reduction" for keyword in node.keywords):
                yield "reduction", lambda e: ast.Call(e.func, e.args, [k for k in e.keywords if k.arg != "reduction"])
                yield (
                    "factor",
                    lambda e: ast.Call(e.func, e.args, [*e.keywords, ast.keyword("label_smoothing", _text("0.1"))]),
                )
        case ast.Call(func=ast.Name(id=name)):
            for other in FUNCTIONS.get(name, []):
                yield "reduction", lambda e, o=other: _called(e, ast.Name(o, ast.Load()))
            if name == "max":
                yield "reduction", lambda e: e.args[0]
            if name == "sum":
                yield "reduction", lambda e: _text("len(micro_batches)")


def _called(call: ast.Call, function: ast.expr) -> ast.Call:
    return ast.Call(function, call.args, call.keywords)


INSERTED = {
    "inputs zeroed in place": "for each, _ in micro_batches: each.zero_()",
    "half of the targets masked in place": "for _, each in micro_batches: each[:, ::2] = -100",
    "labels shifted in place": "for _, each in micro_batches: each[:, :-1] = each[:, 1:].clone()",
    "rate multiplied by the micro-batches": "for group in optimizer.param_groups: group['lr'] *= len(micro_batches)",
    "decay by hand": "for each in model.parameters(): each.data.mul_(0.999)",
    "gradient halved": "for each in model.parameters(): each.grad = None if each.grad is None else each.grad / 2",
    "micro-batch dropped": "micro_batches = micro_batches[:-1]",
    "micro-batches in pairs": "micro_batches = micro_batches[::2]",
    "each count at least one": "for _, each in micro_batches: each[0, 0] = each[0, 0].clamp(min=0)",
}


def _insertions(whole: ast.Module) -> Iterator[tuple[str, Change]]:
    for words, text in INSERTED.items():
        for at in (0, len(_blocks(whole)[0])):
            yield "inserted", lambda tree, at=at, words=words, text=text: _insert(tree, at, words, text)


def _insert(tree: ast.Module, at: int, words: str, text: str) -> str:
    _blocks(tree)[0].insert(at, ast.parse(text).body[0])
    return f"{words}, {'first' if at == 0 else 'last'}"


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True
