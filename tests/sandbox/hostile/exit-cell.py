"""Calls exit(), quit(), sys.exit() and input() in cells."""
# %%
exit()
# %%
quit()
# %%
import sys
sys.exit(1)
# %%
input()
# %%
raise SystemExit
# %%
raise KeyboardInterrupt
