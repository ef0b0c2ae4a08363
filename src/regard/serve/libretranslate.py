"""LibreTranslate's HTTP API, which its clients speak: translate, detect, languages, files.

Written after the API's description and what its clients send; errors have the status codes that they expect.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from regard.serve.batching_queue import BatchingQueue
from regard.serve.document_translation import Job, translate_documents
from regard.serve.file_formats import SUFFIXES, media_type, open_document
from regard.serve.html_documents import HtmlDocument
from regard.serve.http_errors import SAID, Problem
from regard.serve.language_detection import detect
from regard.serve.language_routing import Routes, english_name
from regard.serve.libretranslate_answers import (
    Detected,
    FrontendLanguage,
    FrontendLanguages,
    FrontendSettings,
    Language,
    Translated,
    TranslatedFile,
)
from regard.serve.libretranslate_requests import (
    AUTO,
    FORMATS,
    MOST_ALTERNATIVES,
    detect_body,
    file_body,
    most_characters,
    read_fields,
    refused,
    translate_body,
)
from regard.serve.request_limits import Limits
from regard.serve.served_models import Served
from regard.serve.text_documents import Document, TextDocument
from regard.serve.translated_files import TranslatedFiles, shown_name

Admit = Callable[[Request, str | None], None]
"""Raises an HTTPException unless a request with this API key may be answered."""

TYPING_PAUSE: Final = 500
"""Milliseconds that a client waits after a key was typed before it translates."""
_ENGLISH: Final = "en"
_NO_ENTRY, _GONE = 403, 404
_STATUSES: Final = (400, 408, 413, 429, 500, 503, 504)
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    **{status: SAID[status] for status in _STATUSES if status in SAID},
    _NO_ENTRY: {"model": Problem, "description": "The API key is missing or unknown."},
}


def libretranslate_routes(
    models: Sequence[Served],
    queue: BatchingQueue,
    limits: Limits,
    files: TranslatedFiles,
    admit: Admit = lambda request, key: None,
    needs_key: bool = False,
) -> APIRouter:
    """Return the router of LibreTranslate's paths; they are described if any model says its languages."""
    now = Routes(models)
    routes = APIRouter(tags=["LibreTranslate"], include_in_schema=bool(now.pairs))
    longest = most_characters(limits)

    @routes.post(
        "/translate",
        openapi_extra=translate_body(now, limits),
        responses=_PROBLEMS,
        response_model_exclude_none=True,
    )
    async def translate(request: Request) -> Translated:
        """Translate texts of any length, sentence by sentence; with `format` html, tags are kept.

        The fields may also be sent in the query string.
        """
        fields = await read_fields(request)
        admit(request, fields.option("api_key"))
        texts, source, target = fields.texts("q", limits), fields.text("source"), fields.text("target")
        kind = HtmlDocument if fields.choice("format", FORMATS) == "html" else TextDocument
        asked = fields.number("alternatives", MOST_ALTERNATIVES)
        pairs = Routes(models)
        documents: list[Document[str]] = await run_in_threadpool(lambda: [kind(text) for text in texts])
        found = [await _detected(document, source, target, pairs) for document in documents]
        jobs = [
            Job(document, each.language, pairs.find(each.language, pairs.known(target)))
            for document, each in zip(documents, found, strict=True)
        ]
        made = await translate_documents(jobs, queue, limits.characters, 0 if kind is HtmlDocument else asked)
        best, others = [each[0] for each in made], [each[1:] for each in made]
        is_list = isinstance(fields.values["q"], list)
        return Translated(
            translatedText=best if is_list else best[0],
            detectedLanguage=None if source != AUTO else found if is_list else found[0],
            alternatives=None if not asked else others if is_list else others[0],
        )

    @routes.post("/detect", openapi_extra=detect_body(limits), responses=_PROBLEMS)
    async def detect_language(request: Request) -> list[Detected]:
        """Detect the language of a text: those that are served, the most probable first."""
        fields = await read_fields(request)
        admit(request, fields.option("api_key"))
        text = "\n".join(fields.texts("q", limits))
        found = await run_in_threadpool(detect, text, Routes(models).languages or [_ENGLISH])
        return [Detected(confidence=each.confidence, language=each.language) for each in found]

    @routes.get("/languages")
    def languages() -> list[Language]:
        """List the languages that are read and written."""
        pairs = Routes(models)
        return [Language(code=code, name=english_name(code), targets=pairs.targets(code)) for code in pairs.languages]

    @routes.get("/frontend/settings")
    def settings() -> FrontendSettings:
        """Tell clients what they may send."""
        source, target = next(iter(Routes(models).pairs), (_ENGLISH, _ENGLISH))
        return FrontendSettings(
            charLimit=longest,
            frontendTimeout=TYPING_PAUSE,
            apiKeys=needs_key,
            keyRequired=needs_key,
            suggestions=False,
            filesTranslation=True,
            supportedFilesFormat=[*SUFFIXES],
            language=FrontendLanguages(source=_named(source), target=_named(target)),
        )

    @routes.post("/translate_file", openapi_extra=file_body(now, SUFFIXES), responses=_PROBLEMS)
    async def translate_file(request: Request) -> TranslatedFile:
        """Translate a file; the answer says where the translated one can be fetched for half an hour."""
        fields = await read_fields(request)
        admit(request, fields.option("api_key"))
        (name, content), source, target = fields.file("file"), fields.text("source"), fields.text("target")
        document = await run_in_threadpool(open_document, name, content)
        size = len(document.text())
        if size > longest:
            raise refused(f"the file has {size:,} characters, and at most {longest:,} are allowed")
        pairs = Routes(models)
        found, to = await _detected(document, source, target, pairs), pairs.known(target)
        job = Job(document, found.language, pairs.find(found.language, to))
        ((written,),) = await translate_documents([job], queue, limits.characters)
        stem, dot, suffix = name.rpartition(".")
        kept = await run_in_threadpool(files.add, f"{stem}_{to}{dot}{suffix.lower()}", written)
        return TranslatedFile(translatedFileUrl=str(request.url_for("download_file", name=kept)))

    gone: dict[int | str, dict[str, Any]] = {
        _GONE: {"model": Problem, "description": "There is no such file, or no longer."}
    }
    content = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

    @routes.get("/download_file/{name}", responses={200: content, **gone}, response_class=Response)
    def download_file(name: str) -> Response:
        """Fetch a translated file."""
        found = files.get(name)
        if found is None:
            raise HTTPException(_GONE, "There is no such file, or no longer: translated files are kept for a while.")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(shown_name(name))}",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return Response(found, media_type=media_type(name), headers=headers)

    return routes


async def _detected(document: Document[Any], source: str, target: str, pairs: Routes) -> Detected:
    """Return the language of a document: the one that was given, or the one that it seems to be in."""
    if source.lower() != AUTO:
        return Detected(confidence=100, language=pairs.known(source))
    found = await run_in_threadpool(detect, document.text(), pairs.candidates(pairs.known(target)))
    return Detected(confidence=found[0].confidence, language=found[0].language)


def _named(code: str) -> FrontendLanguage:
    return FrontendLanguage(code=code, name=english_name(code))
