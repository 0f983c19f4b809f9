"""The datasets-server pager, against a loopback server that pages, refuses, redirects and stalls like the real one."""

import email.utils
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_datasets_server import FakeDatasetsServer, Reply

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.names import parse_hub_name
from tinygpt.data import Cancelled, Corpus, load_corpus
from tinygpt.data.datasets_server import DatasetsServer
from tinygpt.data.hub import load_rows

NAME = "hf:o/stories/default:train#text"


@pytest.fixture
def naps() -> list[float]:
    return []


@pytest.fixture
def load(naps: list[float]) -> Any:
    def load(name: str = NAME, **options: Any) -> Corpus:
        return load_rows(name, parse_hub_name(name), sleep=naps.append, **options)

    return load


def stories(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"story {i:04}"} for i in range(count)]


def cached_files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_pages_are_read_to_the_end_of_the_dataset(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(250))
    seen: list[tuple[int, int, int]] = []
    corpus = load(progress=lambda *state: seen.append(state))
    assert corpus.text == b"\n\n".join(f"story {i:04}".encode() for i in range(250))
    assert corpus.description == "250 rows, column text of o/stories (default, train)"
    assert [request.query["offset"] for request in server.requests] == ["0", "100", "200"]
    assert seen == [(1198, 2_000_000, 100), (2398, 2_000_000, 200), (2998, 2_000_000, 250)]


def test_reading_stops_at_the_budget(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(1000))
    seen: list[tuple[int, int, int]] = []
    corpus = load(budget=1500, progress=lambda *state: seen.append(state))
    assert corpus.text == b"\n\n".join(f"story {i:04}".encode() for i in range(1000))[:1500]
    assert len(server.requests) == 2
    assert seen[-1] == (1500, 1500, 126)


def test_the_budget_never_cuts_a_character(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", [{"text": "€" * 100}])
    assert load(budget=100).text == "€".encode() * 33


def test_blank_rows_and_missing_cells_leave_no_gaps(server: FakeDatasetsServer, load: Any) -> None:
    cells: list[Any] = [" = Title = \n", "", "  ", None, "a\r\nb", ["c", "d"]]
    server.add("o/stories", [{"text": cell} for cell in cells])
    assert load().text == b" = Title = \n\na\nb\n\nc\nd"


def test_catalog_names_ask_for_their_config_split_and_column(server: FakeDatasetsServer) -> None:
    server.add("emozilla/pg19", [{"title": "a", "text": "a book"}] * 7, split="validation")
    assert load_corpus("pg19").text == b"\n\n".join([b"a book"] * 7)
    assert [request.query["length"] for request in server.requests] == ["5", "5"]


def test_what_a_name_leaves_out_is_found_out(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/n", [{"label": 1, "quote": "from first"}], config="first", split="test")
    server.add("o/n", [{"label": 1, "quote": "validation"}], split="validation")
    server.add("o/n", [{"label": 1, "quote": "train"}], split="train")
    assert load("hf:o/n").text == b"train"
    assert load("hf:o/n").description.endswith("column quote of o/n (default, train)")
    assert load("hf:o/n:validation").text == b"validation"
    assert load("hf:o/n/first").text == b"from first"
    with pytest.raises(TinyGPTError, match="has no config 'frist'; did you mean 'first'"):
        load("hf:o/n/frist")


def test_text_is_the_column_of_choice_and_two_strangers_are_a_question(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/a", [{"title": "no", "text": "yes"}])
    server.add("o/b", [{"question": "a", "answer": "b"}])
    assert load("hf:o/a").text == b"yes"
    with pytest.raises(TinyGPTError, match="add #column to the name, one of question, answer"):
        load("hf:o/b")


def test_a_wrong_column_lists_those_there_are(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(3))
    with pytest.raises(TinyGPTError, match="no column 'Text': choose one of id, text"):
        load("hf:o/stories/default:train#Text")


def test_a_column_of_numbers_is_refused(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(3))
    with pytest.raises(TinyGPTError, match="'id' of o/stories does not hold text"):
        load("hf:o/stories/default:train#id")


def test_truncated_cells_are_kept_and_reported(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(3))
    server.truncated = {(1, "text"), (2, "id")}
    assert load().description.startswith("3 rows, 1 of them cut short by the server")


STRING = {"dtype": "string", "_type": "Value"}
LIST_FORMS = [[STRING], {"_type": "Sequence", "feature": STRING}, {"_type": "List", "feature": STRING, "length": -1}]


@pytest.mark.parametrize("form", LIST_FORMS)
def test_lists_of_strings_are_text_in_every_form(server: FakeDatasetsServer, load: Any, form: Any) -> None:
    server.add(
        "o/talks", [{"id": 1, "turns": ["Hello.", "And you?"]}, {"id": 2, "turns": '["Long", "long \\"q\\"", "lo'}]
    )
    server.feature_types = {"turns": form}
    server.truncated = {(1, "turns")}
    corpus = load("hf:o/talks")
    assert corpus.text == b'Hello.\nAnd you?\n\nLong\nlong "q"'
    assert corpus.description.startswith("2 rows, 1 of them cut short by the server, column turns")


@pytest.mark.parametrize("form", [*LIST_FORMS, [[STRING]], {"en": STRING}, [], "string", None, 7])
def test_other_columns_of_any_type_are_passed_over(server: FakeDatasetsServer, load: Any, form: Any) -> None:
    server.add("o/quotes", [{"tags": ["a"], "quote": "Be."}])
    server.feature_types = {"tags": form}
    assert load("hf:o/quotes").text == b"Be."


def test_a_split_that_the_server_has_in_part_says_so(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(3))
    server.partial = True
    assert load().description.endswith("(default, train), of which the server has only the beginning")


@pytest.mark.parametrize("rows", [[], [{"text": " "}] * 150])
def test_no_text_is_one_sentence(
    server: FakeDatasetsServer, load: Any, rows: list[dict[str, Any]], own_cache: Path
) -> None:
    server.add("o/stories", rows)
    with pytest.raises(TinyGPTError, match="There is no text in column text of o/stories"):
        load()
    assert cached_files(own_cache) == []


def test_the_budget_must_be_positive(load: Any) -> None:
    with pytest.raises(TinyGPTError, match="must be positive"):
        load(budget=0)


def test_being_told_to_wait_is_obeyed(server: FakeDatasetsServer, load: Any, naps: list[float]) -> None:
    server.add("o/stories", stories(3))
    server.replies = [Reply(429, headers={"Retry-After": "7"}), Reply(503), Reply(500)]
    assert load().text.startswith(b"story 0000")
    assert sum(naps) == 7 + 1 + 2
    assert max(naps) <= 1


def test_a_retry_date_is_understood(server: FakeDatasetsServer, load: Any, naps: list[float]) -> None:
    server.add("o/stories", stories(3))
    server.replies = [Reply(429, headers={"Retry-After": email.utils.formatdate(time.time() + 30)})]
    load()
    assert 25 < sum(naps) <= 30


def test_patience_is_bounded(server: FakeDatasetsServer, load: Any, naps: list[float]) -> None:
    server.replies = [Reply(503, "The server is busier than usual.")] * 99
    with pytest.raises(TinyGPTError, match=r"too busy .*busier than usual”"):
        load()
    assert len(server.requests) == 6
    assert sum(naps) == 0.5 + 1 + 2 + 4 + 8


def test_an_hour_is_too_long_to_wait(server: FakeDatasetsServer, load: Any, naps: list[float]) -> None:
    server.replies = [Reply(429, headers={"Retry-After": "3600"})]
    with pytest.raises(TinyGPTError, match="HTTP 429"):
        load()
    assert naps == []


def test_refusals_are_not_retried_and_say_what_to_do(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(3))
    cases = {
        "hf:o/missing/default:train#text": "gated, private or missing.*set HF_TOKEN",
        "hf:o/stories/default:trian#text": "no such dataset, config or split of o/stories.*check the spelling",
    }
    for name, sentence in cases.items():
        with pytest.raises(TinyGPTError, match=sentence):
            load(name)
    server.replies = [Reply(403, "Access to dataset o/stories is restricted.")]
    with pytest.raises(TinyGPTError, match="is restricted”: check the name, and check that your token"):
        load(token="secret")
    server.replies = [Reply(501, "Job manager crashed")]
    with pytest.raises(TinyGPTError, match="HTTP 501, it says “Job manager crashed”"):
        load()
    assert len(server.requests) == 4


def test_something_else_answering_is_noticed(server: FakeDatasetsServer, load: Any) -> None:
    for body in (b"<html>Welcome to the airport</html>", b"[1]"):
        server.replies = [Reply(200, body=body)]
        with pytest.raises(TinyGPTError, match="is no datasets server"):
            load()


def test_no_network_is_one_sentence(server: FakeDatasetsServer, load: Any, naps: list[float]) -> None:
    server.close()
    with pytest.raises(TinyGPTError, match=r"Cannot reach the datasets server.*check the network connection"):
        load()
    assert sum(naps) == 1.5


def test_the_token_goes_to_the_server_and_no_further(
    server: FakeDatasetsServer,
    other_server: FakeDatasetsServer,
    load: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other_server.add("o/stories", stories(3))
    query = "dataset=o/stories&config=default&split=train&offset=0&length=100"
    server.replies = [Reply(307, headers={"Location": f"{other_server.url}/rows?{query}"})]
    assert load(token="secret").text.startswith(b"story")
    assert [request.authorization for request in server.requests] == ["Bearer secret"]
    assert [request.authorization for request in other_server.requests] == [None]

    server.add("o/stories", stories(3))
    monkeypatch.setenv("HF_TOKEN", " from the environment\n")
    load(refresh=True)
    assert server.requests[-1].authorization == "Bearer from the environment"
    monkeypatch.delenv("HF_TOKEN")
    load(refresh=True)
    assert server.requests[-1].authorization is None


def test_the_second_load_is_offline(server: FakeDatasetsServer, load: Any) -> None:
    server.add("o/stories", stories(3))
    first = load()
    server.close()
    assert load() == first
    with pytest.raises(TinyGPTError, match="Cannot reach"):
        load(budget=1000)
    with pytest.raises(TinyGPTError, match="Cannot reach"):
        load(refresh=True)


@pytest.mark.parametrize("suffix", [".txt", ".json"])
def test_a_damaged_cache_is_fetched_again(server: FakeDatasetsServer, load: Any, own_cache: Path, suffix: str) -> None:
    server.add("o/stories", stories(3))
    first = load()
    (damaged,) = own_cache.rglob(f"*{suffix}")
    damaged.write_bytes(b"damaged")
    assert load() == first
    assert len(server.requests) == 2


def test_cancelling_between_pages_keeps_nothing(server: FakeDatasetsServer, load: Any, own_cache: Path) -> None:
    server.add("o/stories", stories(300))
    with pytest.raises(Cancelled, match="nothing of it was kept"):
        load(cancelled=lambda: len(server.requests) >= 2)
    assert len(server.requests) == 2
    assert cached_files(own_cache) == []


def test_cancelling_ends_a_long_wait(server: FakeDatasetsServer, load: Any, naps: list[float]) -> None:
    server.replies = [Reply(429, headers={"Retry-After": "100"})]
    with pytest.raises(Cancelled):
        load(cancelled=lambda: len(naps) >= 3)
    assert sum(naps) == 3


def test_cancelling_ends_an_answer_that_never_comes(server: FakeDatasetsServer) -> None:
    silence = threading.Event()
    server.replies = [Reply(200, raw=(b"" for _ in iter(silence.wait, True)))]  # True: it is over
    checks = []

    def cancelled() -> bool:
        checks.append(True)
        return len(checks) > 3

    with DatasetsServer(cancelled=cancelled) as client, pytest.raises(Cancelled):
        client.get("/rows", "o/stories")
    silence.set()
    assert len(checks) == 4


def test_an_interrupt_keeps_nothing(server: FakeDatasetsServer, load: Any, own_cache: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    server.add("o/stories", stories(3))
    with pytest.raises(KeyboardInterrupt):
        load(progress=partial(interrupt))
    assert cached_files(own_cache) == []
    assert load().text.startswith(b"story")
