"""Make an image small enough for a model; runs in the box, where whatever is wrong with the image stays.

python3 -c PROGRAM SIDE BYTES < image > smaller
"""

import io
import sys


def main(side: int, most: int) -> None:
    """Read an image, turn it as it was held, and write it with at most `side` pixels and about `most` bytes."""
    from PIL import Image, ImageOps

    picture = Image.open(io.BytesIO(sys.stdin.buffer.read()))
    kind = "JPEG" if picture.format == "JPEG" else "PNG"
    turned = ImageOps.exif_transpose(picture)
    small = turned.convert("RGBA" if turned.has_transparency_data else "RGB")
    small.thumbnail((side, side))
    out = io.BytesIO()
    small.save(out, kind)
    if out.tell() > most:
        out = io.BytesIO()
        small.convert("RGB").save(out, "JPEG", quality=80)
    sys.stdout.buffer.write(out.getvalue())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
