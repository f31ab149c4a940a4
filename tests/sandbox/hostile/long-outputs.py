"""Prints one line of 60 MB and two million lines, shows 40 MB of HTML and invalid pictures, one that states its size 70,000 times, warns 5,000 times."""
# %%
print('x' * 60_000_000)
# %%
print('line\n' * 2_000_000)
for i in range(2000):
    print('line', i, flush=True)
# %%
from IPython.display import HTML, Image, display
display(HTML("<b>" * 13_000_000))
display({"image/png": '"><script>alert(1)</script>', "text/plain": "x"}, raw=True)
display({"image/jpeg": "not base64 !", "image/svg+xml": "<svg onload=alert(1)>"}, raw=True)
for _ in range(2000):
    display(HTML("<i>x</i>"))
# %%
import base64, inside
data = base64.b64encode(b"\xff\xd8" + b"\xff\xc0" * 70_000).decode()
inside.OUTPUTS.kept.append(("display_data", {"data": {"image/jpeg": data}}))
# %%
import sys, warnings
for number in range(5000):
    warnings.warn(f"warning {number}")
sys.stderr.write(("x" * 50 + "\n") * 500_000)
