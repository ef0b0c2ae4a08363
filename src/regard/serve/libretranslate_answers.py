"""What LibreTranslate's paths answer."""

from pydantic import BaseModel, Field


class Detected(BaseModel):
    """A language that a text may be in."""

    confidence: float = Field(ge=0, le=100, description="In percent.")
    language: str


class Translated(BaseModel):
    """The translation of a text; lists where a list was sent."""

    translatedText: str | list[str]  # noqa: N815 (as clients know it)
    detectedLanguage: Detected | list[Detected] | None = Field(None, description="If the source is auto.")  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = Field(None, description="If they were asked for.")


class Language(BaseModel):
    """A language that is read or written."""

    code: str
    name: str = Field(description="Its English name.")
    targets: list[str] = Field(description="The languages that it is translated to.")


class TranslatedFile(BaseModel):
    """Where a translated file can be fetched for a while."""

    translatedFileUrl: str  # noqa: N815


class FrontendLanguage(BaseModel):
    """A language that a client may begin with."""

    code: str
    name: str


class FrontendLanguages(BaseModel):
    """The pair of languages that a client may begin with."""

    source: FrontendLanguage
    target: FrontendLanguage


class FrontendSettings(BaseModel):
    """What clients show and allow."""

    charLimit: int = Field(description="Of one text.")  # noqa: N815
    frontendTimeout: int = Field(description="Milliseconds to wait after a key was typed.")  # noqa: N815
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    suggestions: bool
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    language: FrontendLanguages
