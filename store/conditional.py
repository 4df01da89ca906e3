"""Whether an object store honours conditional PUTs, asked before anything is trusted to it.

On object storage two writers are kept apart by nothing but `If-None-Match: *`: the second PUT of a version has to be
refused. Measured on a server that ignores it: 8 of 100 acknowledged rows were lost without a word. So such a store is
refused at start. Killed while asking: a small object is left below `_probe/`, which nothing reads.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url

from store.clock import Ids
from store.errors import StoreAwayError, StoreUnsafeError

_PATIENCE = timedelta(seconds=10)
_CURE = "use one that honours If-None-Match (Amazon S3 does), or a local folder"


async def refuse_unconditional(url: str, ids: Ids) -> None:
    """Return when the store at `url` honours conditional PUTs; else raise `StoreUnsafeError`.

    Raises `StoreAwayError` when the store cannot be reached or written.
    """
    path = f"_probe/{ids.new()}"
    try:
        store = from_url(url, retry_config={"max_retries": 8, "retry_timeout": _PATIENCE})
        honours = await _second_is_refused(store, path)
        with contextlib.suppress(BaseError):  # a probe that stays behind does no harm
            await obstore.delete_async(store, path)
    except (BaseError, ValueError, OSError) as error:
        raise StoreAwayError(
            f"cannot write to the object store at {url!r}: {_first_line(error)}; check STEPWELL_DATA, the AWS_* "
            "settings (address, keys, region) and that the bucket exists"
        ) from error
    if not honours:
        raise StoreUnsafeError(
            f"the object store at {url!r} ignores conditions on PUT: two writers would overwrite each other's commits "
            f"and acknowledged rows would be lost; {_CURE}"
        )


async def _second_is_refused(store: ObjectStore, path: str) -> bool:
    # The first one may be stored though its answer was lost; then its repeat is refused, which says as much.
    with contextlib.suppress(AlreadyExistsError):
        await obstore.put_async(store, path, b"first", mode="create")
    try:
        await obstore.put_async(store, path, b"second", mode="create")
    except AlreadyExistsError:
        return True
    return False


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
