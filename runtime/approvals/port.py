"""What a session asks people, and what they answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from runtime.ports import FrozenModel, Json

MAX_QUESTION_CHARS = 10_000


class QuestionKind(StrEnum):
    """What a question is about. People see the kind as a word; the same rules hold for all but the last one.

    `about` has what a person needs to decide, `editable` what they may change, `fields` what they have to fill in. What
    the usual askers put there is in docs/approvals.md.
    """

    TOOL_CALL = "tool_call"  # may this call be made? about: tool, arguments, key; editable: the arguments
    CONCERN = "concern"  # the guard has doubts about a text: may it go on? about: text, why; editable: the text
    PLAN = "plan"  # is this plan to be carried out? editable: its parts
    BUDGET = "budget"  # it is spent: may more be used? about: spent, limit; fields or editable: the new limit
    FORM = "form"  # some facts are needed; fields: which
    UNSAFE_CALL = "unsafe_call"  # a call may have been made before a crash: what came of it? Only the runtime asks it


class Decision(StrEnum):
    """What a person decides."""

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"  # yes, but with what the person changed
    RETRY = "retry"  # no, and here is what to do better


class FormField(FrozenModel):
    """One thing to fill in."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
    label: str = ""
    kind: Literal["text", "long_text", "number", "yes_no", "choice"] = "text"
    required: bool = True
    choices: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _choices_fit(self) -> Self:
        if (self.kind == "choice") != bool(self.choices):
            raise ValueError("choices belong to a field of kind 'choice', and each such field needs some")
        return self


class Question(FrozenModel):
    """A question to people. `about` is shown to them as data; nothing in it is trusted."""

    kind: QuestionKind
    question: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_CHARS)]
    about: Json = Field(default_factory=dict)
    fields: tuple[FormField, ...] = ()
    #: what a person may change before agreeing; None when there is nothing to change
    editable: Any = None
    #: seconds until `default` is taken as the answer; None waits for ever
    timeout_s: Annotated[float, Field(gt=0, le=3.2e9)] | None = None
    #: taken without a value, as it was asked: "edit" has none, and "approve" does not fill in a form
    default: Decision = Decision.REJECT

    @model_validator(mode="after")
    def _default_fits(self) -> Self:
        if self.default is Decision.EDIT:
            raise ValueError("the default cannot be 'edit': nobody is there to change anything")
        if self.default is Decision.APPROVE and any(field.required for field in self.fields):
            raise ValueError("the default cannot be 'approve' where a field is required: nobody is there to fill it in")
        return self

    @model_validator(mode="after")
    def _fields_differ(self) -> Self:
        names = [field.name for field in self.fields]
        if len(names) != len(set(names)):
            raise ValueError("two fields have the same name")
        return self


class Answer(FrozenModel):
    """What a person, or the time, decided."""

    decision: Decision
    #: what was changed or filled in
    value: Any = None
    feedback: str | None = None
    by: str | None = None
    #: nobody answered in time: it is the question's default
    timed_out: bool = False

    @property
    def agrees(self) -> bool:
        """Whether the matter may go on."""
        return self.decision in (Decision.APPROVE, Decision.EDIT)
