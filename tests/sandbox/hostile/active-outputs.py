"""Shows scripts as text, HTML, SVG, LaTeX, Markdown, JavaScript, errors, ANSI sequences and half characters."""
# %%
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
script = "<script>alert(1)</script><img src=x onerror=alert(1)>"
print(script, "\x1b[31mred\x1b]0;title\x07\x1b[2J\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "half \ud800", "\x00")
for kind in (HTML, Markdown, Latex, Javascript):
    display(kind(script))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"))
display({"text/plain": script, "application/javascript": "alert(1)"}, raw=True, metadata={"image/png": {"width": script}})
raise type(script, (Exception,), {})(script + "\x1b[31m" + script)
