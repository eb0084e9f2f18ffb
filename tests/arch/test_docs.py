import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
assert SPEC is not None
assert SPEC.loader is not None
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)
PAGES = generate.pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_says_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "sdk" / "README.md"]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"
