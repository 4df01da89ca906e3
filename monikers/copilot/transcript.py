"""Help with transcripts for hosts and agents: none of it is done behind anybody's back (spec 2 §5.1, §12.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monikers.copilot.models import TranscriptSegment


def last_turns(segments: Sequence[TranscriptSegment], count: int) -> Sequence[TranscriptSegment]:
    """The newest `count` segments, oldest first; all of them when `count` is 0 or less."""
    return segments[-count:] if 0 < count < len(segments) else segments


def settled(segments: Iterable[TranscriptSegment]) -> list[TranscriptSegment]:
    """The segments without the drafts that something newer replaces.

    A transcription tells what it hears while it hears it (`is_final` False) and then for good. A draft goes when its
    speaker says something at the same time or later, up to and with their next final segment; a draft that nothing
    follows stays.
    """
    kept: list[TranscriptSegment] = []
    for segment in segments:
        for place in _open_drafts(kept, segment.speaker):
            if segment.timestamp >= kept[place].timestamp:
                del kept[place]
        kept.append(segment)
    return kept


def _open_drafts(kept: Sequence[TranscriptSegment], speaker: str) -> list[int]:
    """Where the drafts of a speaker stand since their last final segment, newest first."""
    found: list[int] = []
    for place in range(len(kept) - 1, -1, -1):
        if kept[place].speaker == speaker:
            if kept[place].is_final:
                break
            found.append(place)
    return found


def merged(segments: Iterable[TranscriptSegment], gap_s: float = float("inf")) -> list[TranscriptSegment]:
    """Adjacent segments of one speaker as one, which begins when the first did and is final when the last is.

    Segments that begin more than `gap_s` seconds after the one before stay apart.
    """
    found: list[TranscriptSegment] = []
    began_last = 0.0
    for segment in segments:
        if found and found[-1].speaker == segment.speaker and segment.timestamp - began_last <= gap_s:
            text = f"{found[-1].text.rstrip()} {segment.text.lstrip()}".strip()
            found[-1] = found[-1].model_copy(update={"text": text, "is_final": segment.is_final})
        else:
            found.append(segment)
        began_last = segment.timestamp
    return found


def line(segment: TranscriptSegment) -> str:
    """A segment as a person would write it down, on one line; "…" marks one that is still spoken."""
    words = " ".join(segment.text.split())
    return f"{' '.join(segment.speaker.split())}: {words}{'' if segment.is_final else ' …'}"


def formatted(segments: Iterable[TranscriptSegment], *, times: bool = False) -> str:
    """A transcript as text, a segment a line, with minutes and seconds before each when `times`."""
    return "\n".join(f"[{_clock(one.timestamp)}] {line(one)}" if times else line(one) for one in segments)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    return f"{minutes:02d}:{rest:02d}"


def silence_after(segments: Sequence[TranscriptSegment], now: float) -> float:
    """Seconds since the newest segment began, `now` being seconds since the session did."""
    return max(0.0, now - max((one.timestamp for one in segments), default=0.0))
