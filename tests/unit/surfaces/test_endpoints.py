import pytest

from trunkline import surfaces
from trunkline.base import members
from trunkline.surfaces import Surface
from trunkline.surfaces.anthropic import SURFACE as ANTHROPIC
from trunkline.surfaces.openai import SURFACE as OPENAI

ALL = members.load(surfaces, "SURFACE", Surface, third_party=False)


def test_no_path_is_served_twice() -> None:
    paths = [each.path for surface in ALL.values() for each in (*surface.endpoints, *surface.follow_ups, *surface.listings)]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("surface", ALL.values(), ids=ALL)
def test_every_surface_has_a_title_and_serves_something_below_v1(surface: Surface) -> None:
    assert surface.title
    assert surface.endpoints or surface.listings
    assert all(each.path.startswith("/v1/") and not each.path.endswith("/") for each in (*surface.endpoints, *surface.listings))


def test_openais_clients_find_chat_completions_responses_embeddings_and_speech() -> None:
    assert [(each.path, each.operation, each.dialect.name) for each in OPENAI.endpoints] == [
        ("/v1/chat/completions", "chat", "openai_chat"),
        ("/v1/responses", "chat", "openai_responses"),
        ("/v1/embeddings", "embeddings", "openai_embeddings"),
        ("/v1/audio/speech", "speech", "openai_speech"),
    ]


def test_openais_clients_find_the_responses_that_are_kept() -> None:
    [kept] = OPENAI.follow_ups
    assert (kept.path, kept.dialect.name) == ("/v1/responses/", "openai_responses")
    assert kept.actions == {"": {"GET", "DELETE"}, "cancel": {"POST"}, "input_items": {"GET"}}


def test_anthropics_clients_find_messages_and_the_count_of_tokens() -> None:
    assert [(each.path, each.operation, each.dialect.name) for each in ANTHROPIC.endpoints] == [
        ("/v1/messages", "chat", "anthropic"),
        ("/v1/messages/count_tokens", "count_tokens", "anthropic"),
    ]
