"""The workers of a cluster, as the coordinator sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tuner.measure import workers
from tuner.measure.workers import Call, Worker, Workers


class Silent:
    """A client to which nothing comes: the worker died with the result."""

    async def gather(self, _futures: object, *, asynchronous: bool) -> None:
        assert asynchronous
        await asyncio.Event().wait()

    def sync(
        self, made: Callable[..., Awaitable[Any]], *words: object, callback_timeout: float
    ) -> object:
        async def waited() -> object:
            return await asyncio.wait_for(made(*words), callback_timeout)

        return asyncio.run(waited())


def test_a_result_that_never_comes_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_ANSWER_S", 0.01)
    call: Call[str] = Call(SimpleNamespace(status="finished"), Worker("tcp://there:1", 1), "task")
    known = cast("Workers[str]", SimpleNamespace(_calls={"key": call}, _client=Silent()))

    Workers._fetch(known, ["key"])  # noqa: SLF001 - the wait itself

    assert call.found is None
