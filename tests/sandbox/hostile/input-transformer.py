"""Makes IPython empty every second cell, and remove every raise and assert."""
# %%
import ast, itertools
class Erase(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
    visit_Raise = visit_Assert
shell, empty = get_ipython(), itertools.cycle([True, False])
shell.input_transformers_cleanup.append(lambda lines: ["pass"] if next(empty) else lines)
shell.ast_transformers.append(Erase())
