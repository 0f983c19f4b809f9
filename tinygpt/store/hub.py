"""Models on the Hugging Face Hub, through its own client: fetched by hf:user/name, and pushed."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.card import CARD_FILE, CURVE_FILE, MODEL_FILE, WEIGHTS_FILE, model_card
from tinygpt.core.hub.names import HUB_PREFIX
from tinygpt.store.formats import Checkpoint, save_safetensors, save_tinygpt
from tinygpt.store.formats.checkpoint import weights_alone

if TYPE_CHECKING:
    from huggingface_hub import HfApi

NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
SYNTAX = f"{HUB_PREFIX}user/name, or {HUB_PREFIX}user/name@revision"


def parsed(model: str) -> tuple[str, str | None]:
    """The repository, and the revision where one is named."""
    found = NAME.fullmatch(model.removeprefix(HUB_PREFIX).replace("\\", "/"))
    if found is None:
        raise TinyGPTError(f"'{model}' does not name a model on the Hugging Face Hub: write {SYNTAX}")
    return found[1], found[2]


def fetch(model: str) -> Path:
    """The file of a model on the Hub, in that client's cache."""
    repo, revision = parsed(model)
    with faults_of(repo):
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import RemoteEntryNotFoundError

        for name in (MODEL_FILE, WEIGHTS_FILE):
            try:
                return Path(hf_hub_download(repo, name, revision=revision, endpoint=endpoint()))
            except RemoteEntryNotFoundError:
                continue
    raise TinyGPTError(f"{repo} has no {MODEL_FILE} and no {WEIGHTS_FILE}, so it is not a model of TinyGPT's")


def push(repo: str, checkpoint: Checkpoint, title: str, licence: str, curve: bytes, private: bool) -> str:
    """Put a model and its card on the Hub; the address where it is. `curve` is a picture."""
    repo, _ = parsed(repo)
    checkpoint = weights_alone(checkpoint)
    facts: dict[str, Any] = {"repo": repo, "title": title, "licence": licence, "text": checkpoint.text_name}
    facts |= {"config": checkpoint.config.as_dict(), "progress": checkpoint.progress.as_dict()}
    with tempfile.TemporaryDirectory() as folder, faults_of(repo):
        from huggingface_hub import CommitOperationAdd

        save_tinygpt(Path(folder) / MODEL_FILE, checkpoint)
        save_safetensors(Path(folder) / WEIGHTS_FILE, checkpoint)
        files: list[tuple[str, Path | bytes]] = [(name, Path(folder) / name) for name in (MODEL_FILE, WEIGHTS_FILE)]
        files += [(CARD_FILE, model_card(facts).encode())] + ([(CURVE_FILE, curve)] if curve else [])
        api = client()
        api.create_repo(repo, private=private, exist_ok=True)
        operations = [CommitOperationAdd(name, content) for name, content in files]
        api.create_commit(repo, operations, commit_message=f"{title}, step {checkpoint.progress.step:,}")
    return f"{api.endpoint}/{repo}"


def client() -> HfApi:
    from huggingface_hub import HfApi

    return HfApi(endpoint=endpoint(), library_name="tinygpt")


def endpoint() -> str | None:
    """As the client's own variable says; it reads that once, when it is imported."""
    return os.environ.get("HF_ENDPOINT")


@contextmanager
def faults_of(repo: str) -> Iterator[None]:
    """What can go wrong there, as a sentence each."""
    try:
        from huggingface_hub import errors
        from huggingface_hub.utils import logging
    except ImportError:
        raise TinyGPTError(
            "models on the Hugging Face Hub need its client: install it with pip install 'tinygpt[hub]'"
        ) from None
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    except errors.GatedRepoError:
        raise TinyGPTError(f"{repo} asks its visitors to accept its terms: do so on its page, then try again") from None
    except errors.RepositoryNotFoundError:
        raise TinyGPTError(
            f"there is no model {repo} on the Hub, or it is private: check the name, or sign in with `hf auth login`"
        ) from None
    except errors.RevisionNotFoundError:
        raise TinyGPTError(f"{repo} has no such revision: name a branch, a tag or a commit of it") from None
    except errors.LocalEntryNotFoundError:
        raise TinyGPTError(f"{repo} cannot be fetched: the Hub does not answer, so check the network") from None
    except errors.RemoteEntryNotFoundError:
        raise
    except errors.HfHubHTTPError as fault:
        status = fault.response.status_code if fault.response is not None else None
        if status in (401, 403):
            raise TinyGPTError(
                f"the Hub does not let you do this with {repo}: sign in with `hf auth login` and a token that may write"
            ) from None
        raise TinyGPTError(f"the Hub answers {status} for {repo}: try again later") from None
    except errors.HFValidationError:
        raise TinyGPTError(f"'{repo}' is not a name that the Hub allows: write {SYNTAX}") from None
    except (http_error(), OSError) as fault:
        raise TinyGPTError(f"the Hub cannot be reached for {repo} ({fault}): check the network") from None


def http_error() -> type[Exception]:
    """Of the HTTP client that it uses: which one that is differs between its versions."""
    from huggingface_hub import errors

    return next(kind for kind in errors.HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")
