"""The document, as tools read it, and the page, as people do."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import jsonschema
import pytest

from tests.fakes import notes
from trunkline.base.log import mask
from trunkline.server.admin import declared
from trunkline.server.rest import openapi, page

ROUTES = declared({"notes": notes.RESOURCE})
DOCUMENT = openapi.document(ROUTES)


def operation(method: str, path: str) -> dict[str, Any]:
    return DOCUMENT["paths"][f"/api/v1/notes{path}"][method]


def refs(part: object) -> set[str]:
    match part:
        case {"$ref": str(ref), **rest}:
            return {ref} | refs(rest)
        case dict():
            return set().union(*map(refs, part.values()))
        case list():
            return set().union(*map(refs, part))
        case _:
            return set()


def test_every_route_is_an_operation_that_says_who_may() -> None:
    found = {(method.upper(), path): each for path, methods in DOCUMENT["paths"].items() for method, each in methods.items()}
    assert found.keys() == {(each.route.method, each.path) for each in ROUTES}
    for each in ROUTES:
        told = found[each.route.method, each.path]
        assert told["x-trunkline-scope"] == each.route.scope
        assert told.get("x-trunkline-roles", []) == (list(each.route.roles) if each.route.scope == "account" else [])
    ids = [each["operationId"] for each in found.values()]
    assert len(set(ids)) == len(ids)


def test_every_reference_leads_somewhere_and_every_record_is_a_schema() -> None:
    for ref in refs(DOCUMENT):
        assert ref.removeprefix("#/components/schemas/") in DOCUMENT["components"]["schemas"]
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_query_is_parameters_and_what_may_be_left_out_is_not_null() -> None:
    named = {each["name"]: each for each in operation("get", "")["parameters"]}
    assert named["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    assert named["after"]["schema"] == {"type": "string", "minLength": 1, "maxLength": 200}
    assert named["after"]["description"] == "`next` of the page before."
    assert not any(each["required"] for each in named.values())
    assert "null" not in json.dumps([each["schema"] for each in named.values()])
    [step, tag] = operation("get", "/{id}")["parameters"]
    assert (step["name"], step["in"], step["required"]) == ("id", "path", True)
    assert (tag["name"], tag["in"], tag["required"]) == ("If-Match", "header", False)


@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [
        ("get", "", "200 304 400 401 403 405 429 500 503"),
        ("post", "", "201 400 401 403 405 408 413 415 429 500 503"),
        ("patch", "/{id}", "200 400 401 403 404 405 408 412 413 415 429 500 503"),
        ("delete", "/{id}", "204 400 401 403 404 405 412 428 429 500 503"),
    ],
)
def test_what_may_be_answered_is_told(method: str, path: str, statuses: str) -> None:
    assert " ".join(sorted(operation(method, path)["responses"])) == statuses


def test_a_secret_goes_in_and_its_example_is_none() -> None:
    field = DOCUMENT["components"]["schemas"]["NewSeal"]["properties"]["secret"]
    assert (field["writeOnly"], field["format"]) == (True, "password")
    body = operation("post", "/{id}/seal")["requestBody"]["content"]["application/json"]
    assert body["example"] == {"secret": "the secret"}
    assert operation("post", "")["requestBody"]["content"]["application/json"]["example"] == {"text": "Buy milk"}


def test_nothing_in_it_looks_like_a_secret() -> None:
    text = json.dumps(DOCUMENT, ensure_ascii=False)
    assert mask(text) == text


# --------------------------------------------------------------------------------------------------------------- page
class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_stands_alone_without_scripts() -> None:
    html = page.render(DOCUMENT)
    seen = Seen()
    seen.feed(html)
    names = {name for name, _ in seen.tags}
    assert names.isdisjoint({"script", "link", "img", "iframe", "form", "base", "object"})
    assert not [attributes for _, attributes in seen.tags if attributes.keys() & {"src", "style", "onclick", "action"}]
    links = {attributes["href"] for name, attributes in seen.tags if name == "a"}
    anchors = {f"#{attributes['id']}" for _, attributes in seen.tags if "id" in attributes}
    assert links <= anchors, "every link is to a place on the page"
    assert "color-scheme: light dark" in html
    for each in ROUTES:
        assert f"<code>{each.path}</code>" in html


def test_the_page_has_its_style_allowed_and_nothing_else() -> None:
    policy = page.policy()
    assert re.search(r"style-src 'sha256-[\w+/]{43}='", policy)
    assert "default-src 'none'" in policy
    assert f"<style>{page.STYLE}</style>" in page.render(DOCUMENT)


def test_words_of_a_resource_are_no_markup() -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["tags"][0]["description"] = "<script>x</script> and `<b>`"
    html = page.render(document)
    assert "&lt;script&gt;x&lt;/script&gt; and <code>&lt;b&gt;</code>" in html
