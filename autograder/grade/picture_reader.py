"""Make a small picture of a submitted one. The text of this module runs in a separate sandbox.

So all effects of a hostile file stay there. The module imports nothing from the grader.
"""

import base64
import io

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "MPO")  # a phone's photo may be an MPO
MAX_PIXELS = 2**26  # a phone's photo has up to 50 million
SIDES = (1600, 1200, 800, 400)  # pixels of the longer side: the first that gives few enough bytes


def read_picture(text: str, most: int) -> dict[str, str]:
    """Return a picture without its metadata, upright, on white, and not larger than a page.

    Args:
        text: The bytes of the file, in base64.
        most: The most bytes of the returned file.

    Returns:
        {type: bytes in base64}, where the type is image/png or image/jpeg; {} if the file cannot be shown.
    """
    from PIL import Image, ImageOps

    try:
        picture = Image.open(io.BytesIO(base64.b64decode(text)), formats=FORMATS)
        if picture.width * picture.height > MAX_PIXELS:
            return {}
        kinds = ("jpeg",) if picture.format in ("JPEG", "MPO") else ("png", "jpeg")  # lines stay sharp in PNG
        picture.draft("RGB", (SIDES[0], SIDES[0]))  # a JPEG file is read at a smaller size
        picture.thumbnail((2 * SIDES[0], 2 * SIDES[0]))
        picture = ImageOps.exif_transpose(picture).convert("RGBA")
        flat = Image.new("RGB", picture.size, "white")
        flat.paste(picture, mask=picture)
        for side in SIDES:
            flat.thumbnail((side, side))
            for kind in kinds:
                file = io.BytesIO()
                flat.save(file, kind)
                if len(file.getvalue()) <= most:
                    return {f"image/{kind}": base64.b64encode(file.getvalue()).decode()}
    except Exception:  # a broken or hostile file can raise anything
        pass
    return {}
