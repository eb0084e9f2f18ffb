from trunkline.model.target import Target


def test_a_target_is_written_provider_slash_model_and_the_model_may_hold_slashes() -> None:
    assert str(Target("openrouter", "meta/llama-3")) == "openrouter/meta/llama-3"
    assert {Target("a", "x"): 1}[Target("a", "x")] == 1
