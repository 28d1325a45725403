"""The page as text: one file, whose policy allows its own style and script."""

import base64
import hashlib
import re

from heedful.pages.app import app_page


def test_the_policy_names_the_style_and_the_script_of_the_page() -> None:
    page, policy = app_page()
    for directive, pattern in (("style", r"<style>(.*?)</style>"), ("script", r'<script type="module">(.*?)</script>')):
        (content,) = re.findall(pattern, page, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


def test_the_page_is_one_file_without_styles_and_handlers_in_its_markup() -> None:
    page, _ = app_page()
    markup = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.S)
    assert not re.search(r'\s(style|on\w+)="', markup)
    assert not re.search(r'(src|href)="(?!data:|\$\{)', markup)
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of SVG
    assert not re.search(r"\.innerHTML|insertAdjacentHTML|\beval\(", page)
