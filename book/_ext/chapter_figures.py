"""Show a chapter's figures as drawings (SVG) that fit both themes and a phone.

Before its first cell, a kernel runs the file that PYTHONSTARTUP names. `autograder book` sets PYTHONSTARTUP to this
file. On Colab, this file does not run. `dark_figure` of pages.py turns these drawings into those of the dark theme.
"""


def prepare() -> None:
    """Set colours and sizes, and show figures as drawings."""
    import io

    import matplotlib
    import matplotlib_inline.backend_inline  # noqa: F401  it sets itself up once, when it is imported
    from IPython import get_ipython
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    ink, page, phone, least = "#1f2328", "#fefefe", 382, 9.3  # the last two in pixels: a phone's width, a letter's size
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "patch.edgecolor")
    matplotlib.rcParams.update(dict.fromkeys(inked, ink))
    matplotlib.rcParams.update(
        {
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "legend.facecolor": page,
            "font.size": 11,
            "axes.titlesize": "medium",
            "image.interpolation": "none",  # a picture keeps its own pixels, and the browser enlarges them
            "svg.fonttype": "none",
            "svg.hashsalt": "figure",
        }
    )

    def show(figure: Figure) -> str | None:
        if not figure.axes and not figure.lines:
            return None
        smallest = least * 72 * figure.get_figwidth() / phone  # in points
        for text in figure.findobj(Text):
            text.set_fontsize(max(text.get_fontsize(), smallest))
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", bbox_inches="tight", metadata={"Date": None})
        return drawing.getvalue()

    formatters = get_ipython().display_formatter.formatters
    for formatter in formatters.values():
        formatter.pop(Figure, None)
    formatters["image/svg+xml"].for_type(Figure, show)


prepare()
del prepare
