from trunkline.model.loss import Loss, approximated, dropped, renamed, report, unsupported


def test_each_kind_of_loss_says_whether_the_reply_may_differ() -> None:
    made = [unsupported("a"), dropped("a"), dropped("a", material=True), approximated("a"), approximated("a", material=True), renamed("a")]
    assert [(loss.change, loss.severity) for loss in made] == [
        ("unsupported", "material"),
        ("dropped", "advisory"),
        ("dropped", "material"),
        ("approximated", "advisory"),
        ("approximated", "material"),
        ("renamed", "advisory"),
    ]


def test_a_report_is_sorted_and_has_each_loss_once() -> None:
    told = [dropped("b"), unsupported("a"), dropped("a", "z"), dropped("a"), dropped("b"), dropped("a", material=True)]
    assert report(told) == (
        Loss("a", "advisory", "dropped", ""),
        Loss("a", "advisory", "dropped", "z"),
        Loss("a", "material", "dropped", ""),
        Loss("a", "material", "unsupported", ""),
        Loss("b", "advisory", "dropped", ""),
    )
    assert report(reversed(told)) == report(told)
