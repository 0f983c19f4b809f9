"""Makes the template of a page of one file: script, style and kernels in one piece of HTML, without a model yet.

store/formats/web_page.py puts a model in, and so does the page (web/src/share).
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from tinygpt.store.formats.web_page import in_base64

KERNELS = "simd.wasm"  # rounds alike in every browser, where relaxed SIMD may not
HASH, STYLE, SCRIPT, PACKED = "@@HASH@@", "@@STYLE@@", "@@SCRIPT@@", "@@KERNELS@@"


def template_of(outline: str, built: Path, kernels: Path) -> str:
    """`built` has the script and the style. The page's policy lets that script run, and no other."""
    script = inline((built / "single.js").read_text(encoding="utf-8").strip())
    style = (built / "single.css").read_text(encoding="utf-8").strip()
    allowed = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    parts = {HASH: allowed, STYLE: style, SCRIPT: script, PACKED: in_base64((kernels / KERNELS).read_bytes())}
    for mark, part in parts.items():
        before, after = outline.split(mark)
        outline = before + part + after
    return outline


def inline(script: str) -> str:
    """A script whose strings hold nothing that HTML would take for its end."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
