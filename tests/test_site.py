"""The check of the documentation site finds what it should."""

from __future__ import annotations

from pathlib import Path

from tools.check_site import faults


def test_what_is_wrong_with_a_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<h1 id="top">a</h1><a href="#top">up</a><a href="https://example.org">b</a>')
    assert list(faults(tmp_path)) == []
    (tmp_path / "bad.html").write_text(
        '<script src="https://cdn.example.org/a.js"></script><a href="good.html#gone">a</a><a href="no.html">b</a>'
    )
    (tmp_path / "bad.css").write_text("@font-face { src: url('https://fonts.example.org/a.woff2') }")
    found = " ".join(faults(tmp_path))
    assert "loads https://cdn.example.org/a.js from elsewhere" in found
    assert "good.html#gone is not there" in found
    assert "no.html is not there" in found
    assert "fonts.example.org/a.woff2 is elsewhere" in found
