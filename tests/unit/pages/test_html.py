"""Pages in one file: modules joined, data that cannot end its element, arrays that come back."""

import base64
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest

from heedful.explain.pages.page import pack
from heedful.pages.html import join_modules, write_page


def test_joined_modules_import_and_export_nothing() -> None:
    joined = join_modules("explorer.js")
    assert not re.search(r"^\s*(import|export) ", joined, re.M)
    assert joined.count("const explorer_weights_js = (() => {") == 1
    order = ("shared_colours", "explorer_heatmap", "explorer_attention", "explorer_view")
    places = [joined.index(f"const {name}_js") for name in order]
    assert places == sorted(places)


def test_text_in_a_page_is_never_markup() -> None:
    hostile = "</script><script>alert(1)</script>"
    page = write_page(hostile, hostile, "explorer.js", {"text": hostile})
    assert "alert(1)</script>" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert json.loads(data[1]) == {"text": hostile}


def test_a_page_names_no_other_file() -> None:
    page = write_page("A title", "A lead", "explorer.js", {})
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="(?!data:|\$\{)', page)
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of SVG


@pytest.mark.parametrize(("shape", "bits", "tolerance"), [((2, 3, 4, 5), 16, 2e-5), ((2, 2, 750, 700), 8, 4e-3)])
def test_packed_weights_come_back_rounded(shape: tuple[int, ...], bits: int, tolerance: float) -> None:
    values = np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)
    values.flat[0] = 1.5  # areas may have weights above 1
    packed = pack(values)
    assert packed["bits"] == bits
    np.testing.assert_allclose(_unpacked(packed), values, atol=tolerance)


def _unpacked(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """What `weights.js` does."""
    codes = np.frombuffer(zlib.decompress(base64.b64decode(packed["packed"])), f"<u{packed['bits'] // 8}")
    shares = codes / 65535 if packed["bits"] == 16 else (codes / 255) ** 2
    low, high = packed["range"]
    return (low + (high - low) * shares).reshape(packed["shape"])
