"""Record the value of each expression of a student's functions while they run.

It runs in a notebook, in the grader and in the sandbox. It needs only NumPy. The functions run from a copy of their
own text, which passes every expression through `Recorder.seen`. Each value is still computed only once. The record
has plain values, and decides no result.
"""

import ast
import itertools
import linecache
import re
import sys
import time
from types import FunctionType, ModuleType

import numpy as np

MAX_SECONDS, MAX_BYTES, MAX_ROWS = 1.0, 5_000_000, 3000  # limits of a record: it stops there
MAX_ARRAY = 20_000  # numbers of an array that is kept
MAX_LINES, MAX_TEXT = 2000, 80  # lines of a cell that is read, characters of an expression that is quoted
SEEN, STORED, AT = "_seen_by_test", "_stored_by_test", "_at_by_test"  # names that the copies call
EXPRESSIONS = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.Attribute, ast.Compare, ast.BoolOp, ast.IfExp)
EXPRESSIONS += (ast.ListComp, ast.List, ast.Tuple, ast.Name, ast.NamedExpr)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
NUMBERS = (bool, int, float)


class Recorder:
    """Records, while it is entered, what the functions of a notebook compute.

    Args:
        namespace: The names of the notebook.
        left_alone: Names of functions and classes whose inside is not recorded: the answers of other exercises.
        closed: Returns a function that calls another one and does not lead to it. The notebook gets such functions.
    """

    def __init__(self, namespace, left_alone=(), closed=lambda function: function):
        self.namespace, self.left_alone, self.closed = namespace, left_alone, closed
        self._begin()

    def _begin(self):
        """Forget what was recorded before."""
        self.nodes, self.rows = [], []
        self.woven, self.kept = [], []  # functions and their own code; values, so that no id is reused
        self.pending, self.origin, self.variables = {}, {}, {}
        self.changed = {}  # by the id of an array: the rows that changed a part of it in place
        self.attributes = {}  # the line of `__init__` that sets an attribute of `self`, by class and name
        # For each running function: its depth and code, as in `_running`; and the statement that began last.
        self.statements = []
        self.bytes, self.ends, self.returned, self.items = 0, 0.0, -1, []
        self.with_gradient, self.detached = set(), []  # rows

    def __enter__(self):
        self._begin()
        try:
            for file, functions in self._functions().items():
                self._weave(file, functions)
        except Exception:  # a notebook may hold anything
            self._give_back()
        called = {SEEN: self.seen, STORED: self.stored, AT: self.at}
        self.namespace.update({name: self.closed(function) for name, function in called.items()})
        self.ends = time.perf_counter() + MAX_SECONDS
        return self

    def __exit__(self, *error):
        self._give_back()
        for name in (SEEN, STORED, AT):
            self.namespace.pop(name, None)

    def record(self):
        """Return the record as plain values.

        Returns:
            rows: For each value in order: line, name of the function, text, kind, the rows that it was made of, its array
                (None if it has none), and the line at which the outermost function was (0 if that is the same
                function). The kind is "value", "variable", "part" (changed in place) or "return".
            returned: The row that the outermost function returned last; -1 if none.
            open: The rows of the operands of the expression that raised an error.
            items: The rows of the items that it returned.
            at: The line of the statement that began last, the name of its function, and the outermost line as above.
            attributes: For each attribute of `self` that a statement reads: the statement's line, the attribute, and the
                line that sets it; 0 if no line sets it.
            detached: The rows through which no gradient flows back, although they were made of rows with a gradient.
            checks: For each `if` with a `raise`, its function, its line, and the line of the `raise`.
            returns: For each `return` with a value, its function and its line.
        """
        at = [self.nodes[k] for _, k in self.statements] or [{"line": 0, "function": "", "text": "", "owner": ""}]
        checked = len(at) > 1 and at[-1]["text"].startswith("raise")  # a function was called to check something
        outer, at = at[0], at[-2] if checked else at[-1]
        here = {
            k for k, node in enumerate(self.nodes) if node["function"] == at["function"] and node["line"] >= at["line"]
        }
        waiting = [i for k in here & self.pending.keys() if not self.nodes[k]["root"] for i in self.pending[k]]
        rows = []
        for k, operands, value, above in self.rows:
            node = self.nodes[k]
            place = node["line"], node["function"], node["text"][:MAX_TEXT], node["kind"]
            rows.append([*place, operands[:50], value, above])
        found = {"rows": rows, "returned": self.returned, "open": sorted(waiting)[-10:]}
        return found | {
            "detached": self.detached[:50],
            "checks": self._checks(),
            "returns": [(each["function"], each["line"]) for each in self.nodes if each["kind"] == "return"][:50],
            "items": self.items,
            "at": [at["line"], at["function"], 0 if outer is at else outer["line"]],
            "attributes": self._read_attributes()[:200],
        }

    def _read_attributes(self):
        """Return for each attribute of `self` that a statement reads: the statement's line, the name, the line that sets it."""
        found = []
        for node in self.nodes:
            for name in re.findall(r"\bself\.(\w+)", node["text"]) if node["kind"] == "line" else ():
                line = self.attributes.get((node["owner"], name), 0)
                if not line or node["function"] != "__init__":
                    found.append((node["line"], f"self.{name}", line))
        return found

    def _checks(self):
        """Return for each `if` with a `raise` its function, its line, and the line of the `raise`."""
        pairs = itertools.pairwise(node for node in self.nodes if node["kind"] == "line")
        pairs = [(a, b) for a, b in pairs if a["text"][:2] == "if" and b["text"][:5] == "raise"]
        return [(a["function"], a["line"], b["line"]) for a, b in pairs][:50]

    # ---------------------------------------------------------------------------------- while functions run

    def at(self, k):
        """Note that a statement begins."""
        running = _running()
        self.statements = [each for each in self.statements if each[0] in running[1:]]  # the others have ended
        self.statements.append((running[0], k))

    def seen(self, k, value):
        """Record the value of an expression, and return it."""
        if self.ends:
            try:
                self._see(k, value)
            except Exception:  # a student's object may raise anything
                self.ends = 0.0
        return value

    def _see(self, k, value):
        node, kind = self.nodes[k], type(value)
        operands = self._operands(node)
        torch = sys.modules.get("torch")
        parameter = torch is not None and kind is torch.nn.Parameter and node["kind"] != "return"
        if kind in (FunctionType, ModuleType, type) or parameter:
            place = self.variables.get((node["function"], node["name"])) if kind is ModuleType else None
            if place is not None:  # a variable that holds a module
                self.pending.setdefault(k, []).append(place)
            return
        known = self.origin.get(id(value))
        if node["kind"] == "value" and node["name"]:  # a variable that is read
            if known is None and (kind in NUMBERS or value is None):
                known = self.variables.get((node["function"], node["name"]))
            if known is not None and self._unchanged(known, value):
                self.pending.setdefault(k, []).append(known)
                return
            operands += self._changes_of(value)
        if node["kind"] == "return" and kind in (tuple, list, dict):
            self.items = self._items(k, value, operands)
            operands += self.items
        elif node["kind"] == "return":
            self.items = []
        row = self._add(k, [*operands, *([] if known is None else [known])], value)
        if node["root"]:
            self.pending[k] = [row]
        else:
            self.pending.setdefault(k, []).append(row)
        if node["kind"] == "return":
            self.returned = row
            if self.statements and self.statements[-1][0] == _running()[1]:  # the function that calls `seen`
                self.statements.pop()

    def _items(self, k, value, operands):
        """Return the rows of the items of a returned tuple, list or dict."""
        found = []
        for item in list(value.values() if type(value) is dict else value)[:20]:
            known = self.origin.get(id(item))
            if known is None or not self._unchanged(known, item):
                sources = [*self._changes_of(item), *([] if known is None else [known])]
                known = self._add(k, sources or operands, item)
            found.append(known)
        return found

    def _changes_of(self, value):
        """Return the rows that changed a part of an array in place, or of the arrays in a list."""
        items = value if type(value) in (list, tuple) else [value]
        return [row for item in items[:50] for row in self.changed.get(id(item), ())]

    def stored(self, k, value):
        """Record what a variable holds after a statement."""
        if not self.ends:
            return
        try:
            node = self.nodes[k]
            operands = [row for kid in node["kids"] for row in self.pending.get(kid, ())]
            known = self.origin.get(id(value))
            if node["changes"]:  # a change in place
                if known is not None and self._unchanged(known, value) and type(value) not in NUMBERS:
                    return
                before = known if known is not None else self.variables.get((node["function"], node["name"]))
                operands += [] if before is None else [before]
            elif known is not None:
                operands.append(known)
            row = self.variables[node["function"], node["name"]] = self._add(k, operands, value)
            if node["changes"]:
                self.changed.setdefault(id(_whole(value)), []).append(row)
        except Exception:
            self.ends = 0.0

    def _operands(self, node):
        return [row for kid in node["kids"] for row in self.pending.pop(kid, ())]

    def _unchanged(self, row, value):
        before, now = self.rows[row][2], plain(value)
        if before is None or now is None:
            return before is now
        return before.shape == now.shape and before.dtype == now.dtype and before.tobytes() == now.tobytes()

    def _add(self, k, operands, value):
        array = plain(value)
        self.bytes += 100 + (0 if array is None else array.nbytes)
        row = len(self.rows)
        if array is not None and getattr(value, "requires_grad", False) is True:
            self.with_gradient.add(row)
        elif array is not None and array.dtype.kind == "f" and self.with_gradient.intersection(operands):
            self.detached.append(row)
        if self.bytes > MAX_BYTES or row >= MAX_ROWS or time.perf_counter() > self.ends:
            self.ends = 0.0
        outer = self.nodes[self.statements[0][1]]["line"] if len(self.statements) > 1 else 0
        self.rows.append((k, sorted(set(operands)), array, outer))
        if type(value) not in (*NUMBERS, str, type(None)):
            self.origin[id(value)] = row
            self.kept.append(value)
        return row

    # ------------------------------------------------------------------------------------ the copies

    def _functions(self):
        """Return the functions of the notebook, methods included, by file."""
        items = list(self.namespace.items())[:2000]
        found, waiting, known = {}, [item for name, item in items if name not in self.left_alone], set()
        known.update(id(self.namespace.get(name)) for name in self.left_alone)
        while waiting:
            item = waiting.pop()
            if id(item) in known or len(known) > 5000:
                continue
            known.add(id(item))
            kind = type(item)
            if kind is FunctionType:
                waiting += [item.__dict__.get("__wrapped__"), *_contents(item)]
                if item.__globals__ is self.namespace and not item.__code__.co_filename.startswith("<set-up"):
                    found.setdefault(item.__code__.co_filename, []).append(item)
            elif kind is staticmethod or kind is classmethod:
                waiting.append(item.__func__)
            elif kind is property:
                waiting.append(item.fget)
            elif kind is type and item.__module__ == self.namespace.get("__name__"):
                waiting += list(vars(item).values())
        return found

    def _weave(self, file, functions):
        """Let functions of one file run from copies of their text, if they were made from this text."""
        lines = linecache.getlines(file)[:MAX_LINES]
        text = "".join(lines)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        own = _codes(compile(text, file, "exec", dont_inherit=True))
        self.attributes.update(_attributes_in(tree))
        weaver = _Weaver(self.nodes, lines, self.attributes)
        copies = _codes(compile(ast.fix_missing_locations(weaver.visit(tree)), file, "exec", dont_inherit=True))
        for function in functions:
            code = function.__code__
            key = code.co_qualname, code.co_firstlineno
            if key in own and _alike(code, own[key]) and own[key].co_freevars == copies[key].co_freevars:
                self.woven.append((function, code))
                function.__code__ = copies[key]

    def _give_back(self):
        self.ends = 0.0
        for function, code in self.woven:
            function.__code__ = code
        self.woven.clear()


def _running():
    """Return the depth and the id of the code of each running function that leads to the caller's caller, that one first.

    A frame would lead the student's code, by `f_back`, to whatever called it.
    """
    frame, codes = sys._getframe(2), []
    while frame is not None:
        codes.append(id(frame.f_code))
        frame = frame.f_back
    return list(zip(range(len(codes), 0, -1), codes))


def _whole(value):
    """Return the array that a value is a part of."""
    for _ in range(10):
        base = getattr(value, "base", None) if type(value) is np.ndarray else getattr(value, "_base", None)
        if base is None or type(base) is not type(value):
            break
        value = base
    return value


def plain(value):
    """Return a value, or a list of numbers or of arrays of one shape, as a new array; None if it is none of these.

    Of complex numbers, return the real parts.
    """
    kind, torch = type(value), sys.modules.get("torch")
    if kind is np.ndarray or isinstance(value, np.generic):
        return np.array(np.real(value)) if value.dtype.kind in "biufc" and value.size <= MAX_ARRAY else None
    if kind in NUMBERS:
        return np.array(value) if abs(value) < 2**60 or kind is float else None
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        if value.numel() > MAX_ARRAY:
            return None
        value = value.detach().cpu().real
        return np.array((value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy())
    if kind is dict:
        value = list(value.values())
    if kind in (list, dict) and 0 < len(value) <= 200:
        parts = [plain(item) for item in value]
        if all(part is not None and part.shape == parts[0].shape for part in parts):
            return np.stack(parts) if sum(part.size for part in parts) <= MAX_ARRAY else None
    return None


def _contents(function):
    """Return the values of a function's closure."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # the cell is empty
            continue
    return found


def _attributes_in(tree):
    """Return the line of `__init__` that sets an attribute of `self`, by class and name."""
    found = {}
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        makers = [node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        parts = [part for node in makers for part in ast.walk(node) if isinstance(part, ast.Attribute)]
        parts = [part for part in parts if isinstance(part.ctx, ast.Store) and getattr(part.value, "id", "") == "self"]
        found |= {(owner.name, part.attr): part.lineno for part in parts}
    return found


def _codes(code):
    """Return the code of each function in the code of a file, by name and first line."""
    found, waiting = {}, [code]
    while waiting:
        code = waiting.pop()
        found[code.co_qualname, code.co_firstlineno] = code
        waiting += [part for part in code.co_consts if isinstance(part, type(code))]
    return found


def _alike(one, other):
    """Whether two code objects are equal: a file may have changed after its code was compiled."""
    kind = type(one)
    same = all(getattr(one, name) == getattr(other, name) for name in ("co_code", "co_names", "co_varnames"))
    pairs = list(zip(one.co_consts, other.co_consts))
    return same and all(_alike(a, b) if type(a) is type(b) is kind else repr(a) == repr(b) for a, b in pairs)


class _Weaver(ast.NodeTransformer):
    """Passes each expression of the functions in a file through `seen`, and each stored variable through `stored`."""

    def __init__(self, nodes, lines, attributes):
        self.nodes, self.lines, self.attributes = nodes, [line.encode() for line in lines], attributes
        self.kids, self.function, self.inside, self.owner = [], "", False, ""

    def visit_FunctionDef(self, node):
        before = self.kids, self.function, self.inside
        self.kids, self.function, self.inside = [], node.name, True
        start = bool(ast.get_docstring(node, clean=False))
        node.body = [*node.body[:start], *self._block(node.body[start:])]
        self.kids, self.function, self.inside = before
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        inside, self.inside, owner, self.owner = self.inside, False, self.owner, node.name
        node.body = [self.visit(each) if isinstance(each, ast.FunctionDef) else each for each in node.body]
        self.inside, self.owner = inside, owner
        return node

    def visit_Raise(self, node):
        return node

    def visit_JoinedStr(self, node):
        return node

    def visit_Delete(self, node):
        return node

    def visit_Lambda(self, node):
        if self.inside:
            kids, self.kids = self.kids, []
            node.body = self.visit(node.body)
            self.kids = kids
        return node

    def generic_visit(self, node):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self._block(value) if self.inside else list(map(self.visit, value)))
            elif isinstance(value, ast.AST) and field not in ("annotation", "returns", "ctx", "pattern"):
                setattr(node, field, self.visit(value))
            elif isinstance(value, list):
                setattr(node, field, [self.visit(each) if isinstance(each, ast.AST) else each for each in value])
        return node

    def visit(self, node):
        if not self.inside or not isinstance(node, ast.expr) or isinstance(node, (ast.Lambda, ast.JoinedStr)):
            return super().visit(node)
        outer, self.kids = self.kids, []
        wrap = isinstance(node, EXPRESSIONS) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
        name = node.id if isinstance(node, ast.Name) else ""
        made = self._parts(node)
        kids, self.kids = self.kids, outer
        if not wrap:
            self.kids += kids
            return made
        self.kids.append(self._node("value", place, kids, name))
        return _call(SEEN, self.kids[-1], made)

    def _parts(self, node):
        """Visit the parts of an expression, except the name of a called function and the tuple of an index."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                node.func.value = self.visit(node.func.value)
            elif not isinstance(node.func, ast.Name):
                node.func = self.visit(node.func)
            node.args = [self.visit(each) for each in node.args]
            for keyword in node.keywords:
                keyword.value = self.visit(keyword.value)
            return node
        if isinstance(node, ast.Subscript):
            node.value = self.visit(node.value)
            of_many = isinstance(node.slice, (ast.Tuple, ast.Slice))
            node.slice = self.generic_visit(node.slice) if of_many else self.visit(node.slice)
            return node
        if isinstance(node, ast.NamedExpr):
            node.value = self.visit(node.value)
            return node
        return self.generic_visit(node)

    def _block(self, statements):
        made = []
        for statement in statements:
            outer, self.kids = self.kids, []
            place = statement.lineno, statement.col_offset, statement.end_lineno, statement.end_col_offset
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal)):
                made.append(
                    _statement(ast.Call(ast.Name(AT, ast.Load()), [ast.Constant(self._line(place))], []), place)
                )
            if isinstance(statement, ast.Return) and statement.value is not None:
                value = self.visit(statement.value)
                key = self._node("return", place, self.kids, "")
                self.nodes[key]["root"] = True
                statement.value = _call(SEEN, key, value)
                made.append(statement)
            elif isinstance(statement, (ast.For, ast.AsyncFor)):
                statement.iter = self.visit(statement.iter)
                stores = self._stores(_names_in([statement.target], False), place, self.kids)
                statement.body = [*stores, *self._block(statement.body)]
                statement.orelse = self._block(statement.orelse)
                made.append(statement)
            else:
                changes = isinstance(statement, (ast.AugAssign, ast.Expr))
                names = _names_in(_targets(statement), changes)  # before names are wrapped
                made.append(self.visit(statement))
                if isinstance(statement, SIMPLE):
                    made += self._stores(names, place, self.kids)
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                for kid in self.kids:
                    self.nodes[kid]["root"] = True
            self.kids = outer
        return made

    def _stores(self, names, place, kids):
        """Return statements that record variables."""
        made = []
        for name, in_place in names.items():
            key = self._node("variable", place, list(kids), name)
            self.nodes[key]["changes"] = in_place
            self.nodes[key]["kind"] = "part" if in_place else "variable"
            made.append(_statement(_call(STORED, key, ast.Name(name, ast.Load())), place))
        return made

    def _line(self, place):
        key = self._node("line", place, [], "")
        self.nodes[key]["root"] = True
        return key

    def _node(self, kind, place, kids, name):
        line, column, end, end_column = place
        first = self.lines[line - 1] if line <= len(self.lines) else b""
        text = first[column : end_column if end == line else None].decode(errors="replace").strip()
        function = self.function
        if (
            kind == "value" and (self.owner, text.removeprefix("self.")) in self.attributes
        ):  # report the line that set it
            line, function = self.attributes[self.owner, text.removeprefix("self.")], "__init__"
        node = dict(line=line, function=function, text=name if kind == "variable" else text, kind=kind, kids=kids)
        self.nodes.append(node | dict(name=name, root=False, changes=False, owner=self.owner))
        return len(self.nodes) - 1


def _statement(call, place):
    made = ast.Expr(call)
    made.lineno, made.col_offset, made.end_lineno, made.end_col_offset = place
    return ast.fix_missing_locations(made)


def _names_in(targets, changes):
    """Return the variables in targets, and whether they are changed in place, as `w` is by `w[0] = 1`."""
    found, waiting = {}, list(targets)
    while waiting:
        target = waiting.pop(0)
        if isinstance(target, (ast.Tuple, ast.List)):
            waiting += target.elts
        elif isinstance(target, ast.Starred):
            waiting.append(target.value)
        elif isinstance(target, ast.Name):
            found.setdefault(target.id, changes)
        else:
            names = [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
            found.update(dict.fromkeys(names[:1], True))
    return found


def _targets(statement):
    """Return the targets of a statement; for a call alone, the variables that it may change."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        return [statement.target] if statement.value is not None else []
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        while isinstance(called, (ast.Attribute, ast.Call, ast.Subscript)):  # the `x` of `x.diagonal().add_(1)`
            called = called.func if isinstance(called, ast.Call) else called.value
        parts = [] if called is statement.value.func else [called]
        parts += [*statement.value.args, *(keyword.value for keyword in statement.value.keywords)]
        return [part for part in parts if isinstance(part, ast.Name) and part.id not in ("np", "torch", "F", "nn")]
    return []


def _call(name, key, value):
    call = ast.Call(ast.Name(name, ast.Load()), [ast.Constant(key), value], [])
    if hasattr(value, "lineno"):
        ast.copy_location(call, value)
    return call
